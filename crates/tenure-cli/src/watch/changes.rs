//! Changes between two snapshots of the locks.

use std::collections::HashMap;
use std::time::Duration;

use tenure::driver::{About, Entry, Holder, Mode, Waiter};
use tenure::{Fence, Name, Owner};

/// One change of a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) event: Event,
    pub(super) name: Name,
    pub(super) owner: Owner,
    pub(super) mode: Mode,
    pub(super) fence: Option<Fence>,
    pub(super) about: About,
}

/// The kind of a change; scripts depend on the words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// A lease expired.
    Expired,
    /// A claim was granted.
    Granted,
    /// A lock was already held when the watch began.
    Held,
    /// A waiter left the line, and was not seen to hold the lock.
    Left,
    /// A lock was released, or taken away.
    Released,
    /// A claim waits in line.
    Waiting,
}

impl Event {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Granted => "granted",
            Self::Held => "held",
            Self::Left => "left",
            Self::Released => "released",
            Self::Waiting => "waiting",
        }
    }
}

/// Returns the state at the beginning of the watch, as changes.
pub(super) fn at_first(entries: &[Entry]) -> Vec<Change> {
    let mut changes = between(&[], entries, Duration::ZERO);
    for change in &mut changes {
        if change.event == Event::Granted {
            change.event = Event::Held;
        }
    }
    changes
}

/// Returns the changes between two snapshots that are at most `apart` from each other. For each
/// name, what ended comes first.
pub(super) fn between(before: &[Entry], after: &[Entry], apart: Duration) -> Vec<Change> {
    let (old, new) = (by_name(before), by_name(after));
    let mut names: Vec<_> = old.keys().chain(new.keys()).copied().collect();
    names.sort_unstable();
    names.dedup();
    let mut changes = Vec::new();
    for name in names {
        let nothing = Entry::new(name.clone());
        let old = old.get(name).copied().unwrap_or(&nothing);
        let new = new.get(name).copied().unwrap_or(&nothing);
        of_name(old, new, apart, &mut changes);
    }
    changes
}

fn of_name(old: &Entry, new: &Entry, apart: Duration, changes: &mut Vec<Change>) {
    let name = &new.name;
    for gone in old.holders.iter().filter(|one| !holds(new, one)) {
        let event = match gone.expires_in <= apart {
            true => Event::Expired,
            false => Event::Released,
        };
        changes.push(of_holder(event, name, gone));
    }
    for gone in old.waiters.iter().filter(|one| !waits(new, one)) {
        if !new.holders.iter().any(|holder| holder.claim == gone.claim) {
            changes.push(of_waiter(Event::Left, name, gone));
        }
    }
    for come in new.holders.iter().filter(|one| !holds(old, one)) {
        changes.push(of_holder(Event::Granted, name, come));
    }
    for come in new.waiters.iter().filter(|one| !waits(old, one)) {
        changes.push(of_waiter(Event::Waiting, name, come));
    }
}

/// Returns whether this very claim holds the name; claims of one owner are compared one by one.
fn holds(entry: &Entry, one: &Holder) -> bool {
    let mut holders = entry.holders.iter();
    // If the store lost a claim and granted it again, it has a new fence.
    holders.any(|other| (&other.claim, other.fence) == (&one.claim, one.fence))
}

fn waits(entry: &Entry, one: &Waiter) -> bool {
    entry.waiters.iter().any(|other| other.claim == one.claim)
}

fn of_holder(event: Event, name: &Name, holder: &Holder) -> Change {
    Change {
        event,
        name: name.clone(),
        owner: holder.owner.clone(),
        mode: holder.mode,
        fence: Some(holder.fence),
        about: holder.about.clone(),
    }
}

fn of_waiter(event: Event, name: &Name, waiter: &Waiter) -> Change {
    Change {
        event,
        name: name.clone(),
        owner: waiter.owner.clone(),
        mode: waiter.mode,
        fence: None,
        about: waiter.about.clone(),
    }
}

fn by_name(entries: &[Entry]) -> HashMap<&Name, &Entry> {
    entries.iter().map(|entry| (&entry.name, entry)).collect()
}

#[cfg(test)]
mod tests {
    use tenure::ClaimId;

    use super::*;

    const LOOK: Duration = Duration::from_millis(500);

    #[test]
    fn a_hand_over_is_a_release_and_a_grant() {
        let before = [entry(&[("ann", 1, 30)], &["bob"])];
        let after = [entry(&[("bob", 2, 30)], &[])];
        assert_eq!(words(&before, &after), ["released ann", "granted bob"]);
    }

    #[test]
    fn a_lease_that_ran_out_has_expired() {
        let before = [entry(&[("ann", 1, 0)], &[])];
        assert_eq!(words(&before, &[]), ["expired ann"]);
    }

    #[test]
    fn who_comes_to_the_line_waits_and_who_goes_has_left() {
        let before = [entry(&[("ann", 1, 30)], &["bob"])];
        let after = [entry(&[("ann", 1, 30)], &["eve"])];
        assert_eq!(words(&before, &after), ["left bob", "waiting eve"]);
    }

    #[test]
    fn the_same_owner_with_a_new_fence_is_a_new_grant() {
        let before = [entry(&[("ann", 1, 30)], &[])];
        let after = [entry(&[("ann", 2, 30)], &[])];
        assert_eq!(words(&before, &after), ["released ann", "granted ann"]);
    }

    #[test]
    fn claims_of_one_owner_come_and_go_one_by_one() {
        let mut two = entry(&[("ann", 1, 30)], &[]).holders.remove(0);
        two.claim = ClaimId::new("ann again").unwrap();
        let before = [entry(&[("ann", 1, 30)], &[])];
        let mut after = before.clone();
        after[0].holders.push(two);
        assert_eq!(words(&before, &after), ["granted ann"]);
        assert_eq!(words(&after, &before), ["released ann"]);
    }

    #[test]
    fn what_was_there_at_first_is_held() {
        let changes = at_first(&[entry(&[("ann", 1, 30)], &["bob"])]);
        let events: Vec<_> = changes.iter().map(|change| change.event).collect();
        assert_eq!(events, [Event::Held, Event::Waiting]);
    }

    #[test]
    fn nothing_changed_is_no_change() {
        let entries = [entry(&[("ann", 1, 30)], &["bob"])];
        assert!(between(&entries, &entries, LOOK).is_empty());
    }

    fn words(before: &[Entry], after: &[Entry]) -> Vec<String> {
        let changes = between(before, after, LOOK);
        let words = changes.iter();
        words
            .map(|change| format!("{} {}", change.event.word(), change.owner))
            .collect()
    }

    fn entry(holders: &[(&str, u64, u64)], waiters: &[&str]) -> Entry {
        let about = || About::this_process(None);
        let holder = |&(owner, fence, seconds): &(&str, u64, u64)| {
            let (claim, fence) = (ClaimId::new(owner).unwrap(), Fence::new(fence).unwrap());
            Holder::new(claim, fence, about(), Duration::from_secs(seconds))
        };
        let waiter = |owner: &&str| Waiter::new(ClaimId::new(owner).unwrap(), about());
        let mut entry = Entry::new(Name::new("a").unwrap());
        entry.holders = holders.iter().map(holder).collect();
        entry.waiters = waiters.iter().map(waiter).collect();
        entry
    }
}

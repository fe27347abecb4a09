//! First come, first served.

use std::collections::HashMap;

use super::Breaches;
use crate::claims::{Claim, Name, View};
use crate::history::Mode;

/// Looks for claims in line that a later claim of another process overtook.
pub(super) fn rule(view: &View<'_>) -> Breaches {
    let mut breaches = Breaches::default();
    for name in &view.names {
        sweep(view, name, &mut breaches);
    }
    breaches
}

/// A later claim, and when it was granted.
#[derive(Clone, Copy)]
struct Entry {
    claim: usize,
    process: u32,
    granted_us: u64,
}

/// Goes backwards in time, so that all claims that were asked later than the one in line are
/// already known.
fn sweep(view: &View<'_>, name: &Name<'_>, breaches: &mut Breaches) {
    let slack = view.expect.order_slack_us;
    let mut late = places(view, name);
    late.sort_unstable();
    let mut late = late.into_iter().rev().peekable();
    let mut line: Vec<_> = name
        .claims
        .iter()
        .filter_map(|number| Some((waits(view, &view.claims[*number])?, *number)))
        .collect();
    line.sort_unstable_by(|one, other| other.cmp(one));
    let mut earliest = Earliest::default();
    for ((queued_us, until_us), number) in line {
        let arrived_us = queued_us.saturating_add(slack);
        while let Some((_, claim)) = late.next_if(|(since_us, _)| *since_us > arrived_us) {
            if let Some(entry) = enters(view, claim) {
                earliest.add(entry);
            }
        }
        let process = view.claims[number].process;
        let past = earliest.of_another(process);
        let past = past.filter(|it| it.granted_us.saturating_add(slack) < until_us);
        if let Some(past) = past {
            let granted = view.grant_of(past.claim).unwrap_or_default();
            breaches.note(granted, || tell(view, number, past.claim));
        }
    }
}

/// Returns since when each claim has its place in line.
///
/// This is when it was asked, or the time of an earlier claim of its process that gave up its wait
/// later: a process may keep its place for its next claim.
fn places(view: &View<'_>, name: &Name<'_>) -> Vec<(u64, usize)> {
    let mut kept: HashMap<u32, Vec<(usize, u64)>> = HashMap::new();
    let mut places = Vec::with_capacity(name.claims.len());
    for number in &name.claims {
        let claim = &view.claims[*number];
        let own = kept.entry(claim.process).or_default();
        let asked_us = view.at(claim.asked);
        let slack = view.expect.order_slack_us;
        own.retain(|(gave_up, _)| view.at(*gave_up).saturating_add(slack) > asked_us);
        let since_us = own.iter().map(|(_, since_us)| *since_us).min();
        let since_us = since_us.map_or(asked_us, |since_us| since_us.min(asked_us));
        let dropped = claim.releases.first().map(|release| release.began);
        let dropped = dropped.filter(|_| claim.granted.is_none());
        let gave_up = claim.refused.or(claim.unknown).or(dropped);
        if let Some(gave_up) = gave_up.filter(|_| claim.mode == Mode::Exclusive) {
            own.push((gave_up, since_us));
        }
        places.push((since_us, *number));
    }
    pass_on(view, &mut places);
    places
}

/// A grant, including the claims that it was passed on to inside its process.
#[derive(Clone, Copy)]
struct Pass {
    fence: u64,
    process: u32,
    first_us: u64,
    since_us: u64,
}

/// Gives claims the place of the claim that passed its grant on to them.
///
/// For a while after a grant, its process may do so without asking the store. The claim then has
/// the next fence. A process that keeps its grant may also do so later, until it learns that
/// somebody waits. A process that has just returned from a pause has not learned it yet.
fn pass_on(view: &View<'_>, places: &mut [(u64, usize)]) {
    let slack = view.expect.order_slack_us;
    let granted = places.iter_mut().filter_map(|(since_us, number)| {
        let entry = goes_in(view, *number)?;
        let fence = view.claims[*number].granted?.fence?;
        Some((fence, entry, since_us))
    });
    let mut granted: Vec<_> = granted.collect();
    granted.sort_unstable_by_key(|(fence, entry, _)| (*fence, entry.granted_us));
    let mut last: Option<Pass> = None;
    for (fence, entry, since_us) in granted {
        // A nested call has the place of the outer one.
        if last.is_some_and(|it| it.fence == fence && it.process == entry.process) {
            continue;
        }
        let passed = last.filter(|it| {
            let in_time = entry.granted_us <= it.first_us.saturating_add(slack);
            let is_next = it.fence.checked_add(1) == Some(fence) && it.process == entry.process;
            is_next && (in_time || is_just_back(view, &view.claims[entry.claim]))
        });
        if let Some(passed) = passed {
            *since_us = passed.since_us.min(*since_us);
        }
        let new = Pass {
            fence,
            process: entry.process,
            first_us: entry.granted_us,
            since_us: *since_us,
        };
        last = Some(passed.map_or(new, |passed| Pass { fence, ..passed }));
    }
}

/// Returns whether a claim was asked within the slack after a pause of its process.
fn is_just_back(view: &View<'_>, claim: &Claim) -> bool {
    let pauses = view.pauses.get(&claim.process).map_or(&[][..], |all| all);
    let ended = pauses.partition_point(|it| it.over.is_some_and(|over| over < claim.asked));
    let last = ended.checked_sub(1).and_then(|last| pauses[last].over);
    let asked_us = view.at(claim.asked);
    last.is_some_and(|over| asked_us <= view.at(over).saturating_add(view.expect.order_slack_us))
}

/// Returns from when to when a claim was in line, if it had a right to its place all the time.
fn waits(view: &View<'_>, claim: &Claim) -> Option<(u64, u64)> {
    let queued_us = view.at(claim.queued?);
    let failed = claim.refused.is_some() || claim.unknown.is_some();
    let gone = claim.granted.is_none() && claim.closed().is_some();
    if claim.mode != Mode::Exclusive || failed || gone {
        return None;
    }
    let until = claim.granted.map(|grant| grant.event);
    let until_us = until.map_or_else(|| view.end_us(), |event| view.at(event));
    let last = until.unwrap_or(view.events.len());
    let pauses = view.pauses.get(&claim.process).map_or(&[][..], |all| all);
    let ended = pauses.partition_point(|it| it.over.is_some_and(|over| over < claim.asked));
    let paused = pauses.get(ended).is_some_and(|pause| pause.from < last);
    (!paused && queued_us < until_us).then_some((queued_us, until_us))
}

/// Returns when a claim was granted, if it could have overtaken others. An owner with several
/// claims may do so.
fn enters(view: &View<'_>, number: usize) -> Option<Entry> {
    goes_in(view, number).filter(|_| !view.claims[number].shares_owner)
}

/// Returns when a claim was granted. A nested call of the holder overtakes nobody.
fn goes_in(view: &View<'_>, number: usize) -> Option<Entry> {
    let claim = &view.claims[number];
    let grant = claim.granted?;
    let counts = claim.mode == Mode::Exclusive && !claim.reentry;
    counts.then(|| Entry {
        claim: number,
        process: claim.process,
        granted_us: view.at(grant.event),
    })
}

/// The earliest entries of two different processes, so that there is always the earliest one of
/// another process.
#[derive(Default)]
struct Earliest {
    first: Option<Entry>,
    second: Option<Entry>,
}

impl Earliest {
    fn add(&mut self, entry: Entry) {
        let before = |it: &Option<Entry>| it.is_none_or(|it| entry.granted_us <= it.granted_us);
        if before(&self.first) {
            let same = self.first.is_some_and(|it| it.process == entry.process);
            if !same {
                self.second = self.first;
            }
            self.first = Some(entry);
        } else if self.first.is_some_and(|it| it.process != entry.process) && before(&self.second) {
            self.second = Some(entry);
        }
    }

    fn of_another(&self, process: u32) -> Option<Entry> {
        let first = self.first.filter(|it| it.process != process);
        first.or(self.second)
    }
}

fn tell(view: &View<'_>, number: usize, past: usize) -> (String, Vec<usize>) {
    let (early, late, name) = (view.called(number), view.called(past), view.name_of(number));
    let claim = &view.claims[number];
    let so_far = match claim.granted {
        Some(_) => "before it",
        None => "while it still waits",
    };
    let sentence = format!(
        "{late} asked for \"{name}\" when {early} already stood in line, and was granted it {so_far}"
    );
    let mut events = vec![view.claims[past].asked];
    events.extend(claim.queued);
    events.extend(view.grant_of(past));
    events.extend(view.grant_of(number));
    (sentence, events)
}

//! The holders of one name at a moment, and which of them exclude a newcomer.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::Mode;

/// The holders of one name.
///
/// No operation iterates over all of them, because a lock that lets everybody in has many.
#[derive(Debug, Default)]
pub(crate) struct Holders {
    exclusive: Side,
    shared: Side,
    permits: Side,
    /// The number of permits taken; an owner with several claims counts once, with the largest.
    taken: u64,
}

/// The holders in one mode: what the claims of each owner take, and which claims they are.
type Side = BTreeMap<usize, BTreeSet<(u32, usize)>>;

/// How many claims to show to a reader.
const SHOWN: usize = 4;

impl Holders {
    /// Adds a claim.
    pub(crate) fn enter(&mut self, claim: usize, owner: usize, mode: Mode) {
        self.change(owner, mode, |side, take| {
            side.entry(owner).or_default().insert((take, claim));
        });
    }

    /// Removes a claim.
    pub(crate) fn leave(&mut self, claim: usize, owner: usize, mode: Mode) {
        self.change(owner, mode, |side, take| {
            if let Some(own) = side.get_mut(&owner) {
                own.remove(&(take, claim));
                if own.is_empty() {
                    side.remove(&owner);
                }
            }
        });
    }

    /// Returns claims of other owners that prevent `owner` from holding in this mode; only some of
    /// them if there are many.
    ///
    /// Returns an empty list, not `None`, if the claim takes more permits than there are.
    pub(crate) fn against(&self, owner: usize, mode: Mode) -> Option<Vec<usize>> {
        let other = |side: &Side| {
            let others = side.iter().find(|(holder, _)| **holder != owner);
            others.and_then(|(_, own)| own.first()).map(|held| held.1)
        };
        if let Some(claim) = other(&self.exclusive) {
            return Some(vec![claim]);
        }
        match mode {
            Mode::Exclusive => other(&self.shared)
                .or_else(|| other(&self.permits))
                .map(|claim| vec![claim]),
            Mode::Shared => None,
            Mode::Permits { take, of } => {
                let own = largest(&self.permits, owner);
                let wanted = self.taken - u64::from(own) + u64::from(own.max(take));
                (wanted > u64::from(of)).then(|| self.permits_of_others(owner))
            }
        }
    }

    fn permits_of_others(&self, owner: usize) -> Vec<usize> {
        let others = self.permits.iter().filter(|(holder, _)| **holder != owner);
        let claims = others.filter_map(|(_, own)| own.last()).map(|held| held.1);
        claims.take(SHOWN).collect()
    }

    fn change(&mut self, owner: usize, mode: Mode, change: impl FnOnce(&mut Side, u32)) {
        match mode {
            Mode::Exclusive => change(&mut self.exclusive, 0),
            Mode::Shared => change(&mut self.shared, 0),
            Mode::Permits { take, .. } => {
                let before = u64::from(largest(&self.permits, owner));
                change(&mut self.permits, take);
                let after = u64::from(largest(&self.permits, owner));
                self.taken = self.taken - before + after;
            }
        }
    }
}

/// Returns the most permits that one claim of the owner takes.
fn largest(side: &Side, owner: usize) -> u32 {
    let own = side.get(&owner).and_then(BTreeSet::last);
    own.map_or(0, |(take, _)| *take)
}

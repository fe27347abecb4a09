//! Who holds one name at a moment, and who of them excludes a newcomer.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::Mode;

/// The holders of one name.
///
/// Every question is answered without looking at all of them: a lock that lets everybody in has many.
#[derive(Debug, Default)]
pub(crate) struct Holders {
    exclusive: Side,
    shared: Side,
    permits: Side,
    /// The permits that are taken; an owner that holds several claims counts once, with the largest.
    taken: u64,
}

/// The holders in one mode: for each owner what its claims take, and which they are.
type Side = BTreeMap<usize, BTreeSet<(u32, usize)>>;

/// As many as a reader wants to see.
const SHOWN: usize = 4;

impl Holders {
    /// Adds a claim.
    pub(crate) fn enter(&mut self, claim: usize, owner: usize, mode: Mode) {
        self.change(owner, mode, |side, take| {
            side.entry(owner).or_default().insert((take, claim));
        });
    }

    /// Takes a claim out.
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

    /// The claims of others, some of them if they are many, beside which `owner` cannot hold in this mode.
    ///
    /// Empty, but not `None`, where a claim takes more permits than there are.
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

/// The most permits that one claim of the owner takes.
fn largest(side: &Side, owner: usize) -> u32 {
    let own = side.get(&owner).and_then(BTreeSet::last);
    own.map_or(0, |(take, _)| *take)
}

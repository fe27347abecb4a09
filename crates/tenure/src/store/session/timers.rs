//! What has to be done for a claim, and when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::clock::Tick;
use crate::name::{ClaimId, Name};

/// Claims in the order in which they have to be looked at.
///
/// A claim may be in it more than once, and after its end: whoever takes it out looks what is to be done.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    due: BinaryHeap<Reverse<(Tick, Name, ClaimId)>>,
}

impl Timers {
    /// Adds a claim; returns whether it is now the first.
    pub(crate) fn add(&mut self, at: Tick, name: &Name, claim: &ClaimId) -> bool {
        let is_first = self.next().is_none_or(|first| at < first);
        self.due.push(Reverse((at, name.clone(), claim.clone())));
        is_first
    }

    /// Returns when the first claim is due.
    pub(crate) fn next(&self) -> Option<Tick> {
        self.due.peek().map(|Reverse((at, ..))| *at)
    }

    /// Takes out a claim that is due.
    pub(crate) fn take(&mut self, now: Tick) -> Option<(Name, ClaimId)> {
        self.next().filter(|first| *first <= now)?;
        self.due
            .pop()
            .map(|Reverse((_, name, claim))| (name, claim))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn claims_come_out_when_they_are_due() {
        let at = |seconds| Tick::default() + Duration::from_secs(seconds);
        let name = Name::new("a").unwrap();
        let (one, two) = (ClaimId::unique(), ClaimId::unique());
        let mut timers = Timers::default();
        assert!(timers.add(at(5), &name, &one));
        assert!(timers.add(at(3), &name, &two));
        assert!(!timers.add(at(4), &name, &one));
        assert_eq!(timers.take(at(2)), None);
        assert_eq!(timers.take(at(4)), Some((name.clone(), two)));
        assert_eq!(timers.take(at(4)), Some((name, one)));
        assert_eq!((timers.take(at(4)), timers.next()), (None, Some(at(5))));
    }
}

//! What a client does next, by lot.

use std::time::Duration;

use fastrand::Rng;
use tenure_checker::Mode;

/// The lots of one task: the same seed draws the same.
#[derive(Debug)]
pub(super) struct Lots {
    lots: Rng,
    ttl: Duration,
    names: usize,
    permits: bool,
}

/// A claim as it was drawn.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    /// Which of the names.
    pub(super) name: usize,
    pub(super) mode: Mode,
    pub(super) way: Way,
    pub(super) who: Who,
    /// Whether the holder locks the name once more inside.
    pub(super) nested: bool,
    /// How long the work takes.
    pub(super) work: Duration,
    /// Whether the holder writes even if it has lost the lock: only the fence can stop it then.
    pub(super) careless: bool,
    pub(super) end: End,
}

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    /// An owner that the store knows, and counts how often it locks.
    Named,
    /// The task, which may lock again without the store; its lease may be passed on inside the process.
    Task,
    /// Nobody in particular; the lease may be passed on too.
    Nobody,
}

/// How a lock is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Wait,
    Try,
    Patience(Duration),
}

/// How a lock is given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Release,
    Drop,
}

impl Lots {
    pub(super) fn new(seed: u64, ttl: Duration, names: usize, permits: bool) -> Self {
        Self {
            lots: Rng::with_seed(seed),
            ttl,
            names,
            permits,
        }
    }

    /// Draws a claim.
    pub(super) fn draft(&mut self) -> Draft {
        let mode = self.mode();
        let who = match self.lots.u32(..100) {
            0..20 if mode == Mode::Exclusive => Who::Task,
            20..40 if mode == Mode::Exclusive => Who::Nobody,
            _ => Who::Named,
        };
        Draft {
            name: self.lots.usize(..self.names),
            mode,
            way: self.way(),
            who,
            nested: who != Who::Nobody && mode == Mode::Exclusive && self.percent(20),
            work: self.work(),
            careless: self.percent(25),
            end: match self.percent(85) {
                true => End::Release,
                false => End::Drop,
            },
        }
    }

    /// Draws how long to rest between two claims.
    pub(super) fn rest(&mut self) -> Duration {
        Duration::from_micros(self.lots.u64(..10_000))
    }

    fn mode(&mut self) -> Mode {
        match self.lots.u32(..100) {
            0..70 => Mode::Exclusive,
            70..85 if self.permits => Mode::Permits {
                take: self.lots.u32(1..=2),
                of: PERMITS,
            },
            _ => Mode::Shared,
        }
    }

    fn way(&mut self) -> Way {
        match self.lots.u32(..100) {
            0..70 => Way::Wait,
            70..85 => Way::Try,
            _ => Way::Patience(self.lots.u32(1..=20) * self.ttl / 10),
        }
    }

    /// Four of five are short. The others last up to two ttls, and many outlive their lease unless it is renewed.
    fn work(&mut self) -> Duration {
        match self.percent(80) {
            true => Duration::from_micros(self.lots.u64(..20_000)),
            false => self.ttl.mul_f64(2.0 * self.lots.f64().powi(3)),
        }
    }

    fn percent(&mut self, percent: u32) -> bool {
        self.lots.u32(..100) < percent
    }
}

/// How many permits a name has.
const PERMITS: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_claim_is_drawn_and_no_permits_where_there_are_none() {
        let all = |permits| {
            let mut lots = Lots::new(7, Duration::from_secs(1), 3, permits);
            (0..1000).map(|_| lots.draft()).collect::<Vec<_>>()
        };
        let drawn = all(true);
        let has = |wanted: fn(&Draft) -> bool| drawn.iter().any(wanted);
        assert!(has(|draft| draft.mode == Mode::Exclusive && draft.nested));
        assert!(has(|draft| draft.mode == Mode::Shared));
        assert!(has(|draft| matches!(draft.mode, Mode::Permits { .. })));
        assert!(has(|draft| draft.way == Way::Try));
        assert!(has(|draft| matches!(draft.way, Way::Patience(_))));
        assert!(has(|draft| draft.who == Who::Nobody));
        assert!(has(|draft| draft.who == Who::Task && draft.nested));
        assert!(has(|draft| draft.end == End::Drop));
        assert!(has(|draft| draft.careless));
        assert!(has(|draft| draft.work > Duration::from_secs(1)));
        let without = all(false);
        let has_permits = |draft: &Draft| matches!(draft.mode, Mode::Permits { .. });
        assert!(!without.iter().any(has_permits));
    }
}

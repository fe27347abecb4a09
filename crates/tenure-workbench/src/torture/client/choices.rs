//! Chooses at random what a client does next.

use std::time::Duration;

use fastrand::Rng;
use tenure::driver::Capabilities;
use tenure_checker::Mode;

/// The random choices of one task; the same seed makes the same choices.
#[derive(Debug)]
pub(super) struct Choices {
    random: Rng,
    ttl: Duration,
    /// How many names there are.
    names: usize,
    /// How many owners all processes share.
    owners: usize,
    can: Capabilities,
}

/// What a task does next.
#[derive(Debug, Clone)]
pub(super) enum Act {
    /// It asks for a lock.
    Claim(Draft),
    /// It takes over a lease by hand that another task has left, usually a task of another process.
    TakeUp(Draft),
}

/// A claim as it was chosen.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    /// The index of the name.
    pub(super) name: usize,
    pub(super) mode: Mode,
    pub(super) way: Way,
    pub(super) who: Who,
    pub(super) options: Options,
    pub(super) life: Life,
    /// Whether the holder locks the name again inside.
    pub(super) nested: bool,
    /// How long the work takes.
    pub(super) work: Duration,
    /// Whether the holder writes even if it has lost the lock, so that only the fence can stop it.
    pub(super) careless: bool,
    pub(super) end: End,
}

/// The owner that asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    /// An owner of this claim alone, and of the claims nested in it.
    Named,
    /// One of the owners that tasks of all processes share, by index.
    Shared(usize),
    /// The task, which may lock again without asking the store; its lease may be passed on inside
    /// the process.
    Task,
    /// Nobody in particular; the lease may be passed on as well.
    Nobody,
}

/// The options of a lock, which differ between the claims on a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) ttl: Duration,
    pub(super) keep: Duration,
    pub(super) at_least: Duration,
    pub(super) max_hold: Option<Duration>,
}

/// What the lease belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    /// The process: a guard.
    Guard,
    /// Nobody: a lease by hand.
    ByHand,
}

/// How to ask for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Wait,
    Try,
    Patience(Duration),
    /// Asks repeatedly with a short timeout.
    Retry {
        patience: Duration,
        tries: u32,
    },
    /// Drops the call if it takes longer.
    Drop(Duration),
}

/// How to give a lock back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Release,
    /// Releases a lease by hand twice, as after a lost reply; a guard once.
    Repeat,
    /// Drops a guard; leaves a lease by hand for another task to take over.
    Drop,
    /// Drops the release if it takes longer.
    Cut(Duration),
}

impl Choices {
    pub(super) fn new(
        seed: u64,
        ttl: Duration,
        names: usize,
        owners: usize,
        can: &Capabilities,
    ) -> Self {
        Self {
            random: Rng::with_seed(seed),
            ttl,
            names,
            owners,
            can: can.clone(),
        }
    }

    /// Chooses what to do next.
    pub(super) fn act(&mut self) -> Act {
        // Often, because everybody else waits for a lease that was left.
        let takes_up = self.can.by_hand && self.percent(50);
        let draft = self.draft();
        match takes_up {
            true => Act::TakeUp(draft),
            false => Act::Claim(draft),
        }
    }

    /// Chooses a claim.
    fn draft(&mut self) -> Draft {
        let mode = self.mode();
        let who = self.who(mode);
        let has_owner = matches!(who, Who::Named | Who::Shared(_));
        let life = match has_owner && self.can.by_hand && self.percent(15) {
            true => Life::ByHand,
            false => Life::Guard,
        };
        let nests = who != Who::Nobody && life == Life::Guard && mode == Mode::Exclusive;
        Draft {
            name: self.random.usize(..self.names),
            mode,
            way: self.way(),
            who,
            options: self.options(mode, who, life),
            life,
            nested: nests && self.percent(20),
            work: self.work(),
            careless: self.percent(25),
            end: self.end(life),
        }
    }

    /// Chooses how long to pause between two claims.
    pub(super) fn rest(&mut self) -> Duration {
        Duration::from_micros(self.random.u64(..10_000))
    }

    fn mode(&mut self) -> Mode {
        match self.random.u32(..100) {
            0..70 => Mode::Exclusive,
            70..85 if self.can.permits => Mode::Permits {
                take: self.random.u32(1..=2),
                of: PERMITS,
            },
            _ if self.can.shared => Mode::Shared,
            _ => Mode::Exclusive,
        }
    }

    fn who(&mut self, mode: Mode) -> Who {
        match self.random.u32(..100) {
            0..20 if mode == Mode::Exclusive => Who::Task,
            20..40 if mode == Mode::Exclusive => Who::Nobody,
            40..70 if self.can.shared_owners => Who::Shared(self.random.usize(..self.owners)),
            _ if self.can.shared_owners => Who::Named,
            _ => Who::Nobody,
        }
    }

    /// Chooses options that are valid together; most claims have none except a ttl.
    fn options(&mut self, mode: Mode, who: Who, life: Life) -> Options {
        let ttl = match self.random.u32(..100) {
            0..60 => self.ttl,
            60..85 => self.ttl / 2,
            _ => self.ttl * 2,
        };
        let mut options = Options {
            ttl: ttl.clamp(self.can.shortest_ttl, self.can.longest_ttl),
            keep: Duration::ZERO,
            at_least: Duration::ZERO,
            max_hold: None,
        };
        let part = self.ttl * self.random.u32(5..=100) / 100;
        let is_plain = mode == Mode::Exclusive && matches!(who, Who::Task | Who::Nobody);
        match self.random.u32(..100) {
            _ if life == Life::ByHand => {}
            0..35 if is_plain && self.can.calls => options.keep = part,
            40..45 if self.can.stays_taken => options.at_least = part / 2,
            50..60 => options.max_hold = Some(part),
            _ => {}
        }
        options
    }

    fn way(&mut self) -> Way {
        match self.random.u32(..100) {
            0..40 => Way::Wait,
            40..55 => Way::Try,
            55..62 => Way::Patience(self.random.u32(1..=20) * self.ttl / 10),
            62..82 => Way::Retry {
                patience: Duration::from_micros(self.random.u64(500..20_000)),
                tries: self.random.u32(2..30),
            },
            _ => Way::Drop(self.cut()),
        }
    }

    fn end(&mut self, life: Life) -> End {
        match self.random.u32(..100) {
            0..45 if life == Life::ByHand => End::Drop,
            0..65 => End::Release,
            65..75 => End::Repeat,
            75..90 => End::Drop,
            _ => End::Cut(self.cut()),
        }
    }

    /// Chooses when to drop a call: at once, within the time of a request, or within the time of a
    /// wait.
    fn cut(&mut self) -> Duration {
        match self.random.u32(..4) {
            0 => Duration::ZERO,
            1 => Duration::from_micros(self.random.u64(..1_000)),
            2 => Duration::from_micros(self.random.u64(..20_000)),
            _ => self.ttl.mul_f64(self.random.f64()),
        }
    }

    /// Chooses how long to work. Four of five are short. The others take up to two ttls, and many
    /// outlive their lease unless it is renewed.
    fn work(&mut self) -> Duration {
        match self.percent(80) {
            true => Duration::from_micros(self.random.u64(..20_000)),
            false => self.ttl.mul_f64(2.0 * self.random.f64().powi(3)),
        }
    }

    fn percent(&mut self, percent: u32) -> bool {
        self.random.u32(..100) < percent
    }
}

/// How many permits a name has.
const PERMITS: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(can: &Capabilities) -> Vec<Draft> {
        let mut choices = Choices::new(7, Duration::from_secs(1), 3, 2, can);
        (0..2000).map(|_| choices.draft()).collect()
    }

    #[test]
    fn every_kind_of_claim_is_chosen() {
        let chosen = chosen(&Capabilities::all());
        let has = |wanted: fn(&Draft) -> bool| assert!(chosen.iter().any(wanted));
        has(|draft| draft.mode == Mode::Exclusive && draft.nested);
        has(|draft| draft.mode == Mode::Shared);
        has(|draft| matches!(draft.mode, Mode::Permits { .. }));
        has(|draft| draft.way == Way::Try);
        has(|draft| matches!(draft.way, Way::Patience(_)));
        has(|draft| matches!(draft.way, Way::Retry { .. }));
        has(|draft| draft.way == Way::Drop(Duration::ZERO));
        has(|draft| draft.who == Who::Nobody && !draft.options.keep.is_zero());
        has(|draft| draft.who == Who::Task && draft.nested);
        has(|draft| draft.who == Who::Shared(1) && draft.nested);
        has(|draft| draft.who == Who::Shared(0) && draft.life == Life::ByHand);
        has(|draft| draft.options.max_hold.is_some());
        has(|draft| !draft.options.at_least.is_zero());
        has(|draft| draft.options.ttl > Duration::from_secs(1));
        has(|draft| draft.end == End::Drop);
        has(|draft| matches!(draft.end, End::Cut(_)));
        has(|draft| draft.careless);
        has(|draft| draft.work > Duration::from_secs(1));
    }

    #[test]
    fn nothing_is_chosen_that_the_store_cannot_do() {
        let mut can = Capabilities::all();
        can.permits = false;
        can.by_hand = false;
        can.shared_owners = false;
        can.stays_taken = false;
        can.calls = false;
        for draft in chosen(&can) {
            assert!(!matches!(draft.mode, Mode::Permits { .. }));
            assert!(matches!(draft.who, Who::Task | Who::Nobody));
            assert_eq!(draft.life, Life::Guard);
            assert_eq!(draft.options.at_least + draft.options.keep, Duration::ZERO);
        }
    }
}

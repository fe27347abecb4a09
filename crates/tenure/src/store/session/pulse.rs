//! For how long a session is certain to live.
//!
//! The servers end a session `timeout` after its last sign of life that reached the leader. An answer that the leader had
//! a part in proves that the session lived when the request was sent. The leader may have heard of it last a while
//! before: a follower passes signs of life on at each half of a tick, and this client gives one at each
//! [`interval`](Lifetime::interval). So the time for which nobody can get in counts from the request and is shorter than
//! the timeout.

use std::time::Duration;

use crate::clock::Tick;

/// What follows from the timeout of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lifetime {
    timeout: Duration,
}

impl Lifetime {
    pub(crate) fn of(timeout: Duration) -> Self {
        Self { timeout }
    }

    /// How long a session lives for certain after a request that proved it.
    ///
    /// Three quarters of the timeout, which leaves an eighth for the interval and an eighth for half a tick: enough for
    /// ticks of up to a quarter of the timeout. Half of a short one, which may be no more than two ticks.
    pub(crate) fn lasts(self) -> Duration {
        match self.timeout < SHORT {
            true => self.timeout / 2,
            false => self.timeout / 4 * 3,
        }
    }

    /// How often to prove it.
    pub(crate) fn interval(self) -> Duration {
        self.timeout / 8
    }

    /// Whether all of this fits into the timeout if servers tick so slowly.
    #[cfg(any(test, feature = "doctor"))]
    pub(crate) fn allows(self, tick: Duration) -> bool {
        self.lasts() + self.interval() + tick / 2 <= self.timeout
    }

    /// How long from `since` on a lease is certain to be good, of those `wanted`, if the session was proved at `proved`.
    pub(crate) fn left(self, proved: Tick, since: Tick, wanted: Duration) -> Duration {
        wanted.min((proved + self.lasts()).since(since))
    }

    /// Whether a lease that is `wanted` needs another proof: because it would be good for less than three quarters of
    /// the time that it could have.
    pub(crate) fn needs_proof(self, proved: Tick, since: Tick, wanted: Duration) -> bool {
        let best = wanted.min(self.lasts());
        self.left(proved, since, best) < best / 4 * 3
    }
}

/// Four ticks, at their default of 2 s.
const SHORT: Duration = Duration::from_secs(8);

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_default_session_carries_the_default_lease() {
        let lifetime = Lifetime::of(40 * SECOND);
        assert_eq!(lifetime.lasts(), crate::lock::DEFAULT_TTL);
    }

    #[test]
    fn interval_half_a_tick_and_what_lasts_fit_into_the_timeout() {
        for (timeout, tick) in [(8, 2), (40, 2), (12, 3), (4, 2), (2, 1)] {
            let lifetime = Lifetime::of(timeout * SECOND);
            assert!(lifetime.allows(tick * SECOND), "{timeout} s, tick {tick} s");
        }
        assert!(!Lifetime::of(8 * SECOND).allows(3 * SECOND));
    }

    #[test]
    fn a_lease_is_good_until_the_proof_is_too_old() {
        let lifetime = Lifetime::of(40 * SECOND);
        let proved = Tick::default();
        let left = |after, wanted| lifetime.left(proved, proved + after * SECOND, wanted * SECOND);
        assert_eq!(left(0, 60), 30 * SECOND);
        assert_eq!(left(5, 60), 25 * SECOND);
        assert_eq!(left(5, 10), 10 * SECOND);
        assert_eq!(left(31, 10), Duration::ZERO);
        let needs =
            |after, wanted| lifetime.needs_proof(proved, proved + after * SECOND, wanted * SECOND);
        assert!(!needs(5, 60) && needs(8, 60));
        assert!(!needs(15, 10) && needs(25, 10));
    }
}

//! What the engine counts: through the `metrics` facade if that feature is on, else nothing.

#[cfg(feature = "metrics")]
pub(crate) use on::Meter;

#[cfg(not(feature = "metrics"))]
pub(crate) use off::Meter;

#[cfg(feature = "metrics")]
mod on {
    use std::time::Duration;

    use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

    use crate::clock::{Clock, Tick};
    use crate::guard::Guard;

    /// Handles looked up once, so that counting costs no search.
    pub(crate) struct Meter {
        granted: Counter,
        held: Gauge,
        hold_seconds: Histogram,
        lost: Counter,
        wait_seconds: Histogram,
        waiting: Gauge,
    }

    impl Meter {
        pub(crate) fn new(store: &'static str) -> Self {
            Self {
                granted: counter!("tenure_granted_total", "store" => store),
                held: gauge!("tenure_held", "store" => store),
                hold_seconds: histogram!("tenure_hold_seconds", "store" => store),
                lost: counter!("tenure_lost_total", "store" => store),
                wait_seconds: histogram!("tenure_wait_seconds", "store" => store),
                waiting: gauge!("tenure_waiting", "store" => store),
            }
        }

        pub(crate) fn granted(&self) {
            self.granted.increment(1);
            self.held.increment(1);
        }

        pub(crate) fn given_back(&self, held: Duration) {
            self.held.decrement(1);
            self.hold_seconds.record(held);
        }

        pub(crate) fn lost(&self) {
            self.lost.increment(1);
        }

        pub(crate) fn wait(&self, now: Tick) -> Waiting<'_> {
            self.waiting.increment(1);
            Waiting {
                meter: self,
                since: now,
            }
        }
    }

    impl std::fmt::Debug for Meter {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.debug_struct("Meter").finish_non_exhaustive()
        }
    }

    /// One caller that waits; counted until dropped.
    pub(crate) struct Waiting<'a> {
        meter: &'a Meter,
        since: Tick,
    }

    impl Waiting<'_> {
        pub(crate) fn over(&self, guard: Guard, clock: &Clock) -> Guard {
            self.meter
                .wait_seconds
                .record(clock.now().since(self.since));
            guard
        }
    }

    impl Drop for Waiting<'_> {
        fn drop(&mut self) {
            self.meter.waiting.decrement(1);
        }
    }
}

#[cfg(not(feature = "metrics"))]
mod off {
    use std::time::Duration;

    use crate::clock::{Clock, Tick};
    use crate::guard::Guard;

    /// Counts nothing.
    #[derive(Debug)]
    pub(crate) struct Meter;

    impl Meter {
        pub(crate) fn new(_store: &'static str) -> Self {
            Self
        }

        pub(crate) fn granted(&self) {}

        pub(crate) fn given_back(&self, _held: Duration) {}

        pub(crate) fn lost(&self) {}

        pub(crate) fn wait(&self, _now: Tick) -> Waiting {
            Waiting
        }
    }

    /// One caller that waits.
    pub(crate) struct Waiting;

    impl Waiting {
        pub(crate) fn over(&self, guard: Guard, _clock: &Clock) -> Guard {
            guard
        }
    }
}

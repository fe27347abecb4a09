//! The engine's metrics: reported through the `metrics` facade if that feature is on, otherwise
//! compiled out.

use std::time::Duration;

#[cfg(feature = "metrics")]
use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use crate::clock::{Clock, Tick};
use crate::guard::Guard;

/// The metrics of one client.
pub(crate) struct Meter {
    #[cfg(feature = "metrics")]
    metrics: Metrics,
}

/// Metric handles, looked up once so that counting costs no search.
#[cfg(feature = "metrics")]
struct Metrics {
    granted: Counter,
    held: Gauge,
    hold_seconds: Histogram,
    lost: Counter,
    wait_seconds: Histogram,
    waiting: Gauge,
}

/// Updates a metric if the feature is on.
macro_rules! count {
    ($meter:expr, $metric:ident.$change:ident($value:expr)) => {
        #[cfg(feature = "metrics")]
        $meter.metrics.$metric.$change($value);
        #[cfg(not(feature = "metrics"))]
        let _ = ($meter, $value);
    };
}

impl Meter {
    #[cfg_attr(not(feature = "metrics"), expect(unused_variables))]
    pub(crate) fn new(store: &'static str) -> Self {
        Self {
            #[cfg(feature = "metrics")]
            metrics: Metrics {
                granted: counter!("tenure_granted_total", "store" => store),
                held: gauge!("tenure_held", "store" => store),
                hold_seconds: histogram!("tenure_hold_seconds", "store" => store),
                lost: counter!("tenure_lost_total", "store" => store),
                wait_seconds: histogram!("tenure_wait_seconds", "store" => store),
                waiting: gauge!("tenure_waiting", "store" => store),
            },
        }
    }

    pub(crate) fn granted(&self) {
        count!(self, granted.increment(1));
        count!(self, held.increment(1));
    }

    pub(crate) fn given_back(&self, held: Duration) {
        count!(self, held.decrement(1));
        count!(self, hold_seconds.record(held));
    }

    pub(crate) fn lost(&self) {
        count!(self, lost.increment(1));
    }

    pub(crate) fn wait(&self, now: Tick) -> Waiting<'_> {
        count!(self, waiting.increment(1));
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

/// One waiting caller; counted until dropped.
pub(crate) struct Waiting<'a> {
    meter: &'a Meter,
    since: Tick,
}

impl Waiting<'_> {
    pub(crate) fn over(&self, guard: Guard, clock: &Clock) -> Guard {
        count!(
            self.meter,
            wait_seconds.record(clock.now().since(self.since))
        );
        guard
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        count!(self.meter, waiting.decrement(1));
    }
}

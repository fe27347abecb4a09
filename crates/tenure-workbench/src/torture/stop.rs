//! A sleep that ends early when the run ends.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Wakes all sleepers when the run ends.
#[derive(Debug, Default)]
pub(super) struct Stop {
    over: Mutex<bool>,
    told: Condvar,
}

impl Stop {
    /// Wakes all sleepers, current and future ones.
    pub(super) fn stop(&self) {
        *self.over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.told.notify_all();
    }

    /// Sleeps for a while; returns whether the run is still going on.
    pub(super) fn sleep(&self, time: Duration) -> bool {
        let over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        let woken = self.told.wait_timeout_while(over, time, |over| !*over);
        !*woken.unwrap_or_else(PoisonError::into_inner).0
    }
}

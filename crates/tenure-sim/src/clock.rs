//! Clocks that drift and jump, and processes that are stopped.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tenure::driver::TimeSource;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The clock of one process, or of the store.
///
/// It runs at its own rate relative to the virtual time of the run. While its process is stopped it
/// continues, but no sleep ends; after its process has ended, none ever does.
#[derive(Debug)]
pub(crate) struct SimClock {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Clone, Copy)]
struct State {
    /// A moment of virtual time, and what the clock showed at that moment.
    anchor: Instant,
    shown: Duration,
    ppm: i64,
    life: Life,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Runs,
    Stopped,
    Ended,
}

impl SimClock {
    pub(crate) fn new(ppm: i64) -> Self {
        let state = State {
            anchor: Instant::now(),
            shown: START,
            ppm,
            life: Life::Runs,
        };
        Self {
            state: Mutex::new(state),
            changed: Notify::new(),
        }
    }

    /// Changes the rate from now on.
    pub(crate) fn drift(&self, ppm: i64) {
        let mut state = self.state();
        state.shown = state.now();
        state.anchor = Instant::now();
        state.ppm = ppm;
    }

    /// Moves the clock without moving any timer.
    pub(crate) fn jump(&self, by_ms: i64) {
        let by = Duration::from_millis(by_ms.unsigned_abs());
        let mut state = self.state();
        state.shown = if by_ms < 0 {
            state.shown.saturating_sub(by)
        } else {
            state.shown + by
        };
    }

    /// Stops the process.
    pub(crate) fn stop(&self) {
        self.state().life.becomes(Life::Stopped);
    }

    /// Makes the process continue.
    pub(crate) fn go_on(&self) {
        self.state().life.becomes(Life::Runs);
        self.changed.notify_waiters();
    }

    /// Ends the process.
    pub(crate) fn end(&self) {
        self.state().life = Life::Ended;
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.state().life == Life::Ended
    }

    /// Waits while the process is stopped; for ever if it has ended.
    pub(crate) async fn running(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let life = self.state().life;
            match life {
                Life::Runs => return,
                Life::Stopped => changed.await,
                Life::Ended => std::future::pending().await,
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Life {
    fn becomes(&mut self, life: Self) {
        if *self != Self::Ended {
            *self = life;
        }
    }
}

impl State {
    fn now(&self) -> Duration {
        self.shown
            + scaled(
                self.anchor.elapsed(),
                MILLION + i128::from(self.ppm),
                MILLION,
            )
    }
}

#[async_trait]
impl TimeSource for SimClock {
    fn now(&self) -> Duration {
        self.state().now()
    }

    async fn sleep(&self, duration: Duration) {
        let ppm = self.state().ppm;
        let mut takes = scaled(duration, MILLION, MILLION + i128::from(ppm));
        if ppm != 0 && !duration.is_zero() {
            // Rounded up: a task that sleeps until a moment must find it reached, or it would sleep
            // for zero time for ever.
            takes += Duration::from_nanos(1);
        }
        tokio::time::sleep(takes).await;
        self.running().await;
    }
}

/// Returns a duration times a fraction.
fn scaled(duration: Duration, by: i128, of: i128) -> Duration {
    let nanos = i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX / MILLION / 2);
    Duration::from_nanos(u64::try_from(nanos * by / of).unwrap_or(u64::MAX / 4))
}

const MILLION: i128 = 1_000_000;

/// What clocks show at first: enough to jump back from.
const START: Duration = Duration::from_secs(1000);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_stopped_process_sleeps_on_while_its_clock_runs() {
        let clock = std::sync::Arc::new(SimClock::new(0));
        let sleeper = {
            let clock = std::sync::Arc::clone(&clock);
            tokio::spawn(async move { clock.sleep(Duration::from_millis(10)).await })
        };
        clock.stop();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!sleeper.is_finished());
        assert_eq!(clock.now(), START + Duration::from_secs(1));
        clock.go_on();
        assert!(sleeper.await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_sleep_on_a_fast_clock_is_not_too_short() {
        let clock = SimClock::new(4_000);
        let until = clock.now() + Duration::from_nanos(1);
        clock.sleep(Duration::from_nanos(1)).await;
        assert!(clock.now() >= until);
    }

    #[tokio::test(start_paused = true)]
    async fn a_fast_clock_runs_ahead() {
        let clock = SimClock::new(4_000);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(clock.now(), START + Duration::from_millis(1004));
    }
}

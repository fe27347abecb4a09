//! The clock for leases.

use std::ops::{Add, Sub};
use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

use crate::driver;

/// A moment on a [`Clock`], in nanoseconds since the clock was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Tick(u64);

impl Tick {
    /// Later than every other moment.
    pub(crate) const NEVER: Self = Self(u64::MAX);

    /// Returns how long after `earlier` this is, or zero.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Tick {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }
}

impl Sub<Duration> for Tick {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(duration)))
    }
}

/// The clock for the leases of a store.
///
/// That is boot time, except for the memory store: `Instant` stops while a machine is suspended, so a
/// lease measured by it would look valid after a night in which the store granted it to others.
#[derive(Debug)]
pub(crate) struct Clock {
    start: Start,
    /// How long the machine was suspended, as simulated by a test.
    #[cfg(test)]
    pub(crate) slept: std::sync::atomic::AtomicU64,
}

#[derive(Debug)]
enum Start {
    Boot(Duration),
    Tokio(Instant),
    Source(Duration, Arc<dyn driver::TimeSource>),
}

impl Clock {
    pub(crate) fn start(clock: driver::Clock) -> Self {
        let start = match clock {
            driver::Clock::Boot => Start::Boot(boot_time()),
            driver::Clock::Tokio => Start::Tokio(Instant::now()),
            driver::Clock::Source(source) => Start::Source(source.now(), source),
        };
        Self {
            start,
            #[cfg(test)]
            slept: std::sync::atomic::AtomicU64::new(0),
        }
    }

    pub(crate) fn now(&self) -> Tick {
        let since = match &self.start {
            Start::Boot(start) => boot_time().saturating_sub(*start),
            Start::Tokio(start) => start.elapsed(),
            Start::Source(start, source) => source.now().saturating_sub(*start),
        };
        #[cfg(test)]
        let since =
            since + Duration::from_nanos(self.slept.load(std::sync::atomic::Ordering::Relaxed));
        Tick(nanos(since))
    }

    /// Sleeps for this long, by a timer that stops while the machine is suspended.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: sleeping changes nothing.
    pub(crate) async fn sleep(&self, duration: Duration) {
        match &self.start {
            Start::Boot(_) | Start::Tokio(_) => tokio::time::sleep(duration).await,
            Start::Source(_, source) => source.sleep(duration).await,
        }
    }
}

/// Returns how long a lease is safe to use: its ttl minus a margin for clock drift.
///
/// The margin is 1 % of the ttl and a millisecond. Quartz clocks differ by 0.01 %, so even with a
/// clock a hundred times worse the holder is told before another client is granted the lock.
pub(crate) fn safe(ttl: Duration) -> Duration {
    ttl.saturating_sub(ttl / 100 + Duration::from_millis(1))
}

#[cfg(target_os = "linux")]
const BOOT_TIME: ClockId = ClockId::Boottime;
/// Apple's monotonic clock advances while the machine is suspended.
#[cfg(not(target_os = "linux"))]
const BOOT_TIME: ClockId = ClockId::Monotonic;

fn boot_time() -> Duration {
    let now = clock_gettime(BOOT_TIME);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(now.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanos)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn follows_paused_time() {
        let clock = Clock::start(driver::Clock::Tokio);
        let before = clock.now();
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(clock.now().since(before) >= Duration::from_secs(59));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn reads_boot_time() {
        let read = || {
            let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
            let seconds = uptime.split(' ').next().unwrap();
            Duration::from_secs_f64(seconds.parse().unwrap())
        };
        let rounding = Duration::from_millis(20);
        let (before, now, after) = (read(), boot_time(), read());
        assert!(before <= now + rounding && now <= after + rounding);
    }
}

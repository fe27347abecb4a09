//! The clock of a history: the machine's boot time, which all its processes share.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Microseconds since the machine started, with those that it slept.
pub(super) fn now_us() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    seconds.unwrap_or(0) * 1_000_000 + nanos.unwrap_or(0) / 1000
}

/// A duration in whole microseconds.
pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

//! Clocks that all processes of a machine share, the CPU time of this process, and durations as
//! numbers.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns nanoseconds of the machine's clock, comparable between its processes.
pub(crate) fn now_ns() -> u64 {
    nanos(ClockId::Monotonic)
}

/// Returns microseconds since boot, including the time that the machine slept.
pub(crate) fn now_us() -> u64 {
    nanos(ClockId::Boottime) / 1000
}

/// Returns the CPU time that this process has used, in user and system mode.
pub(crate) fn processor_time() -> Duration {
    Duration::from_nanos(nanos(ClockId::ProcessCPUTime))
}

/// Returns a duration in nanoseconds.
pub(crate) fn as_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns a duration in whole microseconds.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn nanos(clock: ClockId) -> u64 {
    as_ns(Duration::try_from(clock_gettime(clock)).unwrap_or_default())
}

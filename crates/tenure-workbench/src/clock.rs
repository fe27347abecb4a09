//! Clocks that are the same in all processes of a machine, the processor time of this one, and durations as numbers.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of the machine's clock, comparable between its processes.
pub(crate) fn now_ns() -> u64 {
    nanos(ClockId::Monotonic)
}

/// Microseconds since the machine started, its sleep included.
pub(crate) fn now_us() -> u64 {
    nanos(ClockId::Boottime) / 1000
}

/// The processor time that this process has used, in the system and outside of it.
pub(crate) fn processor_time() -> Duration {
    Duration::from_nanos(nanos(ClockId::ProcessCPUTime))
}

/// A duration in nanoseconds.
pub(crate) fn as_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A duration in whole microseconds.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn nanos(clock: ClockId) -> u64 {
    as_ns(Duration::try_from(clock_gettime(clock)).unwrap_or_default())
}

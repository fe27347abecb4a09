//! Clocks that are the same in all processes of a machine, and the processor time of this one.

use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Nanoseconds of the machine's clock, comparable between its processes.
pub(crate) fn now_ns() -> u64 {
    nanos(clock_gettime(ClockId::Monotonic))
}

/// The processor time that this process has used, in the system and outside of it.
pub(super) fn processor_time() -> Duration {
    Duration::from_nanos(nanos(clock_gettime(ClockId::ProcessCPUTime)))
}

/// A duration in nanoseconds.
pub(super) fn as_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn nanos(time: Timespec) -> u64 {
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    seconds.unwrap_or(0) * 1_000_000_000 + nanos.unwrap_or(0)
}

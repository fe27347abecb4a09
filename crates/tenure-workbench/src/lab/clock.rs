//! The clock of a history: the same in all processes of the machine.

use rustix::time::{ClockId, clock_gettime};

/// Microseconds since the machine started, its sleep included.
pub(super) fn now_us() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let (seconds, nanos) = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
    seconds.unwrap_or(0) * 1_000_000 + nanos.unwrap_or(0) / 1000
}

//! The events of a history, with the clock that all processes of the machine share.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tenure_checker::{Event, What};

/// Microseconds since the machine started, its sleep included.
pub(crate) fn now_us() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let (seconds, nanos) = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
    seconds.unwrap_or(0) * 1_000_000 + nanos.unwrap_or(0) / 1000
}

/// A duration in whole microseconds.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// What happens now, as a process notes it; 0 is the one that started the others.
pub(crate) fn now(process: u32, what: What) -> Event {
    Event {
        at_us: now_us(),
        process,
        what,
    }
}

/// A fault that has landed, on a process or on none.
pub(crate) fn fault(kind: &str, target: Option<u32>) -> What {
    let kind = kind.to_owned();
    What::Fault { kind, target }
}

/// The end of a fault.
pub(crate) fn over(kind: &str, target: Option<u32>) -> What {
    let kind = kind.to_owned();
    What::Over { kind, target }
}

//! The events of a history, with the clock that all processes of the machine share.

use std::fmt::Display;

use tenure::Outcome;
use tenure_checker::{Event, Freed, What};

use crate::clock::now_us;

/// Returns an event that happens now, as a process records it; process 0 is the one that started
/// the others.
pub(crate) fn now(process: u32, what: What) -> Event {
    Event {
        at_us: now_us(),
        process,
        what,
    }
}

/// Returns the start of a fault that affects one process, or no process in particular.
pub(crate) fn fault(kind: impl Display, target: Option<u32>) -> What {
    let kind = kind.to_string();
    What::Fault { kind, target }
}

/// Returns the end of a fault.
pub(crate) fn over(kind: impl Display, target: Option<u32>) -> What {
    let kind = kind.to_string();
    What::Over { kind, target }
}

/// Returns the outcome of a release.
pub(crate) fn freed(released: &tenure::Result<Outcome>) -> Freed {
    match released {
        Ok(Outcome::Released) => Freed::Freed,
        Ok(Outcome::Lowered { .. }) => Freed::Lowered,
        Ok(Outcome::NotHeld(_)) => Freed::NotHeld,
        Ok(_) | Err(_) => Freed::Unknown,
    }
}

//! The events of a history, with the clock that all processes of the machine share.

use std::fmt::Display;

use tenure::Outcome;
use tenure_checker::{Event, Freed, What};

use crate::clock::now_us;

/// What happens now, as a process notes it; 0 is the one that started the others.
pub(crate) fn now(process: u32, what: What) -> Event {
    Event {
        at_us: now_us(),
        process,
        what,
    }
}

/// A fault that has landed, on a process or on none.
pub(crate) fn fault(kind: impl Display, target: Option<u32>) -> What {
    let kind = kind.to_string();
    What::Fault { kind, target }
}

/// The end of a fault.
pub(crate) fn over(kind: impl Display, target: Option<u32>) -> What {
    let kind = kind.to_string();
    What::Over { kind, target }
}

/// The outcome of a release.
pub(crate) fn freed(released: &tenure::Result<Outcome>) -> Freed {
    match released {
        Ok(Outcome::Released) => Freed::Freed,
        Ok(Outcome::Lowered { .. }) => Freed::Lowered,
        Ok(Outcome::NotHeld(_)) => Freed::NotHeld,
        Ok(_) | Err(_) => Freed::Unknown,
    }
}

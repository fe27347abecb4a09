//! Notices for sessions after a change.

use std::time::Duration;

use super::{Nanos, Session};
use crate::driver::{Grant, Loss, News};
use crate::name::{ClaimId, Fence, Name};

/// A notice for a session after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notice {
    /// The session to tell.
    pub(crate) session: Session,
    /// Its claim that the notice is about.
    pub(crate) claim: Box<str>,
    /// The content.
    pub(crate) what: What,
}

/// The content of a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) enum What {
    /// Ask again: the time that was given no longer applies.
    AskAgain,
    /// The claim is granted.
    Granted {
        fence: u64,
        fences: u32,
        valid: Nanos,
        after: Nanos,
    },
    /// The lease is over.
    Lost { fence: u64, loss: Loss },
    /// Somebody else wants the name.
    Wanted { fence: u64 },
}

/// Turns a notice into news for its session.
pub(crate) fn news(name: Name, claim: &str, what: What) -> News {
    let claim = ClaimId::stored(claim);
    let smallest = Fence::new(1).unwrap_or_else(|| unreachable!("1 is not 0"));
    let fence = |number| Fence::new(number).unwrap_or(smallest);
    match what {
        What::AskAgain => News::AskAgain(Some(name)),
        What::Granted {
            fence: number,
            fences,
            valid,
            after,
        } => News::Granted {
            name,
            claim,
            grant: Grant::new(fence(number), Duration::from_nanos(valid)).with_fences(fences),
            after: Duration::from_nanos(after),
        },
        What::Lost {
            fence: number,
            loss,
        } => News::Lost {
            name,
            claim,
            fence: fence(number),
            loss,
        },
        What::Wanted { fence: number } => News::Wanted {
            name,
            claim,
            fence: fence(number),
        },
    }
}

//! The messages between the lab and its client processes.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure_checker::Event;

/// The first message to a client: who it is.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Setup {
    /// Its number in the history.
    pub(super) process: u32,
    pub(super) who: Who,
    /// The servers; tenure has one URL for all of them.
    pub(super) urls: Vec<String>,
    /// How long a lock lasts that nobody renews.
    pub(super) ttl: Duration,
}

/// Which lock a client uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Who {
    /// The broken lock of the case with this name.
    Broken(String),
    /// tenure.
    Tenure,
}

/// The messages to a client that is ready.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Step {
    /// Asks for a name.
    Lock { claim: u64, name: String },
    /// Does something with a lock that was granted.
    Hold { claim: u64, action: Action },
    /// Waits at this breakpoint when it is reached next.
    BreakAt { point: String },
    /// Continues from the breakpoint.
    Continue { point: String },
    /// Ends.
    End,
}

/// What a holder does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Action {
    /// Reads the resource.
    Read,
    /// Writes to the resource what follows from what was read.
    Write,
    Release,
}

/// The messages from a client.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Message {
    /// It has opened its lock.
    Ready,
    /// Something happened.
    Noted(Event),
    /// It waits at this breakpoint.
    At { point: String },
    /// It reads the resource.
    Read { claim: u64 },
    /// It writes to the resource.
    Write { claim: u64, fence: Option<u64> },
    /// It leaves the resource alone, because it has noticed that the lock is lost.
    Declined { claim: u64 },
    /// It cannot go on.
    Failed(String),
}

//! The messages between the lab and its client processes.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure_checker::Event;

/// The first message to a client: its identity.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Setup {
    /// Its number in the history.
    pub(super) process: u32,
    pub(super) who: Who,
    /// The servers; tenure has one URL for all of them.
    pub(super) urls: Vec<String>,
    /// How long a lock lasts without renewal.
    pub(super) ttl: Duration,
}

/// The lock that a client uses.
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
    /// Ask for a name.
    Lock { claim: u64, name: String },
    /// Do something with a granted lock.
    Hold { claim: u64, action: Action },
    /// Wait at this breakpoint when it is reached next.
    BreakAt { point: String },
    /// Continue from the breakpoint.
    Continue { point: String },
    /// End.
    End,
}

/// What a holder does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Action {
    /// Reads the resource.
    Read,
    /// Writes the successor of the version that was read.
    Write,
    Release,
}

/// The messages from a client.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Message {
    /// It has opened its lock.
    Ready,
    /// An event has happened.
    Noted(Event),
    /// It waits at this breakpoint.
    At { point: String },
    /// It reads the resource.
    Read { claim: u64 },
    /// It writes to the resource.
    Write { claim: u64, fence: Option<u64> },
    /// It does not use the resource, because it has noticed that the lock is lost.
    Declined { claim: u64 },
    /// It cannot continue.
    Failed(String),
}

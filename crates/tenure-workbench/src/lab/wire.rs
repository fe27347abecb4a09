//! What the lab and its client processes say to each other: a line of JSON each.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure_checker::Event;

use crate::recipes::Kind;

/// The first line to a client: who it is.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    /// Its number in the history.
    pub(super) process: u32,
    pub(super) who: Who,
    /// The servers; tenure has one URL for all of them.
    pub(super) urls: Vec<String>,
    /// How long a lock lasts that nobody renews.
    pub(super) ttl: Duration,
}

/// Which lock a client uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Who {
    /// One of the recipes.
    Recipe(Kind),
    /// tenure.
    Tenure,
}

/// The lines to a client that is ready.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Step {
    /// Asks for a name.
    Lock { claim: u64, name: String },
    /// Reads the resource.
    Read { claim: u64 },
    /// The resource's answer.
    Version { claim: u64, version: u64 },
    /// Writes to the resource what follows from what was read.
    Write { claim: u64 },
    /// The resource's answer.
    Written { claim: u64 },
    /// Lets go.
    Release { claim: u64 },
    /// Halts when the point is reached next.
    Halt { point: String },
    /// Goes on from the point.
    Go { point: String },
    /// Ends.
    End,
}

/// The lines from a client.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Say {
    /// It has opened its lock.
    Ready,
    /// Something happened.
    Noted(Event),
    /// It halts here.
    At { point: String },
    /// It asks the resource for its version.
    Read { claim: u64 },
    /// It asks the resource to write.
    Write {
        claim: u64,
        fence: Option<u64>,
        read: u64,
    },
    /// It has done what it was told with the resource, or knows that it holds nothing and has left it alone.
    Done { claim: u64, did: Did },
    /// It cannot go on.
    Failed(String),
}

/// What a client did with the resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Did {
    Read,
    Wrote,
    /// It had noticed that the lock is lost.
    Declined,
}

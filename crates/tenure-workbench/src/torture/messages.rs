//! The messages between the processes of a torture run.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure_checker::{Event, Mode};

/// The first message to a client.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Setup {
    /// The client's number in the history.
    pub(super) process: u32,
    /// The seed of its random choices.
    pub(super) seed: u64,
    /// The names that it locks.
    pub(super) names: Vec<String>,
    pub(super) ttl: Duration,
    /// Owners that all clients share.
    pub(super) owners: Vec<String>,
    /// The loopback port of the register.
    pub(super) register: u16,
}

/// The messages from a client.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Message {
    /// An event that it caused or observed.
    Noted(Event),
    /// It believes that it holds a claim until then, unless it learns otherwise.
    Believes { claim: u64, until_us: u64 },
    /// It cannot continue.
    Failed(String),
}

/// The only later message to a client: finish what you have started, and end.
pub(super) const FINISH: &str = "finish";

/// A lease by hand that one client leaves for another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LeftLease {
    pub(super) name: String,
    pub(super) claim: String,
    pub(super) owner: String,
    pub(super) ttl: Duration,
    pub(super) mode: Mode,
    /// Whether others may hold the name as the same owner, so that nobody may write.
    pub(super) is_shared: bool,
}

/// The requests to the register.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Request {
    /// Reads the version with a fence; the register refuses smaller fences from then on.
    Read { name: String, fence: u64 },
    /// Writes the successor of the version that was read.
    Write {
        claim: u64,
        name: String,
        fence: u64,
        read: u64,
    },
    /// Keeps this lease for the next client that asks.
    Leave(LeftLease),
    /// Takes a lease that somebody left, if there is one.
    TakeUp,
}

/// The replies of the register.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reply {
    /// The current version.
    Version(u64),
    /// A larger fence was seen before.
    Stale,
    /// The lease that was left last, if there is one.
    Lease(Option<LeftLease>),
}

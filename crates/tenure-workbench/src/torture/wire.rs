//! What the processes of a torture tell each other: a JSON value on each line.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure_checker::{Event, Mode};

/// What a client is told when it begins.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Order {
    /// The client's number in the history.
    pub(super) process: u32,
    /// What it draws its lots from.
    pub(super) seed: u64,
    /// What it locks.
    pub(super) names: Vec<String>,
    pub(super) ttl: Duration,
    /// Owners that all clients share.
    pub(super) owners: Vec<String>,
    /// The loopback port of the register.
    pub(super) register: u16,
}

/// What a client says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Said {
    /// What it has done, or what happened to it.
    Noted(Event),
    /// It believes to hold a claim until then, unless it learns otherwise.
    Believes { claim: u64, until_us: u64 },
    /// It cannot go on.
    Failed(String),
}

/// The one word that a client is told later: finish what you have begun, and end.
pub(super) const FINISH: &str = "finish";

/// A lease by hand that one client leaves to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LeftLease {
    pub(super) name: String,
    pub(super) claim: String,
    pub(super) owner: String,
    pub(super) ttl: Duration,
    pub(super) mode: Mode,
    /// Whether others may hold the name as the same owner, and nobody may write.
    pub(super) is_shared: bool,
}

/// What the register is asked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Question {
    /// What is there? The fence is shown with the question, so that the register refuses smaller ones from then on.
    Read { name: String, fence: u64 },
    /// Make the next version of what was read.
    Write {
        claim: u64,
        name: String,
        fence: u64,
        read: u64,
    },
    /// Keep this lease for whoever asks next.
    Leave(LeftLease),
    /// Is there a lease that somebody left?
    TakeUp,
}

/// What the register says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reply {
    /// This is the version now.
    Version(u64),
    /// A larger fence was seen before.
    Stale,
    /// The lease that was left last, if there is one.
    Lease(Option<LeftLease>),
}

//! What the processes of a torture tell each other: a JSON value on each line.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure_checker::Event;

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
    /// The loopback port of the register.
    pub(super) register: u16,
    /// Whether the store has permits.
    pub(super) permits: bool,
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
}

/// What the register says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reply {
    /// This is the version now.
    Version(u64),
    /// A larger fence was seen before.
    Stale,
}

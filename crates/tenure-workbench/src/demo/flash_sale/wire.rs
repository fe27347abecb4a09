//! What the sale and its copies say to each other: a line of JSON each.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::lock::LockKind;
use super::record::Outcome;
use super::stock::Shelf;

/// The first line to a copy: all that it needs to know.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Settings {
    /// Its number, from 1.
    pub(super) number: u32,
    /// Where it listens, on loopback.
    pub(super) port: u16,
    pub(super) lock: LockKind,
    /// What is locked.
    pub(super) name: String,
    /// The store of the lock; it may hold a password, and so is no argument.
    pub(super) store: String,
    pub(super) shelf: Shelf,
    pub(super) ttl_ms: u64,
    pub(super) think_ms: u64,
    /// The folder of the sale, which a copy removes if nobody else is left to do it.
    pub(super) folder: PathBuf,
}

/// The lines to a copy that is ready.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Tell {
    /// The next sale halts between its read and its write.
    Halt(Halt),
    /// The sale that stands still goes on.
    GoOn,
    /// The copy ends, and leaves the folder to others.
    End,
}

/// How a sale halts.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Halt {
    /// It takes so long, and the rest of the copy lives.
    Slow { for_ms: u64 },
    /// It stands still, and with it all of the copy, until told to go on.
    Still,
}

/// The lines from a copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Said {
    /// It listens.
    Ready,
    /// A sale has halted.
    Halted,
    /// The sale that had halted is over.
    WentOn {
        outcome: Outcome,
        /// The number of its grant, where the lock has such numbers.
        fence: Option<u64>,
    },
    /// It cannot go on.
    Failed(String),
}

/// The answer to a buyer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) copy: u32,
    pub(super) left: u64,
    pub(super) sold: bool,
    pub(super) outcome: Outcome,
    pub(super) waited_us: u64,
    /// The number of the grant, where the lock has such numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fence: Option<u64>,
    /// What went wrong, if something did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<String>,
}

//! The messages between the sale and its copies: a line of JSON each.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::lock_kind::LockKind;
use super::record::Outcome;
use super::stock::StockLocation;

/// The first line to a copy: its settings.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Settings {
    /// Its number, from 1.
    pub(super) number: u32,
    /// Its port on loopback.
    pub(super) port: u16,
    pub(super) lock: LockKind,
    /// What is locked.
    pub(super) name: String,
    /// The store of the lock. It may contain a password, so it is not passed as an argument.
    pub(super) store: String,
    pub(super) stock: StockLocation,
    /// How many pieces there were at the start.
    pub(super) pieces: u64,
    pub(super) ttl_ms: u64,
    pub(super) think_ms: u64,
    /// The directory of the sale, which a copy removes if the sale was killed.
    pub(super) folder: PathBuf,
}

/// The messages to a copy that is ready.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Tell {
    /// Makes the first sale after `after` sold pieces halt between its read and its write.
    Halt { after: u64, how: Halt },
    /// Lets the halted sale continue.
    GoOn,
    /// Ends the copy, which does not remove the directory.
    End,
}

/// How a sale halts.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Halt {
    /// It takes this long; the rest of the copy keeps running.
    Slow { for_ms: u64 },
    /// It blocks the whole copy until it may continue.
    Still,
}

/// The messages from a copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Said {
    /// It is listening.
    Ready,
    /// A sale has halted.
    Halted,
    /// The sale that had halted is finished.
    WentOn {
        outcome: Outcome,
        /// The fence of its grant, if the lock has fences.
        fence: Option<u64>,
    },
    /// It cannot continue.
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
    /// The fence of the grant, if the lock has fences.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fence: Option<u64>,
    /// What went wrong, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<String>,
}

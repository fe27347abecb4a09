//! What each kind of store is compared with, and what it aims for.
//!
//! A new store adds a file here, and its bare locks to `wire::Who` and `contender`.

use std::fmt::Debug;
use std::time::Duration;

use crate::bench::line::Line;
use crate::bench::wire::Who;
use crate::bench::workload::Workload;
use tenure_cli::error::{Failure, Result};
use tenure_cli::exit_code;

mod local;
mod memory;
mod redis;
mod redlock;

/// A kind of store, as the benchmark sees it.
pub(super) trait Kind: Debug {
    /// Returns what is reported; a workload without a line is not measured.
    fn lines(&self) -> Vec<Line>;

    /// Returns who is measured: tenure, and what it is compared with.
    fn subjects(&self, workload: Workload) -> Vec<Subject>;

    /// Makes a measurement's name ready for a bare lock that needs more than a name.
    fn prepare(&self, who: &Who, name: &str) -> Result<()>;

    /// Returns whether a process waits for its bare lock.
    fn is_blocked(&self, process: u32) -> Result<bool>;

    /// Returns a number that grows with every change of the store, where it can be had.
    fn changes(&self) -> Option<u64>;

    /// Begins to count the commands that a server is sent, where it can be had.
    ///
    /// Counting slows the server down, so nothing else is taken from such a measurement.
    fn counter(&self) -> Result<Option<Box<dyn Counter>>>;

    /// Returns the processor time that the server has used, where it can be had.
    fn server_time(&self) -> Option<Duration>;

    /// Returns a sentence about what cannot be had.
    fn missing(&self) -> Option<&str>;
}

/// Counts the commands that a server is sent, until dropped.
pub(super) trait Counter: Debug {
    /// Returns how many there have been.
    fn commands(&self) -> Result<u64>;
}

/// One who is measured: a workload, and who does it.
#[derive(Debug, Clone)]
pub(super) struct Subject {
    /// What the report calls it.
    pub(super) label: &'static str,
    pub(super) workload: Workload,
    pub(super) who: Who,
    /// The store that it opens, if not the one of the command line.
    pub(super) url: Option<String>,
    /// What is added to the store's URL.
    pub(super) options: &'static str,
    /// How long it rests after each release, where the workload has rests.
    pub(super) rest: Duration,
    /// How long its leases last, where that decides when a dead holder's lock is free.
    pub(super) ttl: Option<Duration>,
    /// How long it keeps a lease that was released, if at all.
    pub(super) keep: Option<Duration>,
    /// How many leases it holds, where the workload has many.
    pub(super) leases: u32,
}

impl Subject {
    /// The store itself.
    pub(super) fn tenure(workload: Workload) -> Self {
        Self {
            label: TENURE,
            workload,
            who: Who::Tenure,
            url: None,
            options: "",
            rest: Duration::ZERO,
            ttl: None,
            keep: None,
            leases: 100_000,
        }
    }

    /// The store's own pair, which 64 tasks at once should not fall behind.
    fn own_pair() -> Self {
        Self {
            label: OWN_PAIR,
            ..Self::tenure(Workload::Pair)
        }
    }
}

/// Finds the kind of a store that was opened, and that is `seen` by those who are measured as if it were
/// so far away.
pub(super) fn of(url: &str, seen: &str, away: Duration) -> Result<Box<dyn Kind>> {
    let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
    match scheme {
        "local" => Ok(Box::new(local::Local::look(rest)?)),
        "redis" | "rediss" | "valkey" | "valkeys" | "unix" | "redis+unix" => {
            Ok(Box::new(redis::Redis::look(url)?))
        }
        "redis+sentinel" | "rediss+sentinel" | "redis+cluster" | "rediss+cluster" => {
            let sentence = "bench measures one Redis server; name it with --store redis://";
            Err(Failure::new(exit_code::USAGE, sentence))
        }
        "redlock" | "redlocks" => Ok(Box::new(redlock::Redlock::look(url, seen, away)?)),
        _ => Ok(Box::new(memory::Memory)),
    }
}

/// The label of the store itself.
pub(super) const TENURE: &str = "tenure";
const OWN_PAIR: &str = "own pair";

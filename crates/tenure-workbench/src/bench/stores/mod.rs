//! What each store is compared with, and what it aims for.
//!
//! A new store adds a file here with its report rows and its bare locks, and a line to [`of`] and to [`open_bare`].

use std::fmt::Debug;
use std::time::Duration;

use crate::bench::contender::{BareLocks, bare_failed};
use crate::bench::messages::Who;
use crate::bench::report_row::Row;
use crate::bench::workload::Workload;
use tenure_cli::error::{Failure, Result};
use tenure_cli::exit_code;
use tenure_cli::store::Store;

mod lmdb_file;
mod local;
mod memory;
pub(super) mod redis;
mod redlock;

/// A store, as the benchmark sees it.
pub(super) trait BenchStore: Debug {
    /// Returns what is reported; a workload without a row is not measured.
    fn rows(&self) -> Vec<Row>;

    /// Returns who is measured: tenure, and what it is compared with.
    fn subjects(&self, workload: Workload) -> Vec<Subject>;

    /// Makes a measurement's name ready for a bare lock that needs more than a name.
    fn prepare(&self, _who: &Who, _name: &str) -> Result<()> {
        Ok(())
    }

    /// Returns whether a process waits for its bare lock.
    fn is_blocked(&self, _process: u32) -> Result<bool> {
        Ok(false)
    }

    /// Returns a number that grows with every change of the store, where it can be had.
    fn changes(&self) -> Option<u64> {
        None
    }

    /// Begins to count the commands that a server is sent, where it can be had.
    ///
    /// Counting slows the server down, so nothing else is taken from such a measurement.
    fn counter(&self) -> Result<Option<Box<dyn Counter>>> {
        Ok(None)
    }

    /// Returns the processor time that the server has used, where it can be had.
    fn server_time(&self) -> Option<Duration> {
        None
    }

    /// Returns a sentence about what cannot be had.
    fn missing(&self) -> Option<&str> {
        None
    }
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

    /// A bare lock.
    fn bare(label: &'static str, workload: Workload, who: Who) -> Self {
        Self {
            label,
            who,
            ..Self::tenure(workload)
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

/// Connects to a store that was opened, and that those who are measured reach by the URL `seen`, as if it were so far
/// away.
pub(super) fn of(url: &str, seen: &str, away: Duration) -> Result<Box<dyn BenchStore>> {
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

/// Opens bare locks of this kind at these places; those of the store if there are none.
pub(super) async fn open_bare(
    lock: &str,
    mut places: Vec<String>,
    store: &Store,
) -> Result<BareLocks> {
    if places.is_empty() {
        places.push(store.url().to_owned());
    }
    match lock {
        local::FLOCK | local::LMDB => Ok(local::open_bare(lock, &places)),
        redis::SET | redis::TOKEN => redis::bare::open(lock, &places).await,
        _ => Err(bare_failed(&"there is no such lock")),
    }
}

/// The label of the store itself.
pub(super) const TENURE: &str = "tenure";
const OWN_PAIR: &str = "own pair";

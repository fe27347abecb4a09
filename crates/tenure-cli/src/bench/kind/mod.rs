//! What each kind of store is compared with, and what it aims for.
//!
//! A new store adds a file here, and its bare locks to `wire::Who` and `contender`.

use std::fmt::Debug;
use std::time::Duration;

use crate::bench::line::Line;
use crate::bench::wire::Who;
use crate::bench::workload::Workload;
use crate::error::Result;

mod local;
mod memory;

/// A kind of store, as the benchmark sees it.
pub(super) trait Kind: Debug {
    /// Returns what is reported; a workload without a line is not measured.
    fn lines(&self) -> &'static [Line];

    /// Returns what a workload is compared with.
    fn floors(&self, workload: Workload) -> Vec<Subject>;

    /// Returns a number that grows with every change of the store, where it can be had.
    fn changes(&self) -> Option<u64>;
}

/// One who is measured: a workload, and who does it.
#[derive(Debug, Clone)]
pub(super) struct Subject {
    /// What the report calls it.
    pub(super) label: &'static str,
    pub(super) workload: Workload,
    pub(super) who: Who,
    /// How long it rests after each release, where the workload has rests.
    pub(super) rest: Duration,
}

impl Subject {
    /// The store itself.
    pub(super) fn tenure(workload: Workload) -> Self {
        Self {
            label: TENURE,
            workload,
            who: Who::Tenure,
            rest: Duration::ZERO,
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

/// Finds the kind of a store that was opened.
pub(super) fn of(url: &str) -> Result<Box<dyn Kind>> {
    match url.split_once(':') {
        Some(("local", folder)) => Ok(Box::new(local::Local::look(folder)?)),
        _ => Ok(Box::new(memory::Memory)),
    }
}

/// The label of the store itself.
pub(super) const TENURE: &str = "tenure";
const OWN_PAIR: &str = "own pair";

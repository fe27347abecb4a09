//! The store of one process: nothing to compare with, and no other process to share it with.

use std::time::Duration;

use crate::bench::kind::{Counter, Kind, OWN_PAIR, Subject};
use crate::bench::line::Line;
use crate::bench::line::Unit::{Bytes, Micros, PerSecond, Percent};
use crate::bench::wire::Who;
use crate::bench::workload::Workload::{self, Hot, Many, Pair, Parallel};
use tenure_cli::error::Result;

/// `memory:`.
#[derive(Debug)]
pub(super) struct Memory;

impl Kind for Memory {
    fn lines(&self) -> Vec<Line> {
        LINES.to_vec()
    }

    fn subjects(&self, workload: Workload) -> Vec<Subject> {
        let mut subjects = vec![Subject::tenure(workload)];
        if workload == Parallel {
            subjects.push(Subject::own_pair());
        }
        subjects
    }

    fn prepare(&self, _who: &Who, _name: &str) -> Result<()> {
        Ok(())
    }

    fn is_blocked(&self, _process: u32) -> Result<bool> {
        Ok(false)
    }

    fn changes(&self) -> Option<u64> {
        None
    }

    fn counter(&self) -> Result<Option<Box<dyn Counter>>> {
        Ok(None)
    }

    fn server_time(&self) -> Option<Duration> {
        None
    }

    fn missing(&self) -> Option<&str> {
        None
    }
}

const LINES: [Line; 6] = [
    Line::new(Pair, "pair_us", "lock + release", Micros),
    Line::new(Pair, "p99_us", "p99", Micros),
    Line::new(Parallel, "per_second", "64 tasks, 64 names", PerSecond).beside(OWN_PAIR),
    Line::new(Hot, "per_second", "64 tasks, one name", PerSecond),
    Line::new(Many, "cpu_percent", "renewals, of a core", Percent),
    Line::new(Many, "bytes_per_lease", "memory per lease", Bytes),
];

//! The store of one process: nothing to compare with, and no other process to share it with.

use crate::bench::report_row::Unit::{Bytes, Micros, PerSecond, Percent};
use crate::bench::report_row::{Aim, Row, row};
use crate::bench::stores::{BenchStore, OWN_PAIR, Subject};
use crate::bench::workload::Workload::{self, Hot, Many, Pair, Parallel};

/// `memory:`.
#[derive(Debug)]
pub(super) struct Memory;

impl BenchStore for Memory {
    fn rows(&self) -> Vec<Row> {
        ROWS.to_vec()
    }

    fn subjects(&self, workload: Workload) -> Vec<Subject> {
        let mut subjects = vec![Subject::tenure(workload)];
        if workload == Parallel {
            subjects.push(Subject::own_pair());
        }
        subjects
    }
}

#[rustfmt::skip] // A table: one row of the report in each line.
const ROWS: [Row; 6] = [
    row(Pair, "pair_us", "lock + release", Micros, None, Aim::None),
    row(Pair, "p99_us", "p99", Micros, None, Aim::None),
    row(Parallel, "per_second", "64 tasks, 64 names", PerSecond, Some(OWN_PAIR), Aim::None),
    row(Hot, "per_second", "64 tasks, one name", PerSecond, None, Aim::None),
    row(Many, "cpu_percent", "renewals, of a core", Percent, None, Aim::None),
    row(Many, "bytes_per_lease", "memory per lease", Bytes, None, Aim::None),
];

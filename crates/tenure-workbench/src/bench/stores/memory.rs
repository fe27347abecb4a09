//! The store of one process: nothing to compare with, and no other process to share it with.

use crate::bench::report_line::Unit::{Bytes, Micros, PerSecond, Percent};
use crate::bench::report_line::{Aim, Line, line};
use crate::bench::stores::{BenchStore, OWN_PAIR, Subject};
use crate::bench::workload::Workload::{self, Hot, Many, Pair, Parallel};

/// `memory:`.
#[derive(Debug)]
pub(super) struct Memory;

impl BenchStore for Memory {
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
}

#[rustfmt::skip] // A table: one line of the report in each row.
const LINES: [Line; 6] = [
    line(Pair, "pair_us", "lock + release", Micros, None, Aim::None),
    line(Pair, "p99_us", "p99", Micros, None, Aim::None),
    line(Parallel, "per_second", "64 tasks, 64 names", PerSecond, Some(OWN_PAIR), Aim::None),
    line(Hot, "per_second", "64 tasks, one name", PerSecond, None, Aim::None),
    line(Many, "cpu_percent", "renewals, of a core", Percent, None, Aim::None),
    line(Many, "bytes_per_lease", "memory per lease", Bytes, None, Aim::None),
];

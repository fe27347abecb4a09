//! The store of one process: nothing to compare with, and no other process to share it with.

use crate::bench::kind::{Kind, OWN_PAIR, Subject};
use crate::bench::line::{Line, Unit};
use crate::bench::workload::Workload;

/// `memory:`.
#[derive(Debug)]
pub(super) struct Memory;

impl Kind for Memory {
    fn lines(&self) -> &'static [Line] {
        &LINES
    }

    fn floors(&self, workload: Workload) -> Vec<Subject> {
        match workload {
            Workload::Parallel => vec![Subject::own_pair()],
            _ => Vec::new(),
        }
    }

    fn changes(&self) -> Option<u64> {
        None
    }
}

const LINES: [Line; 6] = [
    line(Workload::Pair, "pair_us", "lock + release", Unit::Micros),
    line(Workload::Pair, "p99_us", "p99", Unit::Micros),
    Line {
        floor: Some(OWN_PAIR),
        ..line(
            Workload::Parallel,
            "per_second",
            "64 tasks, 64 names",
            Unit::PerSecond,
        )
    },
    line(
        Workload::Hot,
        "per_second",
        "64 tasks, one name",
        Unit::PerSecond,
    ),
    line(
        Workload::Many,
        "cpu_percent",
        "renewals, of a core",
        Unit::Percent,
    ),
    line(
        Workload::Many,
        "bytes_per_lease",
        "memory per lease",
        Unit::Bytes,
    ),
];

const fn line(workload: Workload, figure: &'static str, what: &'static str, unit: Unit) -> Line {
    Line {
        workload,
        figure,
        what,
        unit,
        floor: None,
        aim: None,
    }
}

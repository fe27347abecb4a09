//! The store of one process. There is nothing to compare it with, and no other process can share
//! it.

use super::prelude::*;

pub(super) const KIND: Kind = Kind {
    schemes: &["memory"],
    plain: &[],
    look: |_| Ok(Box::new(Memory)),
    bare_locks: &[],
    open_bare: |_, _| Box::pin(async { Err(bare_failed(&"there is no such lock")) }),
};

/// `memory:`.
#[derive(Debug)]
struct Memory;

impl BenchStore for Memory {
    fn rows(&self) -> Vec<Row> {
        ROWS.to_vec()
    }

    fn subject(&self, _label: &'static str, workload: Workload) -> Subject {
        Subject::tenure(workload)
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

//! ZooKeeper, beside a bare create and delete, and the recipe of its documentation.

use super::prelude::*;

mod bare;

pub(super) const KIND: Kind = Kind {
    schemes: &["zookeeper", "zookeepers"],
    plain: &["zookeeper"],
    look: |opened| match opened.url.scheme {
        "zookeeper" => Ok(Box::new(ZooKeeper)),
        _ => Err(Failure::usage(
            "bench compares with a client that has no TLS; use zookeeper://",
        )),
    },
    bare_locks: &[CREATE, RECIPE],
    open_bare: |lock, urls| Box::pin(std::future::ready(bare::open(&lock, &urls))),
};

/// `zookeeper:`, of which nothing has to be known.
#[derive(Debug)]
struct ZooKeeper;

impl BenchStore for ZooKeeper {
    fn rows(&self) -> Vec<Row> {
        ROWS.to_vec()
    }

    fn subject(&self, label: &'static str, workload: Workload) -> Subject {
        match label {
            CREATE | RECIPE => Subject::bare(label, workload, Who::bare(label)),
            _ => Subject::tenure(workload),
        }
    }

    /// Not known: the pause that follows has to suffice.
    fn is_blocked(&self, _process: u32) -> Result<bool> {
        Ok(true)
    }
}

/// No lock, but what one must cost at least.
const CREATE: &str = "bare create + delete";

/// As ZooKeeper's documentation has it: create, list, watch the one in front, list again. No lease, no fence.
const RECIPE: &str = "the recipe (no lease, no fence, a session each)";

#[rustfmt::skip] // A table: one row of the report in each line.
const ROWS: [Row; 8] = [
    row(Pair, "p50_us", "p50", Micros, Some(CREATE), RatioAtMost(1.5)),
    row(Pair, "p99_us", "p99", Micros, Some(CREATE), Aim::None),
    row(Pair, "per_second", "lock + release", PerSecond, Some(RECIPE), Aim::None),
    // The floor is a delete, an event and one read.
    row(Handover, "p50_us", "release to grant, p50", Micros, Some(RECIPE), RatioAtMost(1.5)),
    row(Handover, "p99_us", "release to grant, p99", Micros, Some(RECIPE), Aim::None),
    row(Hot, "per_second", "64 tasks, one name", PerSecond, None, Aim::None),
    row(Crowd, "per_second", "8 processes, 1 ms inside", PerSecond, Some(RECIPE), Aim::None),
    row(Crowd, "fairness", "Jain's index", Number, Some(RECIPE), AtLeast(0.99)),
];

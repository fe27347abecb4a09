//! What the benchmark and its processes say to each other: a line of JSON each.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::bench::figures::Figures;

/// The first line to a process: its part.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    /// What to lock.
    pub(super) name: String,
    /// Who locks.
    pub(super) who: Who,
    /// How long tenure's leases last, if not as long as usual.
    pub(super) ttl: Option<Duration>,
    /// How long tenure keeps a lease that was released, if at all.
    pub(super) keep: Option<Duration>,
    pub(super) part: Part,
}

/// What a process does.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Part {
    /// Locks and releases, again and again.
    Pairs { time: Duration },
    /// The same whenever told to go, until told to end.
    Turns { time: Duration },
    /// The same in many tasks, on one name or more, with some work inside.
    Tasks {
        tasks: u32,
        names: u32,
        work: Duration,
        time: Duration,
    },
    /// Locks and releases when told.
    Steps,
    /// Locks, works for a moment, releases and rests, among others.
    Crowd { rest: Duration, time: Duration },
    /// Waits in many tasks.
    Idle { waiters: u32, time: Duration },
    /// Holds many leases.
    Many {
        leases: u32,
        ttl: Duration,
        time: Duration,
    },
}

/// Who locks: tenure, or a bare lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Who {
    /// The store of the command line.
    Tenure,
    /// `flock(2)` on this file.
    Flock(PathBuf),
    /// Write transactions of LMDB, on a file in this folder that is gone afterwards.
    Lmdb(PathBuf),
    /// `SET NX PX` and a script, on the Redis server of the command line.
    RedisSet,
    /// The same on all these Redis servers at once.
    RedisSetAll(Vec<String>),
    /// `BLPOP` and `LPUSH`, on the same server.
    RedisToken,
}

/// The lines to a process that is ready.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) enum Step {
    /// Begins at this moment of the machine's clock.
    Go { at_ns: u64 },
    /// Locks, and says `Held`.
    Lock,
    /// Releases, and says nothing: that would disturb whoever is woken.
    Release,
    /// Says when it locked and released, if it was told to, and ends.
    End,
}

/// The moments before and after each lock, and before each release.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Times {
    pub(super) asked: Vec<u64>,
    pub(super) locked: Vec<u64>,
    pub(super) let_go: Vec<u64>,
}

/// The lines from a process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    /// It has opened what it locks.
    Ready,
    /// It has the lock.
    Held,
    /// Its turn is over.
    Turn(Figures),
    /// It is done.
    Done(Figures),
    /// It is done: when it locked and released.
    Times(Times),
    /// It cannot go on.
    Failed(String),
}

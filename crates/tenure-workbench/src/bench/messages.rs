//! The messages between the benchmark and its processes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::bench::figures::Figures;

/// The first message to a process: its workload.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Setup {
    /// What to lock.
    pub(super) name: String,
    /// Who locks.
    pub(super) who: Who,
    /// How long tenure's leases last, if not the default.
    pub(super) ttl: Option<Duration>,
    /// How long tenure keeps a released lease, if at all.
    pub(super) keep: Option<Duration>,
    pub(super) part: Part,
}

/// What a process does.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Part {
    /// Locks and releases in a loop.
    Pairs { time: Duration },
    /// Does the same on each `Go`, until `End`.
    Turns { time: Duration },
    /// Does the same in many tasks, on one or several names, with some work inside.
    Tasks {
        tasks: u32,
        names: u32,
        work: Duration,
        time: Duration,
    },
    /// Locks and releases when told to.
    Steps,
    /// Locks, works for a moment, releases and pauses, in competition with others.
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
    /// tenure, on the store of the process.
    Tenure,
    /// A bare lock of [`stores`](crate::bench::stores).
    Bare {
        lock: String,
        /// Where it is: files or URLs; if empty, the store of the process.
        places: Vec<String>,
    },
}

impl Who {
    /// Returns a bare lock on the store of the process.
    pub(super) fn bare(lock: &str) -> Self {
        Self::bare_at(lock, Vec::new())
    }

    /// Returns a bare lock at other places.
    pub(super) fn bare_at(lock: &str, places: Vec<String>) -> Self {
        let lock = lock.to_owned();
        Self::Bare { lock, places }
    }
}

/// The messages to a process that is ready.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) enum Step {
    /// Start at this time of the machine's clock.
    Go { at_ns: u64 },
    /// Lock, and send `Locked`.
    Lock,
    /// Release, and send nothing: a message would disturb the process that is woken.
    Release,
    /// Send the recorded times, if any, and end.
    End,
}

/// The times before and after each lock, and before each release.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Times {
    pub(super) asked: Vec<u64>,
    pub(super) locked: Vec<u64>,
    pub(super) let_go: Vec<u64>,
}

/// The messages from a process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Message {
    /// It has opened its lock.
    Ready,
    /// It has the lock.
    Locked,
    /// What it measured.
    Figures(Figures),
    /// When it locked and released.
    Times(Times),
    /// It cannot continue.
    Failed(String),
}

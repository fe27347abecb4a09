//! The expectations of a run, and its verdict.

use serde::{Deserialize, Serialize};

use crate::history::Event;

/// A promise of a lock that the checker can judge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Promise {
    /// Two owners never believe at the same time that they hold locks that exclude each other.
    Exclusion,
    /// No update of the resource is lost: each accepted write had read the previous version.
    NoLostUpdate,
    /// The resource accepts no smaller fence after a larger one.
    FencedWrites,
    /// Fences grow strictly with every grant.
    GrowingFences,
    /// Only its owner can free a lock.
    OwnerOnly,
    /// First come, first served.
    Order,
    /// After the faults every waiter makes progress, including nested calls, and no process crashes
    /// while it waits.
    Liveness,
    /// After everybody has ended, nothing is left in the store.
    NothingLeft,
    /// A refused claim holds nothing, and an error that says "nothing happened" is true.
    HonestErrors,
}

impl Promise {
    /// Every promise that the checker knows.
    pub const ALL: [Self; 9] = [
        Self::Exclusion,
        Self::NoLostUpdate,
        Self::FencedWrites,
        Self::GrowingFences,
        Self::OwnerOnly,
        Self::Order,
        Self::Liveness,
        Self::NothingLeft,
        Self::HonestErrors,
    ];
}

/// What a run must show, and which promises its lock makes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Expect {
    /// The promises that are checked.
    pub promises: Vec<Promise>,
    /// With fewer grants the run is inconclusive.
    pub grants: usize,
    /// With fewer grants that had to wait the run is inconclusive.
    pub contended: usize,
    /// With fewer accepted writes the run is inconclusive.
    #[serde(default)]
    pub writes: usize,
    /// The faults that must have happened, each as often as it is listed.
    pub faults: Vec<String>,
    /// How long after the last fault a claim may still wait, in microseconds.
    pub patience_us: u64,
    /// By how much two claims that were seen in line may be granted in another order, in
    /// microseconds: for this long a lease may be passed on inside a process.
    pub order_slack_us: u64,
    /// How long an owner may take to notice its loss, from its first event after a pause, in
    /// microseconds.
    #[serde(default)]
    pub notice_us: u64,
    /// Whether readers that asked at the same time may have the same fence.
    #[serde(default)]
    pub readers_share_fences: bool,
    /// Whether claims of one owner that hold together may have different fences, and whether a
    /// claim that joins them may have their fence even after a release has reported *freed*.
    #[serde(default)]
    pub owners_have_several_fences: bool,
}

/// The verdict on a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// Every promise was kept, and the run had enough grants, writes and faults to say so.
    Valid {
        /// What happened.
        statistics: Statistics,
    },
    /// A promise was broken.
    Broken {
        /// The broken promises with the events that prove it; one finding for each promise, the
        /// first of its kind.
        findings: Vec<Finding>,
        /// What happened.
        statistics: Statistics,
    },
    /// The run is inconclusive, or its history contradicts itself. This is not a pass.
    Unknown {
        /// What was missing or contradictory, one sentence each.
        reasons: Vec<String>,
        /// What happened.
        statistics: Statistics,
    },
}

impl Verdict {
    /// Returns whether every promise was kept; *unknown* returns `false`.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        matches!(self, Self::Valid { .. })
    }

    /// Returns the broken promises.
    #[must_use]
    pub fn broken(&self) -> Vec<Promise> {
        self.findings().iter().map(|found| found.promise).collect()
    }

    /// Returns the findings; empty unless the verdict is *broken*.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        match self {
            Self::Broken { findings, .. } => findings,
            Self::Valid { .. } | Self::Unknown { .. } => &[],
        }
    }

    /// Returns the counts of what happened in the run.
    #[must_use]
    pub fn statistics(&self) -> &Statistics {
        match self {
            Self::Valid { statistics }
            | Self::Broken { statistics, .. }
            | Self::Unknown { statistics, .. } => statistics,
        }
    }
}

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The promise.
    pub promise: Promise,
    /// What happened, in one sentence.
    pub sentence: String,
    /// The few events that prove it, ordered by time.
    pub events: Vec<Event>,
    /// How many times it happened in the run.
    pub count: usize,
}

/// Counts of what happened in a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Statistics {
    /// Claims that were made.
    pub claims: usize,
    /// Claims that were granted.
    pub granted: usize,
    /// Granted claims that had to wait: another owner held the name when they asked.
    pub contended: usize,
    /// Claims that were refused.
    pub refused: usize,
    /// Claims whose outcome is unknown.
    pub unknown: usize,
    /// Holders that noticed a loss.
    pub lost: usize,
    /// Writes that were accepted.
    pub writes: usize,
    /// Writes that were refused because of their fence.
    pub stale: usize,
    /// Faults that happened, by kind.
    pub faults: std::collections::BTreeMap<String, usize>,
}

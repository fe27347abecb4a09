//! What is expected of a run, and what came of it.

use serde::{Deserialize, Serialize};

use crate::history::Event;

/// A promise of a lock, as the checker knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Promise {
    /// Two never believe at once that they hold what excludes the other.
    Exclusion,
    /// No update of the resource is lost: each accepted write had read the version before it.
    NoLostUpdate,
    /// The resource accepts no smaller fence after a larger one.
    FencedWrites,
    /// Fences grow strictly, grant after grant.
    GrowingFences,
    /// Nobody but its owner frees a lock.
    OwnerOnly,
    /// Who came first is served first.
    Order,
    /// After the faults everybody who waits gets on, a nested call included, and nobody crashes by waiting.
    Liveness,
    /// When all have gone, nothing is left in the store.
    NothingLeft,
    /// A claim that was refused holds nothing, and an error that says "nothing happened" is true.
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

/// What a run has to show, and which promises its lock makes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Expect {
    /// The promises that are checked.
    pub promises: Vec<Promise>,
    /// Fewer grants say nothing.
    pub grants: usize,
    /// Fewer grants that somebody had to wait for say nothing.
    pub contended: usize,
    /// Fewer accepted writes say nothing.
    #[serde(default)]
    pub writes: usize,
    /// The faults that have to have landed, each as often as it is named.
    pub faults: Vec<String>,
    /// How long after the last fault a claim may still wait, in microseconds.
    pub patience_us: u64,
    /// By how much two who were seen in line may go in in another order, in microseconds: a lease may be passed on inside
    /// a process for so long.
    pub order_slack_us: u64,
    /// How long an owner may take to notice its loss, from the first thing that it notes after a pause, in microseconds.
    #[serde(default)]
    pub notice_us: u64,
    /// Whether readers that asked at the same time may have the same fence.
    #[serde(default)]
    pub readers_share_fences: bool,
    /// Whether claims of one owner that hold together may have different fences, and one that joins them their fence even if a
    /// release has reported *freed*.
    #[serde(default)]
    pub owners_have_several_fences: bool,
}

/// What came of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// Every promise was kept, and the run had enough of everything to say so.
    Valid {
        /// What happened.
        statistics: Statistics,
    },
    /// A promise was broken.
    Broken {
        /// Which, and the events that prove it; one finding for each promise, the first of its kind.
        findings: Vec<Finding>,
        /// What happened.
        statistics: Statistics,
    },
    /// The run says too little, or its history contradicts itself: this is no pass.
    Unknown {
        /// What was missing or cannot be, a sentence each.
        reasons: Vec<String>,
        /// What happened.
        statistics: Statistics,
    },
}

impl Verdict {
    /// Whether every promise was kept; *unknown* is no.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        matches!(self, Self::Valid { .. })
    }

    /// The promises that were broken.
    #[must_use]
    pub fn broken(&self) -> Vec<Promise> {
        self.findings().iter().map(|found| found.promise).collect()
    }

    /// What was found broken; empty unless it is broken.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        match self {
            Self::Broken { findings, .. } => findings,
            Self::Valid { .. } | Self::Unknown { .. } => &[],
        }
    }

    /// What happened in the run, counted.
    #[must_use]
    pub fn statistics(&self) -> &Statistics {
        match self {
            Self::Valid { statistics }
            | Self::Broken { statistics, .. }
            | Self::Unknown { statistics, .. } => statistics,
        }
    }
}

/// A promise that was broken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Which.
    pub promise: Promise,
    /// What happened, in a sentence.
    pub sentence: String,
    /// The few events that prove it, in order of time.
    pub events: Vec<Event>,
    /// How many times it was seen in the run.
    pub count: usize,
}

/// What happened in a run, counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Statistics {
    /// Claims that were made.
    pub claims: usize,
    /// Claims that were granted.
    pub granted: usize,
    /// Those of them that had to wait: another held the name when they asked.
    pub contended: usize,
    /// Claims that were refused.
    pub refused: usize,
    /// Claims of which nobody knows.
    pub unknown: usize,
    /// Holders that noticed a loss.
    pub lost: usize,
    /// Writes that were accepted.
    pub writes: usize,
    /// Writes that were refused because of their fence.
    pub stale: usize,
    /// Faults that landed, by kind.
    pub faults: std::collections::BTreeMap<String, usize>,
}

//! What is expected of a run, put together step by step.

use std::time::Duration;

use crate::verdict::{Expect, Promise};

impl Expect {
    /// Expects every promise, and one grant at least; nothing may take longer than a minute after the last fault.
    #[must_use]
    pub fn new() -> Self {
        Self {
            promises: Promise::ALL.to_vec(),
            grants: 1,
            contended: 0,
            writes: 0,
            faults: Vec::new(),
            patience_us: 60_000_000,
            order_slack_us: 0,
            notice_us: 0,
            readers_share_fences: false,
            owners_have_several_fences: false,
        }
    }

    /// Checks these promises and no others.
    #[must_use]
    pub fn only(mut self, promises: impl IntoIterator<Item = Promise>) -> Self {
        self.promises = promises.into_iter().collect();
        self
    }

    /// Checks all promises but this one.
    #[must_use]
    pub fn without(mut self, promise: Promise) -> Self {
        self.promises.retain(|asked| *asked != promise);
        self
    }

    /// Asks for so many grants.
    #[must_use]
    pub fn grants(mut self, at_least: usize) -> Self {
        self.grants = at_least;
        self
    }

    /// Asks for so many grants that somebody had to wait for.
    #[must_use]
    pub fn contended(mut self, at_least: usize) -> Self {
        self.contended = at_least;
        self
    }

    /// Asks for so many accepted writes.
    #[must_use]
    pub fn writes(mut self, at_least: usize) -> Self {
        self.writes = at_least;
        self
    }

    /// Asks for a fault of this kind; named twice, for two of them.
    #[must_use]
    pub fn fault(mut self, kind: impl Into<String>) -> Self {
        self.faults.push(kind.into());
        self
    }

    /// Lets a claim wait so long after the last fault.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience_us = micros(patience);
        self
    }

    /// Lets two who were seen in line change places within such a time.
    #[must_use]
    pub fn order_slack(mut self, slack: Duration) -> Self {
        self.order_slack_us = micros(slack);
        self
    }

    /// Gives an owner that comes back from a pause so long to notice what it has lost.
    #[must_use]
    pub fn notice(mut self, notice: Duration) -> Self {
        self.notice_us = micros(notice);
        self
    }

    /// Lets readers that asked at the same time have the same fence: there is nothing to order between them.
    #[must_use]
    pub fn readers_share_fences(mut self) -> Self {
        self.readers_share_fences = true;
        self
    }

    /// Lets claims of one owner that hold together have different fences, and one that joins them their fence even if a release has
    /// reported *freed*: where servers vote, a claim may join some of them before it has a majority.
    #[must_use]
    pub fn owners_have_several_fences(mut self) -> Self {
        self.owners_have_several_fences = true;
        self
    }

    /// Whether this promise is checked.
    #[must_use]
    pub fn asks_for(&self, promise: Promise) -> bool {
        self.promises.contains(&promise)
    }
}

impl Default for Expect {
    fn default() -> Self {
        Self::new()
    }
}

/// In whole microseconds; what is longer than their number can say is for ever.
fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

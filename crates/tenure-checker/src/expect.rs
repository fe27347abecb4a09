//! Builds the expectations of a run.

use std::time::Duration;

use crate::verdict::{Expect, Promise};

impl Expect {
    /// Expects every promise and at least one grant; nothing may take longer than a minute after
    /// the last fault.
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

    /// Checks only these promises.
    #[must_use]
    pub fn only(mut self, promises: impl IntoIterator<Item = Promise>) -> Self {
        self.promises = promises.into_iter().collect();
        self
    }

    /// Checks all promises except this one.
    #[must_use]
    pub fn without(mut self, promise: Promise) -> Self {
        self.promises.retain(|asked| *asked != promise);
        self
    }

    /// Requires at least this many grants.
    #[must_use]
    pub fn grants(mut self, at_least: usize) -> Self {
        self.grants = at_least;
        self
    }

    /// Requires at least this many grants that had to wait.
    #[must_use]
    pub fn contended(mut self, at_least: usize) -> Self {
        self.contended = at_least;
        self
    }

    /// Requires at least this many accepted writes.
    #[must_use]
    pub fn writes(mut self, at_least: usize) -> Self {
        self.writes = at_least;
        self
    }

    /// Requires a fault of this kind; each call requires one more.
    #[must_use]
    pub fn fault(mut self, kind: impl Into<String>) -> Self {
        self.faults.push(kind.into());
        self
    }

    /// Permits a claim to wait this long after the last fault.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience_us = micros(patience);
        self
    }

    /// Permits two claims that were seen in line to swap places within this time.
    #[must_use]
    pub fn order_slack(mut self, slack: Duration) -> Self {
        self.order_slack_us = micros(slack);
        self
    }

    /// Gives an owner that returns from a pause this much time to notice its loss.
    #[must_use]
    pub fn notice(mut self, notice: Duration) -> Self {
        self.notice_us = micros(notice);
        self
    }

    /// Permits readers that asked at the same time to have the same fence: there is no order
    /// between them.
    #[must_use]
    pub fn readers_share_fences(mut self) -> Self {
        self.readers_share_fences = true;
        self
    }

    /// Permits claims of one owner that hold together to have different fences, and a claim that
    /// joins them to have their fence even after a release has reported *freed*. Where servers
    /// vote, a claim may join on some servers before it has a majority.
    #[must_use]
    pub fn owners_have_several_fences(mut self) -> Self {
        self.owners_have_several_fences = true;
        self
    }

    /// Returns whether this promise is checked.
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

/// Converts to whole microseconds; a duration that is too long becomes `u64::MAX`, which means for
/// ever.
fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

//! Planted bugs: mistakes on purpose at the boundary of the store, to see whether the simulator bites.

use tenure::driver::News;

use crate::contract::{Reply, Request};
use crate::store::Store;

/// A mistake that can be switched on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// Placeholder.
    None,
}

impl Bug {
    /// All of them.
    pub const ALL: &'static [Self] = &[];

    /// Its name, as the command has it.
    pub fn name(self) -> &'static str {
        ""
    }

    /// What is wrong, in a sentence.
    pub fn about(self) -> &'static str {
        ""
    }

    /// The bug of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|bug| bug.name() == name)
    }

    /// Whether it shows only if an owner is used more than once.
    pub fn needs_owners(self) -> bool {
        false
    }
}

/// The mistake of a run, and what it remembers.
#[derive(Debug)]
pub(crate) struct Planted {
    bug: Option<Bug>,
}

impl Planted {
    pub(crate) fn new(bug: Option<Bug>) -> Self {
        Self { bug }
    }

    /// Lets the store decide, or decides wrongly.
    pub(crate) fn decide(&self, store: &Store, link: usize, request: &Request) -> Option<Reply> {
        let _ = self.bug;
        store.decide(link, request)
    }

    /// Whether the store's fences start again when it has lost its data.
    pub(crate) fn forgets_fences(&self) -> bool {
        false
    }

    /// Passes news on, or does not.
    pub(crate) fn news(&self, _link: usize, news: News) -> Option<News> {
        Some(news)
    }
}

//! Says from a history of claims, grants and writes whether a lock kept its promises.
//!
//! A [`History`] is what clients, the protected resource and the one who made the faults noted down. The checker knows no
//! store and no clock of a store: it compares what was believed, what was accepted and in which order.

mod history;
mod verdict;

pub use history::{Event, Freed, History, Mode, What, Written};
pub use verdict::{Expect, Finding, Promise, Statistics, Verdict};

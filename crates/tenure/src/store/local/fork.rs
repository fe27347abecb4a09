//! Tells a forked child from the process that it was forked from.
//!
//! A child has a copy of every client of its parent, and shares its open files: a lock that it
//! takes is its parent's, and so is one that it lets go. So it must not use the copy, and its end
//! must change nothing.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::random::random_u128;
use crate::store::local::raw;

/// The process in which something was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Origin(u64);

impl Origin {
    /// This process; costs no system call.
    pub(super) fn here() -> Self {
        match raw::wiped_in_children() {
            Some(mark) => Self(marked(mark)),
            // Not certain only between pid namespaces.
            None => Self(u64::from(std::process::id())),
        }
    }

    /// Whether this is the process itself, and not a child that was forked from it.
    pub(super) fn is_here(self) -> bool {
        self == Self::here()
    }
}

/// Reads the mark, which is drawn anew where there is none yet.
fn marked(mark: &AtomicU64) -> u64 {
    let known = mark.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    // Any half of the bits is as good as the other.
    #[allow(clippy::cast_possible_truncation)]
    let drawn = (random_u128() as u64).max(1);
    let marked = mark.compare_exchange(0, drawn, Ordering::Relaxed, Ordering::Relaxed);
    marked.map_or_else(|other| other, |_| drawn)
}

/// Something that waits for the kernel's events, and that a forked child does not drop: parent and
/// child share the list of what is waited for, so the parent would hear nothing any more.
#[derive(Debug)]
pub(super) struct Kept<T> {
    value: Option<T>,
    origin: Origin,
}

impl<T> Kept<T> {
    pub(super) fn new(value: T) -> Self {
        Self {
            value: Some(value),
            origin: Origin::here(),
        }
    }
}

impl<T> Deref for Kept<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value
            .as_ref()
            .unwrap_or_else(|| unreachable!("taken only by the drop"))
    }
}

impl<T> Drop for Kept<T> {
    #[allow(clippy::mem_forget, reason = "the parent drops its own copy")]
    fn drop(&mut self) {
        if !self.origin.is_here() {
            std::mem::forget(self.value.take());
        }
    }
}

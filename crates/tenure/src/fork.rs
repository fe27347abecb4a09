//! Detects forked children.
//!
//! A child has a copy of every client of its parent, with the parent's connections, files and counters.
//! Using the copy would lock and release on behalf of the parent. So the child must not use the copy,
//! and dropping the copy must change nothing. The child can open its own client.
#![allow(unsafe_code, reason = "proven below")]

use std::sync::atomic::{AtomicU64, Ordering};

/// The process in which something was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin(u64);

impl Origin {
    /// Returns this process, without a system call.
    pub(crate) fn here() -> Self {
        match wiped_in_children() {
            Some(mark) => Self(marked(mark)),
            // This is reliable except between pid namespaces.
            None => Self(u64::from(std::process::id())),
        }
    }

    /// Returns whether this is the process itself, not a child forked from it.
    pub(crate) fn is_here(self) -> bool {
        self == Self::here()
    }
}

/// An event source that a forked child does not drop.
///
/// Parent and child share the epoll instance, so the parent would receive no more events.
#[cfg(feature = "local")]
#[derive(Debug)]
pub(crate) struct LeakedInChild<T> {
    value: Option<T>,
    origin: Origin,
}

#[cfg(feature = "local")]
impl<T> LeakedInChild<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            value: Some(value),
            origin: Origin::here(),
        }
    }
}

#[cfg(feature = "local")]
impl<T> std::ops::Deref for LeakedInChild<T> {
    type Target = T;

    fn deref(&self) -> &T {
        let value = self.value.as_ref();
        value.unwrap_or_else(|| unreachable!("taken only by the drop"))
    }
}

#[cfg(feature = "local")]
impl<T> Drop for LeakedInChild<T> {
    #[allow(clippy::mem_forget, reason = "the parent drops its own copy")]
    fn drop(&mut self) {
        if !self.origin.is_here() {
            std::mem::forget(self.value.take());
        }
    }
}

/// Returns the mark, and sets a random one if there is none yet.
fn marked(mark: &AtomicU64) -> u64 {
    let known = mark.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    let mut bytes = [0; 8];
    let drawn = match getrandom::fill(&mut bytes) {
        Ok(()) => u64::from_le_bytes(bytes).max(1),
        Err(_) => u64::from(std::process::id()),
    };
    let marked = mark.compare_exchange(0, drawn, Ordering::Relaxed, Ordering::Relaxed);
    marked.map_or_else(|other| other, |_| drawn)
}

/// Returns a number that is 0 at first and again in every forked child; `None` if the kernel does not
/// support that.
#[cfg(target_os = "linux")]
fn wiped_in_children() -> Option<&'static AtomicU64> {
    use std::sync::OnceLock;

    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
    static MARK: OnceLock<Option<&'static AtomicU64>> = OnceLock::new();
    *MARK.get_or_init(|| {
        let bytes = rustix::param::page_size();
        let (rights, anywhere) = (ProtFlags::READ | ProtFlags::WRITE, std::ptr::null_mut());
        // SAFETY: this creates a new mapping of zeros, at an address that the kernel chooses.
        let page = unsafe { mmap_anonymous(anywhere, bytes, rights, MapFlags::PRIVATE) };
        let page = page.ok()?;
        // SAFETY: the page was mapped just now, and nobody else has it.
        let wiped = unsafe { madvise(page, bytes, Advice::LinuxWipeOnFork) };
        // SAFETY: the page stays mapped forever, is aligned for every number, and is used only by this
        // one.
        wiped
            .ok()
            .map(|()| unsafe { AtomicU64::from_ptr(page.cast()) })
    })
}

#[cfg(not(target_os = "linux"))]
fn wiped_in_children() -> Option<&'static AtomicU64> {
    None
}

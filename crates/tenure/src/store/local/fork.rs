//! What a forked child must not even drop.

use std::ops::Deref;

use crate::fork::Origin;

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

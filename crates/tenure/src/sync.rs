//! Small tools for state that several tasks share.

use std::sync::{MutexGuard, PoisonError};

use tokio::sync::Notify;

/// A mutex without poisoning: nothing here panics while its data is inconsistent.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until `found` returns something; `changed` notifies all waiters after each change.
///
/// # Cancel safety
///
/// Cancel safe: waiting changes nothing.
pub(crate) async fn until<T>(changed: &Notify, found: impl Fn() -> Option<T>) -> T {
    loop {
        let change = changed.notified();
        tokio::pin!(change);
        // The waiter is registered before the check, so that no change is missed.
        change.as_mut().enable();
        if let Some(found) = found() {
            return found;
        }
        change.await;
    }
}

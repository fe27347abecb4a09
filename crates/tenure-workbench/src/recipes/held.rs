//! A lock that a recipe has taken.

use std::future::{Future, pending};
use std::time::Duration;

use tokio::sync::{OwnedMutexGuard, watch};
use tokio::task::JoinHandle;

use crate::recipes::{Result, breakpoint};

/// A lock that a client believes it holds.
#[derive(Debug)]
pub(crate) struct Held {
    /// What is locked.
    pub(crate) name: String,
    /// The holder's value in the store.
    pub(crate) token: String,
    /// The fence of the grant, if the recipe has fences.
    pub(crate) fence: Option<u64>,
    /// What keeps the lock held.
    pub(crate) keeper: Keeper,
}

/// What keeps a lock held.
#[derive(Debug)]
pub(crate) enum Keeper {
    /// Nothing: it lasts as long as the store keeps it.
    Nothing,
    /// A task that renews it.
    Renewal(Renewal),
    /// A mutex of this process.
    Mutex { _guard: OwnedMutexGuard<()> },
    /// tenure's own guard.
    Guard(tenure::Guard),
}

impl Held {
    /// Returns a lock that nothing renews.
    pub(crate) fn new(name: &str, token: String) -> Self {
        Self {
            name: name.to_owned(),
            token,
            fence: None,
            keeper: Keeper::Nothing,
        }
    }

    /// Adds a fence.
    pub(crate) fn with_fence(self, fence: u64) -> Self {
        Self {
            fence: Some(fence),
            ..self
        }
    }

    /// Sets what keeps the lock held.
    pub(crate) fn kept_by(self, keeper: Keeper) -> Self {
        Self { keeper, ..self }
    }

    /// Waits until the holder notices that it has lost the lock; for ever if the recipe cannot
    /// notice.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a later call returns at once.
    pub(crate) async fn lost(&self) {
        match &self.keeper {
            Keeper::Renewal(renewal) => renewal.lost().await,
            Keeper::Guard(guard) => {
                guard.lost().await;
            }
            Keeper::Nothing | Keeper::Mutex { .. } => pending().await,
        }
    }
}

/// A task that renews a lock until it is dropped or learns that the lock is lost.
#[derive(Debug)]
pub(crate) struct Renewal {
    task: JoinHandle<()>,
    lost: watch::Receiver<bool>,
}

impl Renewal {
    /// Renews three times per ttl; `renew` returns whether the lock is still held.
    pub(crate) fn start<F, R>(ttl: Duration, mut renew: F) -> Self
    where
        F: FnMut() -> R + Send + 'static,
        R: Future<Output = Result<bool>> + Send,
    {
        let (tell, lost) = watch::channel(false);
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(ttl / 3).await;
                // A failed request does not mean that the lock is lost, so the next turn retries.
                if matches!(renew().await, Ok(false)) {
                    tell.send_replace(true);
                    return;
                }
                breakpoint("renewed").await;
            }
        });
        Self { task, lost }
    }

    async fn lost(&self) {
        let mut lost = self.lost.clone();
        if lost.wait_for(|lost| *lost).await.is_err() {
            pending::<()>().await;
        }
    }
}

impl Drop for Renewal {
    fn drop(&mut self) {
        self.task.abort();
    }
}

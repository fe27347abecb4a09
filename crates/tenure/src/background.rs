//! Background work: releases, withdrawals, late replies.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::sync::until;

/// Runs background work, and counts it.
#[derive(Debug, Clone)]
pub(crate) struct Background(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    runtime: Handle,
    running: AtomicUsize,
    /// Notified when no work is left.
    over: Notify,
}

impl Background {
    pub(crate) fn on(runtime: Handle) -> Self {
        Self(Arc::new(Inner {
            runtime,
            running: AtomicUsize::new(0),
            over: Notify::new(),
        }))
    }

    /// Starts a piece of work.
    pub(crate) fn spawn<F>(&self, work: F)
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let running = Running::new(&self.0);
        self.0.runtime.spawn(async move {
            // Dropping the output may start more work, so it is dropped first.
            drop(work.await);
            drop(running);
        });
    }

    /// Waits until no work is running.
    pub(crate) async fn over(&self) {
        let is_idle = || self.0.running.load(Ordering::Acquire) == 0;
        until(&self.0.over, || is_idle().then_some(())).await;
    }
}

/// Counts one piece of work, even if the runtime drops it before it ends.
struct Running(Arc<Inner>);

impl Running {
    fn new(inner: &Arc<Inner>) -> Self {
        inner.running.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(inner))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.0.running.fetch_sub(1, Ordering::Release) == 1 {
            self.0.over.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn over_waits_for_work_that_work_has_started() {
        let background = Background::on(Handle::current());
        let done = Arc::new(AtomicBool::new(false));
        let (flag, more) = (Arc::clone(&done), background.clone());
        background.spawn(async move {
            sleep(Duration::from_secs(1)).await;
            more.spawn(async move {
                sleep(Duration::from_secs(1)).await;
                flag.store(true, Ordering::SeqCst);
            });
        });
        background.over().await;
        assert!(done.load(Ordering::SeqCst));
    }

    #[tokio::test]
    async fn nothing_is_over_at_once() {
        Background::on(Handle::current()).over().await;
    }
}

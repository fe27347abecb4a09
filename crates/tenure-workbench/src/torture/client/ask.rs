//! The ways to ask for a lock, and what comes of them.

use std::future::Future;
use std::time::Duration;

use tenure::{Error, Guard, Lease, Lock};
use tokio::time::timeout;

use super::lots::Way;

/// What came of a call.
#[derive(Debug)]
pub(super) enum Answer<T> {
    Granted(T),
    Busy,
    Failed(Error),
    /// The call was dropped before its answer came.
    Dropped,
}

/// Asks for a lock of this process.
pub(super) async fn guard(lock: &Lock, way: Way) -> Answer<Guard> {
    let patiently = |patience| lock.lock_timeout(patience);
    ask(way, || lock.lock(), || lock.try_lock(), patiently).await
}

/// Asks for a lease by hand.
pub(super) async fn lease(lock: &Lock, way: Way) -> Answer<Lease> {
    let patiently = |patience| lock.lease_timeout(patience);
    ask(way, || lock.lease(), || lock.try_lease(), patiently).await
}

async fn ask<T, W, N, P>(
    way: Way,
    wait: impl FnOnce() -> W,
    now: impl FnOnce() -> N,
    patiently: impl FnOnce(Duration) -> P,
) -> Answer<T>
where
    W: Future<Output = tenure::Result<T>>,
    N: Future<Output = tenure::Result<Option<T>>>,
    P: Future<Output = tenure::Result<T>>,
{
    let answer = match way {
        Way::Wait => wait().await.map(Some),
        Way::Try => now().await,
        Way::Patience(patience) | Way::Retry { patience, .. } => {
            patiently(patience).await.map(Some)
        }
        Way::Drop(after) => match timeout(after, wait()).await {
            Ok(answer) => answer.map(Some),
            Err(_) => return Answer::Dropped,
        },
    };
    match answer {
        Ok(Some(granted)) => Answer::Granted(granted),
        Ok(None) => Answer::Busy,
        Err(error) => Answer::Failed(error),
    }
}

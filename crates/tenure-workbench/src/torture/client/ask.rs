//! The ways to ask for a lock, and their outcomes.

use std::time::Duration;

use tenure::{Error, Guard, Lease, Lock};
use tokio::time::timeout;

use super::choices::Way;

/// The outcome of a call.
#[derive(Debug)]
pub(super) enum Answer<T> {
    Granted(T),
    Busy,
    Failed(Error),
    /// The call was dropped before it was answered.
    Dropped,
}

/// Asks for a guard.
pub(super) async fn guard(lock: &Lock, way: Way) -> Answer<Guard> {
    let ask = async |patience| match patience {
        Some(Duration::ZERO) => lock.try_lock().await,
        Some(patience) => lock.lock_timeout(patience).await.map(Some),
        None => lock.lock().await.map(Some),
    };
    answer(way, ask).await
}

/// Asks for a lease by hand.
pub(super) async fn lease(lock: &Lock, way: Way) -> Answer<Lease> {
    let ask = async |patience| match patience {
        Some(Duration::ZERO) => lock.try_lease().await,
        Some(patience) => lock.lease_timeout(patience).await.map(Some),
        None => lock.lease().await.map(Some),
    };
    answer(way, ask).await
}

/// Asks without waiting, with a timeout, or without a limit.
async fn answer<T>(
    way: Way,
    ask: impl AsyncFn(Option<Duration>) -> tenure::Result<Option<T>>,
) -> Answer<T> {
    let answer = match way {
        Way::Wait => ask(None).await,
        Way::Try => ask(Some(Duration::ZERO)).await,
        Way::Patience(patience) | Way::Retry { patience, .. } => ask(Some(patience)).await,
        Way::Drop(after) => match timeout(after, ask(None)).await {
            Ok(answer) => answer,
            Err(_) => return Answer::Dropped,
        },
    };
    match answer {
        Ok(Some(granted)) => Answer::Granted(granted),
        Ok(None) => Answer::Busy,
        Err(error) => Answer::Failed(error),
    }
}

//! Requests that run to completion even if nobody waits for them any more.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::background::Background;

/// Runs `request` on the caller's task, or in the background if the caller is dropped before it
/// ends.
///
/// A request that was sent cannot be recalled: dropping its future would leave behind whatever the
/// store decided, and an undo sent after it might overtake it. So it continues, and its output is
/// dropped at the end, which releases what it holds.
pub(crate) fn to_end<F>(background: &Background, request: F) -> ToEnd<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    ToEnd {
        request: Some(Box::pin(request)),
        background: background.clone(),
        started: false,
    }
}

/// The future of [`to_end`].
pub(crate) struct ToEnd<T: Send + 'static> {
    request: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    background: Background,
    started: bool,
}

impl<T: Send + 'static> Future for ToEnd<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        self.started = true;
        let Some(request) = &mut self.request else {
            return Poll::Pending;
        };
        let output = std::task::ready!(request.as_mut().poll(context));
        self.request = None;
        Poll::Ready(output)
    }
}

impl<T: Send + 'static> Drop for ToEnd<T> {
    fn drop(&mut self) {
        if let Some(request) = self.request.take()
            && self.started
        {
            self.background.spawn(request);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use tokio::runtime::Handle;
    use tokio::time::{sleep, timeout};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_request_cut_short_runs_to_its_end() {
        let done = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&done);
        let request = to_end(&Background::on(Handle::current()), async move {
            sleep(Duration::from_secs(1)).await;
            flag.store(true, Ordering::SeqCst);
        });
        assert!(timeout(Duration::from_millis(1), request).await.is_err());
        sleep(Duration::from_secs(2)).await;
        assert!(done.load(Ordering::SeqCst));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_never_began_is_not_sent() {
        let sent = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&sent);
        let never = async move { flag.store(true, Ordering::SeqCst) };
        drop(to_end(&Background::on(Handle::current()), never));
        sleep(Duration::from_secs(1)).await;
        assert!(!sent.load(Ordering::SeqCst));
    }
}

//! One request to every node at once, and no longer a wait than the outcome needs.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use crate::error::Result;

/// What is asked of one node.
pub(crate) type Request<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

/// Requests to all nodes, and the answers that have come.
pub(crate) struct Round<T> {
    requests: Vec<Option<Request<T>>>,
    /// By node; `None` while the node has not answered.
    pub(crate) answers: Vec<Option<Result<T>>>,
}

impl<T: Send + 'static> Round<T> {
    /// Prepares the requests; the first [`until`](Self::until) sends them all.
    pub(crate) fn new(requests: impl Iterator<Item = Request<T>>) -> Self {
        let requests: Vec<_> = requests.map(Some).collect();
        let answers = requests.iter().map(|_| None).collect();
        Self { requests, answers }
    }

    /// Waits until the answers are enough, or all there.
    pub(crate) async fn until(&mut self, enough: impl Fn(&[Option<Result<T>>]) -> bool) {
        poll_fn(|context| {
            let mut open = false;
            for (request, answer) in self.requests.iter_mut().zip(&mut self.answers) {
                let Some(running) = request else {
                    continue;
                };
                match running.as_mut().poll(context) {
                    Poll::Ready(ended) => {
                        *answer = Some(ended);
                        *request = None;
                    }
                    Poll::Pending => open = true,
                }
            }
            if open && !enough(&self.answers) {
                Poll::Pending
            } else {
                Poll::Ready(())
            }
        })
        .await;
    }

    /// Lets what is still open run to its end, and gives each answer to `late`.
    ///
    /// Each task ends with its one request, which has a deadline, and with what `late` does.
    pub(crate) fn finish<F>(self, late: impl Fn(usize, Result<T>) -> F + Clone + Send + 'static)
    where
        F: Future<Output = ()> + Send,
    {
        for (node, request) in self.requests.into_iter().enumerate() {
            if let Some(request) = request {
                let late = late.clone();
                tokio::spawn(async move {
                    let answer = request.await;
                    late(node, answer).await;
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn a_silent_node_is_not_waited_for() {
        let silent: Request<u8> = Box::pin(pending());
        let requests: [Request<u8>; 3] = [Box::pin(ready(Ok(1))), silent, Box::pin(ready(Ok(3)))];
        let mut round = Round::new(requests.into_iter());
        round
            .until(|answers| answers.iter().flatten().count() == 2)
            .await;
        assert!(matches!(
            round.answers[..],
            [Some(Ok(1)), None, Some(Ok(3))]
        ));
    }

    #[tokio::test]
    async fn late_answers_are_taken_in() {
        let (open, opened) = tokio::sync::oneshot::channel();
        let slow: Request<u8> = Box::pin(async { Ok(opened.await.unwrap()) });
        let mut round = Round::new([slow].into_iter());
        round.until(|_| true).await;
        assert!(round.answers[0].is_none());
        let (tell, told) = mpsc::channel();
        round.finish(move |node, answer| {
            let tell = tell.clone();
            async move { tell.send((node, answer.unwrap())).unwrap() }
        });
        open.send(7).unwrap();
        tokio::task::yield_now().await;
        while told.try_recv() != Ok((0, 7)) {
            tokio::task::yield_now().await;
        }
    }
}

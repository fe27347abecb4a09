//! One request to every node at once, and no longer a wait than the outcome needs.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::background::Background;
use crate::error::Result;

/// What is asked of one node.
type Request<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

/// Requests to all nodes, and the answers that have come.
pub(crate) struct Round<T> {
    requests: Vec<Option<Request<T>>>,
    /// By node; `None` while the node has not answered.
    pub(crate) answers: Vec<Option<Result<T>>>,
}

impl<T: Send + 'static> Round<T> {
    /// A round in which nobody is asked yet.
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            requests: (0..nodes).map(|_| None).collect(),
            answers: (0..nodes).map(|_| None).collect(),
        }
    }

    /// Prepares the request to a node; it is sent when it is waited for.
    pub(crate) fn ask<F>(&mut self, node: usize, request: F)
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        self.requests[node] = Some(Box::pin(request));
    }

    /// Who was not asked and has no answer.
    pub(crate) fn unasked(&self) -> Vec<usize> {
        let all = self.requests.iter().zip(&self.answers).enumerate();
        let unasked = all.filter(|(_, (request, answer))| request.is_none() && answer.is_none());
        unasked.map(|(node, _)| node).collect()
    }

    /// Waits until the answers are enough, or all there.
    pub(crate) async fn until(&mut self, enough: impl Fn(&[Option<Result<T>>]) -> bool) {
        poll_fn(|context| {
            if self.poll(context) && !enough(&self.answers) {
                Poll::Pending
            } else {
                Poll::Ready(())
            }
        })
        .await;
    }

    /// Takes in what has come; returns whether an answer is still to come.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> bool {
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
        open
    }

    /// Lets what is still open run to its end, and gives each answer to `late`.
    ///
    /// Each task ends with its one request, which has a deadline, and with what `late` does.
    pub(crate) fn finish<F>(
        self,
        background: &Background,
        late: impl Fn(usize, Result<T>) -> F + Clone + Send + 'static,
    ) where
        F: Future<Output = ()> + Send,
    {
        for (node, request) in self.requests.into_iter().enumerate() {
            if let Some(request) = request {
                let late = late.clone();
                background.spawn(async move {
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

    use tokio::runtime::Handle;

    use super::*;

    #[tokio::test]
    async fn a_silent_node_is_not_waited_for() {
        let mut round = Round::new(3);
        round.ask(0, ready(Ok(1)));
        round.ask(1, pending());
        round.ask(2, ready(Ok(3)));
        round
            .until(|answers| answers.iter().flatten().count() == 2)
            .await;
        assert!(matches!(
            round.answers[..],
            [Some(Ok(1)), None, Some(Ok(3))]
        ));
    }

    #[tokio::test]
    async fn who_is_not_asked_is_not_waited_for() {
        let mut round = Round::new(2);
        round.ask(0, ready(Ok(1)));
        assert_eq!(round.unasked(), [1]);
        round.until(|_| false).await;
        assert!(matches!(round.answers[..], [Some(Ok(1)), None]));
        assert_eq!(round.unasked(), [1]);
        round.ask(1, ready(Ok(2)));
        assert!(round.unasked().is_empty());
        round.until(|_| false).await;
        assert!(matches!(round.answers[..], [Some(Ok(1)), Some(Ok(2))]));
    }

    #[tokio::test]
    async fn late_answers_are_taken_in() {
        let (open, opened) = tokio::sync::oneshot::channel();
        let mut round = Round::new(1);
        round.ask(0, async { Ok(opened.await.unwrap()) });
        round.until(|_| true).await;
        assert!(round.answers[0].is_none());
        let (tell, told) = mpsc::channel();
        let background = Background::on(Handle::current());
        round.finish(&background, move |node, answer| {
            let tell = tell.clone();
            async move { tell.send((node, answer.unwrap())).unwrap() }
        });
        open.send(7).unwrap();
        background.over().await;
        assert_eq!(told.try_recv(), Ok((0, 7)));
    }
}

//! Asking all nodes that can be reached, and the others only if it takes them.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use tokio::time::timeout;

use crate::error::{Error, Lasting, Result};
use crate::store::redis::hash::Hash;
use crate::store::redlock::fault::unavailable;
use crate::store::redlock::group::{A_WHILE, Group};
use crate::store::redlock::round::Round;

impl Group {
    /// Waits until a majority is connected, and a moment for the others.
    ///
    /// # Errors
    ///
    /// [`Unavailable`](crate::Error::Unavailable) if a majority cannot be reached.
    pub(crate) async fn connect(&self) -> Result<()> {
        let mut tries = Round::new(self.nodes.len());
        for (index, node) in self.nodes.iter().enumerate() {
            tries.ask(index, next_try(Arc::clone(node)));
        }
        let connected = |tries: &[Option<Result<()>>]| tries.iter().flatten().flatten().count();
        tries.until(|tries| connected(tries) >= self.majority).await;
        if connected(&tries.answers) < self.majority {
            let answers = tries.answers.iter().flatten();
            let may_vote = answers.filter(|tried| {
                let error = tried.as_ref().err();
                error.is_none_or(Error::may_pass)
            });
            // Where a majority has the wrong password, no time helps.
            return Err(match may_vote.count() >= self.majority {
                true => unavailable(self.failure(&tries)),
                false => unavailable(Lasting(self.failure(&tries).into())),
            });
        }
        _ = timeout(A_WHILE, tries.until(|_| false)).await;
        Ok(())
    }

    /// Asks every node, and waits until the answers are enough, or all there.
    ///
    /// A node without a connection is not asked and has failed, unless the answers of the others
    /// are not enough: then it is asked if the next try to connect succeeds. So a node that is dead
    /// costs nothing, one that is away for a moment is there when it is needed, and what is asked
    /// first arrives first.
    pub(crate) async fn ask<T, F>(
        &self,
        request: impl Fn(usize, Arc<Hash>) -> F,
        enough: impl Fn(&[Option<Result<T>>]) -> bool,
    ) -> Round<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let mut round = Round::new(self.nodes.len());
        for (index, node) in self.nodes.iter().enumerate() {
            if node.link().is_up() {
                round.ask(index, request(index, Arc::clone(node)));
            }
        }
        round.until(&enough).await;
        if !round.unasked().is_empty() && !enough(&round.answers) {
            self.ask_absent(&mut round, request, enough).await;
        }
        for node in round.unasked() {
            round.answers[node] = Some(Err(self.nodes[node].link().no_connection()));
        }
        round
    }

    /// Asks those who were not connected, each when it is.
    async fn ask_absent<T, F>(
        &self,
        round: &mut Round<T>,
        request: impl Fn(usize, Arc<Hash>) -> F,
        enough: impl Fn(&[Option<Result<T>>]) -> bool,
    ) where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let absent = round.unasked();
        let mut tries = Round::new(self.nodes.len());
        for node in &absent {
            tries.ask(*node, next_try_in_time(Arc::clone(&self.nodes[*node])));
        }
        poll_fn(|context| {
            let mut open = tries.poll(context);
            for node in &absent {
                match tries.answers[*node].take() {
                    Some(Ok(())) => {
                        round.ask(*node, request(*node, Arc::clone(&self.nodes[*node])))
                    }
                    Some(Err(trouble)) => round.answers[*node] = Some(Err(trouble)),
                    None => {}
                }
            }
            open |= round.poll(context);
            if open && !enough(&round.answers) {
                Poll::Pending
            } else {
                Poll::Ready(())
            }
        })
        .await;
    }
}

async fn next_try(node: Arc<Hash>) -> Result<()> {
    node.link().next_try().await
}

/// The same, but no longer than a request waits for a connection.
async fn next_try_in_time(node: Arc<Hash>) -> Result<()> {
    let tried = timeout(node.settings().patience(), node.link().next_try()).await;
    tried.unwrap_or_else(|_| Err(node.link().no_connection()))
}

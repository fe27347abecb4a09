//! Asking all nodes that can be reached, and the others only if it takes them.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use crate::error::{Error, Lasting, Result};
use crate::store::redlock::fault::unavailable;
use crate::store::redlock::group::{A_WHILE, Group};
use crate::store::redlock::node::Node;
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
            let node = Arc::clone(node);
            tries.ask(index, async move { node.connected().await });
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
        self.within(A_WHILE, tries.until(|_| false)).await;
        Ok(())
    }

    /// Asks every node, and waits until the answers are enough, or all there.
    ///
    /// A node without a connection is not asked and has failed, unless the answers of the others
    /// are not enough: then it is asked if the next try to connect succeeds. So a node that is dead
    /// costs nothing, one that is away for a moment is there when it is needed, and what is asked
    /// first arrives first.
    pub(crate) async fn ask<T, F>(
        self: &Arc<Self>,
        request: impl Fn(usize, Arc<dyn Node>) -> F,
        enough: impl Fn(&[Option<Result<T>>]) -> bool,
    ) -> Round<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let mut round = Round::new(self.nodes.len());
        for (index, node) in self.nodes.iter().enumerate() {
            if node.is_connected() {
                round.ask(index, request(index, Arc::clone(node)));
            }
        }
        round.until(&enough).await;
        if !round.unasked().is_empty() && !enough(&round.answers) {
            self.ask_absent(&mut round, request, enough).await;
        }
        for node in round.unasked() {
            round.answers[node] = Some(Err(self.nodes[node].no_connection()));
        }
        round
    }

    /// Asks those who were not connected, each when it is.
    async fn ask_absent<T, F>(
        self: &Arc<Self>,
        round: &mut Round<T>,
        request: impl Fn(usize, Arc<dyn Node>) -> F,
        enough: impl Fn(&[Option<Result<T>>]) -> bool,
    ) where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let absent = round.unasked();
        let mut tries = Round::new(self.nodes.len());
        for node in &absent {
            let (group, absent) = (Arc::clone(self), Arc::clone(&self.nodes[*node]));
            tries.ask(*node, async move {
                // No longer than a request waits.
                let patience = absent.capabilities().timeout.unwrap_or(A_WHILE);
                let connected = group.within(patience, absent.connected()).await;
                connected.unwrap_or_else(|| Err(absent.no_connection()))
            });
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

//! Requests to all nodes at once, which wait only until the outcome is decided.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::background::Background;
use crate::clock::Clock;
use crate::driver::{self, Entry};
use crate::error::{Error, Lasting, Result};
use crate::name::Name;
use crate::store::redlock::fault::{too_few, unavailable};
use crate::store::redlock::node::Node;

/// All nodes, and how many of them have to agree.
#[derive(Debug)]
pub(crate) struct Nodes {
    pub(crate) all: Vec<Arc<dyn Node>>,
    pub(crate) majority: usize,
    /// The clock of this client's leases.
    pub(crate) clock: Clock,
    /// Requests whose replies nobody waits for any more, and the cleanup that follows from them.
    pub(crate) background: Background,
}

/// The reply of each node; `None` while there is none.
pub(crate) type Answers<T> = [Option<Result<T>>];

impl Nodes {
    pub(crate) fn new(all: Vec<Arc<dyn Node>>, background: Background) -> Self {
        Self {
            majority: majority_of(all.len()),
            clock: Clock::start(clock_of(&all)),
            all,
            background,
        }
    }

    /// Waits until a majority is connected, and briefly for the others.
    ///
    /// # Errors
    ///
    /// [`Unavailable`](crate::Error::Unavailable) if a majority cannot be reached.
    pub(crate) async fn connect(&self) -> Result<()> {
        let mut attempts = Round::new(self.all.len(), None);
        for (index, node) in self.all.iter().enumerate() {
            let node = Arc::clone(node);
            attempts.ask(index, async move { node.connected().await });
        }
        attempts
            .until(|answers| succeeded(answers) >= self.majority)
            .await;
        if succeeded(&attempts.answers) < self.majority {
            let answers = attempts.answers.iter().flatten();
            let may_vote = answers.filter(|answer| {
                let error = answer.as_ref().err();
                error.is_none_or(Error::may_pass)
            });
            // If a majority refuses the password, waiting does not help.
            return Err(match may_vote.count() >= self.majority {
                true => unavailable(self.failure(&attempts.answers)),
                false => unavailable(Lasting(self.failure(&attempts.answers).into())),
            });
        }
        self.within(SLOW_ANSWER, attempts.until(|_| false)).await;
        Ok(())
    }

    /// Asks every node, and waits until the replies are enough or complete.
    ///
    /// A node without a connection counts as failed and is not asked, unless the replies of the others
    /// are not enough: then it is asked if the next attempt to connect succeeds. So a dead node costs
    /// nothing, a node that is briefly disconnected is used when it is needed, and requests arrive in
    /// the order in which they were sent.
    pub(crate) async fn ask<T, F>(
        &self,
        request: impl Fn(usize, Arc<dyn Node>) -> F,
        enough: impl Fn(&Answers<T>) -> bool,
    ) -> Round<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let mut round = Round::new(self.all.len(), Some(self.background.clone()));
        for (index, node) in self.all.iter().enumerate() {
            if node.is_connected() {
                round.ask(index, request(index, Arc::clone(node)));
            }
        }
        round.until(&enough).await;
        let mut absent = Vec::new();
        if !enough(&round.answers) {
            let unasked = round.unasked().into_iter();
            absent.extend(unasked.map(|index| (index, Box::pin(self.connected(index)))));
        }
        poll_fn(|context| {
            absent.retain_mut(
                |(index, connected)| match connected.as_mut().poll(context) {
                    Poll::Pending => true,
                    Poll::Ready(Ok(())) => {
                        round.ask(*index, request(*index, Arc::clone(&self.all[*index])));
                        false
                    }
                    Poll::Ready(Err(error)) => {
                        round.answers[*index] = Some(Err(error));
                        false
                    }
                },
            );
            let is_open = round.poll(context) | !absent.is_empty();
            if is_open && !enough(&round.answers) {
                Poll::Pending
            } else {
                Poll::Ready(())
            }
        })
        .await;
        for node in round.unasked() {
            round.answers[node] = Some(Err(self.all[node].no_connection()));
        }
        round
    }

    /// Waits for a connection to a node, no longer than a request waits.
    async fn connected(&self, node: usize) -> Result<()> {
        let node = &self.all[node];
        let patience = node.capabilities().timeout.unwrap_or(SLOW_ANSWER);
        let connected = self.within(patience, node.connected()).await;
        connected.unwrap_or_else(|| Err(node.no_connection()))
    }

    /// Lists one name at every node, until the replies are enough.
    pub(crate) async fn list(
        &self,
        name: &Name,
        enough: impl Fn(&Answers<Vec<Entry>>) -> bool,
    ) -> Round<Vec<Entry>> {
        let list = |_, node: Arc<dyn Node>| {
            let name = name.clone();
            async move { node.list(Some(&name)).await }
        };
        self.ask(list, enough).await
    }

    /// Waits for a future, for at most `limit`.
    pub(crate) async fn within<T>(
        &self,
        limit: Duration,
        wait: impl Future<Output = T>,
    ) -> Option<T> {
        tokio::select! {
            biased;
            output = wait => Some(output),
            () = self.clock.sleep(limit) => None,
        }
    }

    /// Explains why too few nodes have succeeded.
    pub(crate) fn failure<T>(&self, answers: &Answers<T>) -> String {
        let failed = answers.iter().enumerate().filter_map(|(node, answer)| {
            let error = answer.as_ref()?.as_ref().err()?;
            Some((node, error.why()))
        });
        self.too_few(failed)
    }

    /// Explains that too few nodes can vote, and what is wrong with each of the others.
    pub(crate) fn too_few(&self, others: impl Iterator<Item = (usize, String)>) -> String {
        let others = others.map(|(node, why)| (self.all[node].place(), why));
        let others: Vec<_> = others.collect();
        let all = self.all.len();
        too_few(all - others.len(), all, self.majority, &others)
    }
}

/// Returns the clock for the leases of these nodes.
pub(crate) fn clock_of(nodes: &[Arc<dyn Node>]) -> driver::Clock {
    let first = nodes.first().map(|node| node.clock());
    first.unwrap_or(driver::Clock::Boot)
}

/// Returns how many nodes have succeeded.
pub(crate) fn succeeded<T>(answers: &Answers<T>) -> usize {
    answers.iter().flatten().flatten().count()
}

/// A request to one node.
type Request<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

/// Requests to all nodes, and the replies so far.
///
/// When it is dropped, open requests run to completion in the background: that is how a dead connection
/// is detected. Each ends with its timeout.
pub(crate) struct Round<T: Send + 'static> {
    requests: Vec<Option<Request<T>>>,
    /// Indexed by node; `None` while the node has not replied.
    pub(crate) answers: Vec<Option<Result<T>>>,
    background: Option<Background>,
}

impl<T: Send + 'static> Round<T> {
    /// Makes a round in which no node is asked yet.
    fn new(nodes: usize, background: Option<Background>) -> Self {
        Self {
            requests: (0..nodes).map(|_| None).collect(),
            answers: (0..nodes).map(|_| None).collect(),
            background,
        }
    }

    /// Adds the request to a node; it is sent when the round is polled.
    fn ask<F>(&mut self, node: usize, request: F)
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        self.requests[node] = Some(Box::pin(request));
    }

    /// Returns the nodes that were not asked and have no reply.
    fn unasked(&self) -> Vec<usize> {
        let all = self.requests.iter().zip(&self.answers).enumerate();
        let unasked = all.filter(|(_, (request, answer))| request.is_none() && answer.is_none());
        unasked.map(|(node, _)| node).collect()
    }

    /// Waits until the replies are enough or complete.
    pub(crate) async fn until(&mut self, enough: impl Fn(&Answers<T>) -> bool) {
        poll_fn(|context| {
            if self.poll(context) && !enough(&self.answers) {
                Poll::Pending
            } else {
                Poll::Ready(())
            }
        })
        .await;
    }

    /// Collects replies; returns whether any is outstanding.
    fn poll(&mut self, context: &mut Context<'_>) -> bool {
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

    /// Passes each outstanding reply to `late`, in the background.
    pub(crate) fn finish<F>(mut self, late: impl Fn(usize, Result<T>) -> F + Clone + Send + 'static)
    where
        F: Future<Output = ()> + Send,
    {
        self.spawn(|node, request| {
            let late = late.clone();
            async move {
                let answer = request.await;
                late(node, answer).await;
            }
        });
    }

    fn spawn<F>(&mut self, task: impl Fn(usize, Request<T>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Some(background) = &self.background else {
            return;
        };
        for (node, request) in self.requests.iter_mut().enumerate() {
            if let Some(request) = request.take() {
                background.spawn(task(node, request));
            }
        }
    }
}

impl<T: Send + 'static> Drop for Round<T> {
    fn drop(&mut self) {
        self.spawn(|_, request| async { drop(request.await) });
    }
}

/// Longer than a healthy node takes to reply.
pub(crate) const SLOW_ANSWER: Duration = Duration::from_millis(50);

/// Returns how many of `nodes` have to agree.
pub(crate) fn majority_of(nodes: usize) -> usize {
    nodes / 2 + 1
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::sync::mpsc;

    use tokio::runtime::Handle;

    use super::*;

    #[tokio::test]
    async fn a_silent_node_is_not_waited_for() {
        let mut round = Round::new(3, None);
        round.ask(0, ready(Ok(1)));
        round.ask(1, pending());
        round.ask(2, ready(Ok(3)));
        round.until(|answers| succeeded(answers) == 2).await;
        assert!(matches!(
            round.answers[..],
            [Some(Ok(1)), None, Some(Ok(3))]
        ));
    }

    #[tokio::test]
    async fn who_is_not_asked_is_not_waited_for() {
        let mut round = Round::new(2, None);
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

    /// Returns a round of one node that replies when told to, and where its open requests go.
    fn open_round() -> (Round<u8>, tokio::sync::oneshot::Sender<u8>, Background) {
        let (answer, answered) = tokio::sync::oneshot::channel();
        let background = Background::on(Handle::current());
        let mut round = Round::new(1, Some(background.clone()));
        round.ask(0, async { Ok(answered.await.unwrap()) });
        (round, answer, background)
    }

    #[tokio::test]
    async fn late_answers_are_taken_in() {
        let (mut round, answer, background) = open_round();
        round.until(|_| true).await;
        assert!(round.answers[0].is_none());
        let (tell, told) = mpsc::channel();
        round.finish(move |node, answer| {
            let tell = tell.clone();
            async move { tell.send((node, answer.unwrap())).unwrap() }
        });
        answer.send(7).unwrap();
        background.over().await;
        assert_eq!(told.try_recv(), Ok((0, 7)));
    }

    #[tokio::test]
    async fn what_nobody_waits_for_runs_to_its_end() {
        let (round, answer, background) = open_round();
        drop(round);
        answer.send(7).expect("the request goes on");
        background.over().await;
    }
}

//! Combines the news of single nodes into news of the group.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::clock::Tick;
use crate::driver::News;
use crate::name::Name;
use crate::store::redlock::claims::Held;
use crate::store::redlock::cleanup::{Cleanup, Tell};
use crate::store::redlock::node::Node;

/// Forwards the news of a node until the client ends.
pub(crate) async fn listen(index: usize, node: Arc<dyn Node>, tell: Tell) {
    loop {
        let news = node.news().await;
        if tell.send((Some(index), news)).is_err() {
            return;
        }
    }
}

/// The news so far, and calls of single nodes that wait for those of the others.
#[derive(Debug)]
pub(crate) struct Inbox {
    told: mpsc::UnboundedReceiver<(Option<usize>, News)>,
    /// Which nodes have called for a name, a bit each, and until when to wait for the others.
    calls: BTreeMap<Name, (u64, Tick)>,
    ready: VecDeque<News>,
}

impl Inbox {
    pub(crate) fn new(told: mpsc::UnboundedReceiver<(Option<usize>, News)>) -> Self {
        Self {
            told,
            calls: BTreeMap::new(),
            ready: VecDeque::new(),
        }
    }

    /// Waits for the next news.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: received news is kept here.
    pub(crate) async fn next(&mut self, cleanup: &Arc<Cleanup>) -> News {
        loop {
            if let Some(news) = self.ready.pop_front() {
                return news;
            }
            let clock = &cleanup.nodes.clock;
            let soonest = self.calls.values().map(|(_, until)| *until).min();
            let patience = async {
                match soonest {
                    Some(until) => clock.sleep(until.since(clock.now())).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                told = self.told.recv() => match told {
                    Some((Some(node), news)) => self.hear(cleanup, node, news),
                    Some((None, news)) => self.ready.push_back(news),
                    // The group keeps a sender, so this cannot happen.
                    None => return std::future::pending().await,
                },
                () = patience => self.end_waiting(clock.now()),
            }
        }
    }

    /// Handles the news of one node.
    fn hear(&mut self, cleanup: &Arc<Cleanup>, node: usize, news: News) {
        match news {
            News::AskAgain(Some(name)) | News::Granted { name, .. } => {
                self.hear_call(cleanup, node, name);
            }
            News::Lost {
                name, claim, loss, ..
            } => {
                let left = cleanup.claims.change(&claim, |held| {
                    let fence = held.fence?;
                    Some((fence, held.lost_at(node), Arc::clone(&held.claim)))
                });
                if let Some(Some((fence, left, lost))) = left
                    && left < cleanup.nodes.majority
                {
                    // A minority may still have it, with any number.
                    cleanup.undo_later(lost);
                    self.ready.push_back(News::Lost {
                        name: name.clone(),
                        claim,
                        fence,
                        loss,
                    });
                }
                self.hear_call(cleanup, node, name);
            }
            News::AskAgain(None) | News::SessionLost(_) => {
                self.ready.push_back(News::AskAgain(None))
            }
            News::Wanted { name, claim, .. } => {
                let wanted = |held: &mut Held| held.wanted().then_some(held.fence);
                if let Some(Some(Some(fence))) = cleanup.claims.change(&claim, wanted) {
                    self.ready.push_back(News::Wanted { name, claim, fence });
                }
            }
        }
    }

    /// Handles a node's call to the waiters of a name: waits briefly for a majority of such calls.
    fn hear_call(&mut self, cleanup: &Arc<Cleanup>, node: usize, name: Name) {
        for held in cleanup.claims.on(&name) {
            if held.fence.is_some() && !held.is_at(node) {
                // The node has handed the name over after a majority had granted it.
                cleanup.repair_later(node, &held.claim.id);
            }
        }
        let until = cleanup.nodes.clock.now() + PATIENCE;
        let (nodes, _) = self.calls.entry(name.clone()).or_insert((0, until));
        *nodes |= 1 << node;
        if nodes.count_ones() as usize >= cleanup.nodes.majority {
            self.calls.remove(&name);
            self.ready.push_back(News::AskAgain(Some(name)));
        }
    }

    fn end_waiting(&mut self, now: Tick) {
        let over = |(_, until): &(u64, Tick)| *until <= now;
        for (name, _) in self.calls.iter().filter(|(_, call)| over(call)) {
            self.ready.push_back(News::AskAgain(Some(name.clone())));
        }
        self.calls.retain(|_, call| !over(call));
    }
}

/// How long one node's call waits for those of the others: they follow from the same release.
const PATIENCE: Duration = Duration::from_millis(3);

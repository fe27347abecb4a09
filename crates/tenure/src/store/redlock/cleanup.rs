//! Work at single nodes: withdrawing claims, late replies, nodes that lack a lease.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::driver::{Answer, Claim, News, Wait};
use crate::error::Result;
use crate::name::{ClaimId, Fence};
use crate::store::redlock::claims::{Claims, Held, Undone};
use crate::store::redlock::fault::indeterminate;
use crate::store::redlock::node::Node;
use crate::store::redlock::nodes::{Answers, Nodes, Round, succeeded};
use crate::store::redlock::tally::{Tally, may_have_changed};
use crate::store::vote::{Number, Vote};

/// A channel for news: from a node, or from the client itself.
pub(crate) type Tell = mpsc::UnboundedSender<(Option<usize>, News)>;

/// The claims of this client, and the background requests about them.
#[derive(Debug)]
pub(crate) struct Cleanup {
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) claims: Claims,
    pub(crate) tell: Tell,
}

impl Cleanup {
    /// Withdraws a claim at a majority of the nodes; the others continue in the background.
    pub(crate) async fn withdraw(self: &Arc<Self>, claim: &Claim) -> Result<()> {
        let claim = Arc::new(claim.clone());
        self.end(&claim);
        let majority = self.nodes.majority;
        let enough = |answers: &Answers<()>| succeeded(answers) >= majority;
        let round = self.ask_to_withdraw(&claim, enough).await;
        let is_done = enough(&round.answers);
        let failure = (!is_done).then(|| self.nodes.failure(&round.answers));
        self.settle(round, &claim, undone);
        failure.map_or(Ok(()), |text| Err(indeterminate(text)))
    }

    /// Withdraws a claim at all nodes, even those that may not know it; waits for some nodes.
    pub(crate) async fn undo(self: &Arc<Self>, claim: &Arc<Claim>, wait_for: &[usize]) {
        self.end(claim);
        self.withdraw_everywhere(claim, wait_for).await;
    }

    /// Does the same in the background.
    pub(crate) fn undo_later(self: &Arc<Self>, claim: Arc<Claim>) {
        self.end(&claim);
        let cleanup = Arc::clone(self);
        let undo = async move { cleanup.withdraw_everywhere(&claim, &[]).await };
        self.nodes.background.spawn(undo);
    }

    /// Withdraws a claim everywhere to yield to others; returns how often it has.
    pub(crate) async fn give_way(self: &Arc<Self>, claim: &Arc<Claim>, wait_for: &[usize]) -> u32 {
        let until = self.nodes.clock.now() + claim.ttl;
        let times = self.claims.give_way(&claim.id, until);
        self.withdraw_everywhere(claim, wait_for).await;
        times
    }

    /// Records that a claim is over.
    pub(crate) fn end(&self, claim: &Claim) {
        let until = self.nodes.clock.now() + claim.ttl;
        self.claims.leave(&claim.id, until);
    }

    async fn withdraw_everywhere(self: &Arc<Self>, claim: &Arc<Claim>, wait_for: &[usize]) {
        let are_there =
            |answers: &Answers<()>| wait_for.iter().all(|node| answers[*node].is_some());
        let round = self.ask_to_withdraw(claim, are_there).await;
        self.settle(round, claim, undone);
    }

    async fn ask_to_withdraw(
        &self,
        claim: &Arc<Claim>,
        enough: impl Fn(&Answers<()>) -> bool,
    ) -> Round<()> {
        let withdraw = |index, node: Arc<dyn Node>| {
            self.claims.sent(&claim.id, index);
            let claim = Arc::clone(claim);
            async move { node.withdraw(&claim).await }
        };
        self.nodes.ask(withdraw, enough).await
    }

    /// Handles the replies to a withdrawal or a release, and continues where something of the claim may
    /// be left.
    ///
    /// If the claim itself is still in flight, its late reply is handled.
    pub(crate) fn settle<T: Send + 'static>(
        self: &Arc<Self>,
        round: Round<T>,
        claim: &Arc<Claim>,
        undone: fn(&Result<T>) -> Undone,
    ) {
        let (cleanup, claim) = (Arc::clone(self), Arc::clone(claim));
        let settle = move |node, answer: &Result<T>| {
            if cleanup.claims.settled(&claim.id, node, undone(answer)) {
                let (cleanup, claim) = (Arc::clone(&cleanup), Arc::clone(&claim));
                let background = cleanup.nodes.background.clone();
                background.spawn(async move { cleanup.clean_up(node, &claim).await });
            }
        };
        for (node, answer) in round.answers.iter().enumerate() {
            if let Some(answer) = answer {
                settle(node, answer);
            }
        }
        round.finish(move |node, answer| {
            settle(node, &answer);
            std::future::ready(())
        });
    }

    /// Withdraws a claim at one node.
    ///
    /// If that fails, a background task retries until the lease would have expired.
    async fn clean_up(self: &Arc<Self>, node: usize, claim: &Arc<Claim>) {
        if self.is_taken_back(node, claim).await {
            return;
        }
        let (cleanup, claim) = (Arc::clone(self), Arc::clone(claim));
        tokio::spawn(async move {
            let clock = &cleanup.nodes.clock;
            let give_up = clock.now() + claim.ttl;
            let mut pause = SHORTEST_PAUSE;
            while clock.now() < give_up {
                clock.sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
                if cleanup.is_taken_back(node, &claim).await {
                    return;
                }
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        });
    }

    /// Tries to withdraw a claim at one node; returns whether nothing is left to do.
    async fn is_taken_back(&self, node: usize, claim: &Claim) -> bool {
        let until = self.nodes.clock.now() + claim.ttl;
        // A claim that was requested again must not be undone.
        if !self.claims.is_over(&claim.id, node, until) {
            return true;
        }
        self.withdraw_at(node, claim).await.is_ok_and(|left| !left)
    }

    /// Withdraws a claim at one node; returns whether the node may still have something of it.
    pub(crate) async fn withdraw_at(&self, node: usize, claim: &Claim) -> Result<bool> {
        self.claims.sent(&claim.id, node);
        let withdrawn = self.nodes.all[node].withdraw(claim).await;
        let is_left = self.claims.settled(&claim.id, node, undone(&withdrawn));
        withdrawn.map(|()| is_left)
    }

    /// Records what a vote left at the nodes, and handles the replies that arrive later.
    pub(crate) fn watch_late_votes(
        self: &Arc<Self>,
        round: Round<Vote>,
        claim: &Arc<Claim>,
        tally: &Tally,
    ) {
        self.claims
            .change(&claim.id, |held| held.touch(tally.touched));
        let (cleanup, claim) = (Arc::clone(self), Arc::clone(claim));
        round.finish(move |node, answer| {
            let (cleanup, claim) = (Arc::clone(&cleanup), Arc::clone(&claim));
            async move { cleanup.hear_late_vote(node, &claim, answer).await }
        });
    }

    async fn hear_late_vote(self: &Arc<Self>, node: usize, claim: &Arc<Claim>, vote: Result<Vote>) {
        if !may_have_changed(&vote) {
            return;
        }
        let granted = vote.as_ref().ok().and_then(granted_fence);
        let fence = self.claims.change(&claim.id, |held| {
            held.touch(1 << node);
            if granted.is_some() {
                held.granted_at(node);
            }
            held.fence
        });
        match (fence, granted) {
            (None, _) => self.undo_late_vote(node, claim, &vote).await,
            (Some(Some(fence)), Some(number)) if number < fence => {
                self.repair(node, &claim.id).await;
            }
            (Some(None), Some(_)) => {
                // This may complete a majority. A closed channel means that the client is being dropped.
                let again = News::AskAgain(Some(claim.name.clone()));
                let _ = self.tell.send((None, again));
            }
            (Some(_), _) => {}
        }
    }

    /// Withdraws what a node turned out to have of a claim that is over.
    async fn undo_late_vote(
        self: &Arc<Self>,
        node: usize,
        claim: &Arc<Claim>,
        vote: &Result<Vote>,
    ) {
        // A withdrawal in flight was sent after the claim, and is executed after it, unless the claim was
        // delayed.
        let overtaken = vote.as_ref().map_or(true, |vote| vote.delayed);
        if !self.claims.is_seen_to(&claim.id, node, overtaken) {
            self.clean_up(node, claim).await;
        }
    }

    /// Restores a lease with its fence at a node that lacks it or has it with a smaller number; returns
    /// whether the node has it now.
    ///
    /// This is done only while the lease is safely ours.
    pub(crate) async fn repair(self: &Arc<Self>, node: usize, id: &ClaimId) -> bool {
        let Some((held, fence)) = self.safely_held(id) else {
            return false;
        };
        let claim = not_waiting(&held.claim);
        let number = Number::Exactly(fence);
        let vote = self.nodes.all[node].vote(&claim, number).await;
        // Checked again: the reply may be too late, or the lease may have been released.
        let Some((_, fence)) = self.safely_held(id) else {
            self.undo_late_vote(node, &claim, &vote).await;
            return false;
        };
        let is_there = vote.ok().as_ref().and_then(granted_fence) == Some(fence);
        if is_there {
            self.claims.change(id, |held| held.granted_at(node));
        }
        is_there
    }

    pub(crate) fn repair_later(self: &Arc<Self>, node: usize, id: &ClaimId) {
        let (cleanup, id) = (Arc::clone(self), id.clone());
        self.nodes
            .background
            .spawn(async move { cleanup.repair(node, &id).await });
    }

    /// Returns a claim whose grant is safely ours, and its fence.
    pub(crate) fn safely_held(&self, id: &ClaimId) -> Option<(Held, Fence)> {
        let held = self.claims.find(id)?;
        let fence = held.fence.filter(|_| self.nodes.clock.now() < held.until)?;
        Some((held, fence))
    }
}

/// Returns the same claim for a holder, which does not wait.
pub(crate) fn not_waiting(claim: &Claim) -> Arc<Claim> {
    Arc::new(Claim {
        wait: Wait::No,
        ..claim.clone()
    })
}

/// Returns the fence of a node's grant.
fn granted_fence(vote: &Vote) -> Option<Fence> {
    match vote.answer {
        Answer::Granted(grant) => Some(grant.fence),
        Answer::Busy | Answer::Queued { .. } => None,
    }
}

/// Interprets the reply to a withdrawal.
fn undone(withdrawn: &Result<()>) -> Undone {
    match withdrawn {
        Ok(()) => Undone::Gone,
        Err(_) => Undone::Unknown,
    }
}

const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

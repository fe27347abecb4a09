//! What comes after a vote was decided: late answers, and nodes to bring into line.

use std::sync::Arc;

use crate::driver::{Answer, Claim, News};
use crate::error::Result;
use crate::name::{ClaimId, Fence};
use crate::store::redlock::claims::Held;
use crate::store::redlock::group::{Group, not_waiting};
use crate::store::redlock::round::Round;
use crate::store::redlock::tally::{Tally, touches};
use crate::store::vote::{Number, Vote};

impl Group {
    /// Takes in the answers of a vote that was decided: what they left behind at the nodes, and those
    /// that come later.
    pub(crate) fn follow(self: &Arc<Self>, round: Round<Vote>, claim: &Arc<Claim>, tally: &Tally) {
        self.claims
            .change(&claim.id, |held| held.touch(tally.touched));
        let (group, claim) = (Arc::clone(self), Arc::clone(claim));
        round.finish(&self.background, move |node, answer| {
            let (group, claim) = (Arc::clone(&group), Arc::clone(&claim));
            async move { group.hear_late(node, &claim, answer).await }
        });
    }

    async fn hear_late(self: &Arc<Self>, node: usize, claim: &Arc<Claim>, answer: Result<Vote>) {
        if !touches(&answer) {
            return;
        }
        let granted = match &answer {
            Ok(vote) => granted(vote),
            Err(_) => None,
        };
        let fence = self.claims.change(&claim.id, |held| {
            held.touch(1 << node);
            if granted.is_some() {
                held.granted_at(node);
            }
            held.fence
        });
        match (fence, granted) {
            (None, _) => self.clean_up_late(node, claim, &answer).await,
            (Some(Some(fence)), Some(number)) if number < fence => {
                self.bring_into_line(node, &claim.id).await;
            }
            (Some(None), Some(_)) => {
                // It may have made a majority.
                let again = News::AskAgain(Some(claim.name.clone()));
                let _ = self.tell.send((None, again));
            }
            (Some(_), _) => {}
        }
    }

    /// Takes back what a node has turned out to have of a claim that is over.
    async fn clean_up_late(
        self: &Arc<Self>,
        node: usize,
        claim: &Arc<Claim>,
        answer: &Result<Vote>,
    ) {
        // What is on its way to the node was sent after the claim, and is carried out after it; but
        // a claim that had to wait may have been overtaken.
        let overtaken = answer.as_ref().map_or(true, |vote| vote.delayed);
        if !self.claims.is_seen_to(&claim.id, node, overtaken) {
            self.clean_up(node, claim).await;
        }
    }

    /// Gives a node the lease under its fence, while that is safely ours.
    ///
    /// Returns whether the node has it now.
    pub(crate) async fn bring_into_line(self: &Arc<Self>, node: usize, id: &ClaimId) -> bool {
        let Some((held, fence)) = self.safely_held(id) else {
            return false;
        };
        let claim = not_waiting(&held.claim);
        let vote = self.nodes[node].vote(&claim, Number::Exactly(fence)).await;
        // Looked at again: the answer may have come too late, or the lease may be released.
        match self.safely_held(id) {
            Some((_, now)) => {
                let is_there = vote.as_ref().is_ok_and(|vote| granted(vote) == Some(now));
                if is_there {
                    self.claims.change(id, |held| held.granted_at(node));
                }
                is_there
            }
            None => {
                self.clean_up_late(node, &claim, &vote).await;
                false
            }
        }
    }

    pub(crate) fn bring_into_line_later(self: &Arc<Self>, node: usize, id: &ClaimId) {
        let (group, id) = (Arc::clone(self), id.clone());
        self.background
            .spawn(async move { group.bring_into_line(node, &id).await });
    }

    pub(crate) fn safely_held(&self, id: &ClaimId) -> Option<(Held, Fence)> {
        let held = self.claims.find(id)?;
        let fence = held.fence.filter(|_| self.clock.now() < held.until)?;
        Some((held, fence))
    }
}

/// The number under which a node has granted a claim.
fn granted(vote: &Vote) -> Option<Fence> {
    match vote.answer {
        Answer::Granted(grant) => Some(grant.fence),
        Answer::Busy | Answer::Queued { .. } => None,
    }
}

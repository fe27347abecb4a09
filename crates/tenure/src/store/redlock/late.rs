//! What comes after a vote was decided: late answers, and nodes to bring into line.

use std::sync::Arc;

use crate::driver::{Answer, Claim, News};
use crate::error::Result;
use crate::name::Fence;
use crate::store::redis::hash::{Number, Vote};
use crate::store::redlock::claims::{Held, Key};
use crate::store::redlock::group::{Group, not_waiting};
use crate::store::redlock::round::Round;
use crate::store::redlock::tally::touches;
use crate::store::redlock::undo::whole;

impl Group {
    /// Takes in the answers of a vote that was decided: what they left behind at the nodes, and those
    /// that come later.
    pub(crate) fn follow(
        self: &Arc<Self>,
        round: Round<Vote>,
        claim: &Arc<Claim>,
        number: u64,
        touched: u64,
    ) {
        let touch = |held: &mut Held| held.touched |= touched;
        self.claims.change(&Key::of(claim), touch);
        let (group, claim) = (Arc::clone(self), Arc::clone(claim));
        round.finish(&self.background, move |node, answer| {
            let (group, claim) = (Arc::clone(&group), Arc::clone(&claim));
            async move { group.hear_late(node, &claim, number, answer).await }
        });
    }

    async fn hear_late(
        self: &Arc<Self>,
        node: usize,
        claim: &Arc<Claim>,
        number: u64,
        answer: Result<Vote>,
    ) {
        if !touches(&answer) {
            return;
        }
        let key = Key::of(claim);
        // What is on its way to the node was sent after the claim, and is carried out after it; but
        // a claim that had to wait may have been overtaken.
        let overtaken = answer.as_ref().map_or(true, |vote| vote.delayed);
        let granted = match answer.map(|vote| vote.answer) {
            Ok(Answer::Granted(fence)) => Some(fence),
            _ => None,
        };
        self.claims.change(&key, |held| held.touch(node));
        let same = self.claims.same(&key, number);
        if let (Some(_), Some(number)) = (&same, granted) {
            // Even before it has won: what it wins with may be a smaller number than this node has.
            self.claims
                .change(&key, |held| held.set_number(node, number));
        }
        match (same, granted) {
            (None, _) if self.claims.is_seen_to(&key, node) && !overtaken => {}
            (None, _) => self.clean_up(node, &whole(claim)).await,
            (Some(held), Some(number)) if held.fence.is_some() => {
                if held.fence > Some(number) {
                    self.bring_into_line(node, &key).await;
                }
            }
            (Some(_), Some(_)) => {
                // It may have made a majority.
                let again = News::AskAgain(Some(key.name.clone()));
                let _ = self.tell.send((None, again));
            }
            (Some(_), None) => {}
        }
    }

    /// Gives a node the lease under its fence, while that is safely ours.
    ///
    /// Returns whether the node has it now.
    pub(crate) async fn bring_into_line(self: &Arc<Self>, node: usize, key: &Key) -> bool {
        let Some((held, fence)) = self.safely_held(key) else {
            return false;
        };
        let claim = not_waiting(&held.claim);
        let vote = self.nodes[node].vote(&claim, Number::Exactly(fence)).await;
        let granted = vote.is_ok_and(|vote| vote.answer == Answer::Granted(fence));
        // Looked at again: the answer may have come too late, or the lease may be released.
        match self
            .safely_held(key)
            .filter(|(now, _)| now.number == held.number)
        {
            Some(_) if granted => {
                self.claims.change(key, |held| held.set_number(node, fence));
                true
            }
            Some(_) => false,
            None => {
                self.clean_up(node, &whole(&claim)).await;
                false
            }
        }
    }

    pub(crate) fn bring_into_line_later(self: &Arc<Self>, node: usize, key: &Key) {
        let (group, key) = (Arc::clone(self), key.clone());
        self.background
            .spawn(async move { group.bring_into_line(node, &key).await });
    }

    fn safely_held(&self, key: &Key) -> Option<(Held, Fence)> {
        let held = self.claims.find(key)?;
        let fence = held.fence.filter(|_| self.clock.now() < held.until)?;
        Some((held, fence))
    }
}

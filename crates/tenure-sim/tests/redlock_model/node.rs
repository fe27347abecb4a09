//! How a node handles a message.

use crate::state::{Attempt, Fence, Lease, Node, Tick, Vote};
use crate::variant::{Expiry, Mistake, Redlock, Repeats};

/// `Ask` or `Seal` when it reaches a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    /// The position of the attempt.
    pub(crate) number: usize,
    pub(crate) attempt: &'a Attempt,
    pub(crate) now: Tick,
}

impl Redlock {
    /// Handles `Ask`; returns the vote if there is one that counts.
    pub(crate) fn ask(
        &self,
        node: &mut Node,
        message: &Message<'_>,
        repeats: Repeats,
    ) -> Option<Vote> {
        let now = message.now;
        let anew = node.is_held_by(message.number) && repeats == Repeats::Numbered;
        if node.lease.is_none() || anew {
            let fence = self.next_fence(node, message.attempt.proposal, now);
            if fence > self.highest_fence(now) {
                return None;
            }
            self.grant(node, message.number, fence, now);
        }
        let lease = node.lease.filter(|lease| lease.attempt == message.number)?;
        let counts = self.counts(node, &lease, now);
        counts.then_some(Vote::Granted(lease.fence))
    }

    /// Handles `Seal`; returns the vote if there is one that counts.
    ///
    /// A lease with a larger fence is refused: it is not the one that was reported to the client,
    /// and in between another attempt may have been granted this very fence here.
    pub(crate) fn seal(&self, node: &mut Node, message: &Message<'_>) -> Option<Vote> {
        let (fence, now) = (message.attempt.seal, message.now);
        if node.lease.is_none() {
            self.give_back(node, message);
        }
        let mut lease = node.lease.filter(|lease| lease.attempt == message.number)?;
        if lease.fence > fence && !self.has(Mistake::SealLowers) {
            return None;
        }
        lease.fence = fence;
        node.lease = Some(lease);
        node.last = node.last.max(fence);
        self.counts(node, &lease, now).then_some(Vote::Sealed)
    }

    /// Handles `Withdraw`.
    pub(crate) fn withdrawn(node: &mut Node, number: usize) {
        if node.is_held_by(number) {
            node.lease = None;
        }
    }

    /// Restarts after a crash without its memory.
    pub(crate) fn forget(&self, node: &mut Node, now: Tick) {
        node.lease = None;
        node.last = 0;
        node.forgot = self.records();
        if self.clock.restart_delay > 0 {
            node.young_until = now + self.clock.restart_delay;
        }
    }

    /// Handles the new time `now`.
    pub(crate) fn look_at_the_clock(&self, node: &mut Node, now: Tick) {
        let on_time = matches!(self.expiry, Expiry::OnTime { .. });
        if on_time && node.lease.is_some_and(|lease| lease.until <= now) {
            node.lease = None;
        }
    }

    /// Grants the lease that `Seal` does not find, unless the node has already granted its fence or
    /// a larger one.
    ///
    /// A node that was young after the attempt started may have granted the fence and forgotten it.
    /// The lease is useful to its holder, but is not a vote.
    fn give_back(&self, node: &mut Node, message: &Message<'_>) {
        let fence = message.attempt.seal;
        let is_last = node.last == fence;
        let is_wrong = is_last && self.has(Mistake::GivesBackAnyTime);
        if node.last >= fence && !is_wrong {
            return;
        }
        self.grant(node, message.number, fence, message.now);
        let grew_up_before = node.young_until <= message.attempt.began;
        if let Some(lease) = &mut node.lease {
            lease.counts &= grew_up_before || self.has(Mistake::CountsGivenBack);
        }
    }

    /// Grants a lease, or the same one again.
    fn grant(&self, node: &mut Node, attempt: usize, fence: Fence, now: Tick) {
        node.last = fence;
        node.lease = Some(Lease {
            attempt,
            fence,
            counts: !node.is_young(now),
            until: match self.expiry {
                Expiry::OnTime { ttl } => now + ttl,
                Expiry::Never | Expiry::AnyTime => 0,
            },
        });
    }

    fn next_fence(&self, node: &Node, proposal: Fence, now: Tick) -> Fence {
        if self.has(Mistake::IgnoresLast) {
            return proposal.max(1);
        }
        let least = self.clock.fence_at(now + node.ahead);
        let takes = self.has(Mistake::TrustsProposals) || self.clock.allows(proposal, least);
        let proposal = if takes { proposal } else { 0 };
        (node.last + 1).max(least).max(proposal)
    }

    fn counts(&self, node: &Node, lease: &Lease, now: Tick) -> bool {
        match self.mistake {
            Some(Mistake::CountsYoung) => true,
            Some(Mistake::CountsGrantsOfYouth) => !node.is_young(now),
            _ => lease.counts,
        }
    }
}

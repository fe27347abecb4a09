//! What a node does with a message.

use crate::state::{Attempt, Fence, Lease, Node, Tick, Vote};
use crate::variant::{Expiry, Mistake, Redlock};

impl Redlock {
    /// Takes `Ask` in; returns the vote if there is one that counts.
    pub(crate) fn ask(
        &self,
        node: &mut Node,
        number: usize,
        attempt: &Attempt,
        now: Tick,
    ) -> Option<Vote> {
        if node.lease.is_none() {
            self.grant(node, number, attempt.proposal, now);
        }
        let lease = node.lease.filter(|lease| lease.attempt == number)?;
        let counts = self.counts(node, &lease);
        counts.then_some(Vote::Granted(lease.fence))
    }

    /// Takes `Seal` in; returns the vote if there is one that counts.
    ///
    /// A lease with a larger fence is refused: it is not the one that the client was told of, and
    /// in between another attempt may have been granted this very fence here.
    pub(crate) fn seal(&self, node: &mut Node, number: usize, fence: Fence) -> Option<Vote> {
        let mut lease = node.lease.filter(|lease| lease.attempt == number)?;
        if lease.fence > fence && !self.has(Mistake::SealLowers) {
            return None;
        }
        lease.fence = fence;
        node.lease = Some(lease);
        node.last = node.last.max(fence);
        self.counts(node, &lease).then_some(Vote::Sealed)
    }

    /// Takes `Withdraw` in.
    pub(crate) fn withdrawn(node: &mut Node, number: usize) {
        if node.is_held_by(number) {
            node.lease = None;
        }
    }

    /// Comes back after a crash without its memory.
    pub(crate) fn forget(&self, node: &mut Node, now: Tick) {
        node.lease = None;
        node.last = 0;
        node.forgot = self.records();
        if self.clock.restart_delay > 0 {
            node.young_until = now + self.clock.restart_delay;
        }
    }

    /// Looks at the time, which has moved on to `now`.
    pub(crate) fn look_at_the_clock(&self, node: &mut Node, now: Tick) {
        if node.young_until <= now {
            node.young_until = 0;
        }
        let on_time = matches!(self.expiry, Expiry::OnTime { .. });
        if on_time && node.lease.is_some_and(|lease| lease.until <= now) {
            node.lease = None;
        }
    }

    /// Gives a lease, unless its fence would be beyond the bounds of the variant.
    fn grant(&self, node: &mut Node, attempt: usize, proposal: Fence, now: Tick) {
        let fence = self.next_fence(node, proposal, now);
        if fence > self.highest_fence(now) {
            return;
        }
        node.last = fence;
        node.lease = Some(Lease {
            attempt,
            fence,
            young: node.young_until > 0,
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

    fn counts(&self, node: &Node, lease: &Lease) -> bool {
        match self.mistake {
            Some(Mistake::CountsYoung) => true,
            Some(Mistake::CountsGrantsOfYouth) => node.young_until == 0,
            _ => !lease.young,
        }
    }
}

//! Renewal and release of what a majority granted.

use std::sync::Arc;

use crate::clock::Tick;
use crate::driver::{Entry, Holder, Life, Loss, Release, Released, Renewal, Renewed};
use crate::error::Result;
use crate::name::{ClaimId, Fence, Name};
use crate::store::redlock::claims::{Held, Undone};
use crate::store::redlock::fault::{indeterminate, unavailable};
use crate::store::redlock::node::Node;
use crate::store::redlock::nodes::{Answers, succeeded};
use crate::store::redlock::vote::Group;

impl Group {
    /// Frees a lease by majority; a minority that has not confirmed continues in the background.
    pub(crate) async fn release(&self, release: &Release) -> Result<Released> {
        let mut release = release.clone();
        let held = self.own_grant(&release.claim, release.fence);
        // Others may release a lease by hand at the same time, and each may free some of the nodes.
        let majority_has = release.life == Life::Ttl
            && self
                .majority_has(&release.name, &release.claim, release.fence)
                .await;
        if let Some(held) = &held {
            self.cleanup.end(&held.claim);
        }
        if held.is_some() || majority_has {
            // A node may have it with another number.
            release.fence = None;
        }
        let let_go = |index, node: Arc<dyn Node>| {
            self.cleanup.claims.sent(&release.claim, index);
            let release = release.clone();
            async move { node.release(&release).await }
        };
        let is_decided = |answers: &[_]| Freed::count(answers).is_decided(self.nodes.majority);
        let round = self.nodes.ask(let_go, is_decided).await;
        let freed = Freed::count(&round.answers);
        let has_freed = freed.done.len() >= self.nodes.majority
            || (majority_has && !freed.done.is_empty() && freed.failed < self.nodes.majority);
        let outcome = if has_freed {
            let left = freed.left(self.nodes.majority, self.nodes.all.len());
            Ok(Released::Freed { left })
        } else if freed.done.len() + freed.failed >= self.nodes.majority {
            // Even if no node was reached now, an earlier request may have taken effect.
            Err(indeterminate(self.nodes.failure(&round.answers)))
        } else {
            Ok(Released::NotHeld(freed.loss))
        };
        if let Some(held) = held {
            self.cleanup.settle(round, &held.claim, undone);
        }
        outcome
    }

    /// Renews leases by majority.
    ///
    /// A lease is restored at a node that has lost it, but only while it is safely ours by the nodes that
    /// granted it: a lost lease is never revived.
    pub(crate) async fn renew(&self, renewals: &[Renewal]) -> Result<Vec<Renewed>> {
        let sent = self.nodes.clock.now();
        let own = |renewal: &Renewal| self.own_grant(&renewal.claim, renewal.fence)?.fence;
        let fences: Vec<Option<Fence>> = renewals.iter().map(own).collect();
        let mut asked = renewals.to_vec();
        for (renewal, own) in asked.iter_mut().zip(&fences) {
            let is_known = own.is_some()
                || (renewal.fence.is_some()
                    && renewal.life == Life::Ttl
                    && self
                        .majority_has(&renewal.name, &renewal.claim, renewal.fence)
                        .await);
            if is_known {
                // A node may have it with another number.
                renewal.fence = None;
            }
        }
        let asked: Arc<[_]> = asked.into();
        let renew = |_, node: Arc<dyn Node>| {
            let asked = Arc::clone(&asked);
            async move { node.renew(&asked).await }
        };
        let kept = |answers: &[_], lease: usize| Kept::count(answers, lease, fences[lease]);
        let are_kept = |answers: &[_]| {
            (0..fences.len()).all(|lease| kept(answers, lease).nodes.len() >= self.nodes.majority)
        };
        let round = self.nodes.ask(renew, are_kept).await;
        if succeeded(&round.answers) == 0 {
            return Err(unavailable(self.nodes.failure(&round.answers)));
        }
        let mut renewed = Vec::with_capacity(fences.len());
        for (lease, renewal) in renewals.iter().enumerate() {
            let kept = kept(&round.answers, lease);
            renewed.push(match fences[lease] {
                Some(fence) => self.renewed(renewal, fence, kept, sent).await,
                // This client cannot restore a lease that it does not know.
                None => self.verdict(renewal, renewal.fence, &kept),
            });
        }
        Ok(renewed)
    }

    /// Checks whether a majority has a claim, and may have granted it with the given number, if any.
    async fn majority_has(&self, name: &Name, claim: &ClaimId, fence: Option<Fence>) -> bool {
        let has = |answers: &Answers<Vec<Entry>>, fence: Option<Fence>| {
            let is_it = |holder: &Holder| {
                let is_fence = fence.is_none_or(|fence| fence == holder.fence);
                holder.claim == *claim && holder.depth > 0 && is_fence
            };
            let listed = answers.iter().flatten().flatten();
            let holders = listed.map(|entries| entries.iter().flat_map(|entry| &entry.holders));
            holders
                .filter_map(|mut all| all.find(|holder| is_it(holder)))
                .count()
        };
        let majority = self.nodes.majority;
        let enough = |answers: &Answers<Vec<Entry>>| {
            let silent = answers.len() - succeeded(answers);
            has(answers, None) >= majority && has(answers, fence) + silent >= majority
        };
        let round = self.nodes.list(name, enough).await;
        enough(&round.answers)
    }

    /// Returns the grant of this client that a request is about.
    fn own_grant(&self, claim: &ClaimId, fence: Option<Fence>) -> Option<Held> {
        let held = self.cleanup.claims.find(claim)?;
        (held.fence.is_some() && (fence.is_none() || fence == held.fence)).then_some(held)
    }

    /// Determines the result for a lease of this client.
    async fn renewed(
        &self,
        renewal: &Renewal,
        fence: Fence,
        mut kept: Kept,
        sent: Tick,
    ) -> Renewed {
        let id = &renewal.claim;
        let is_safe = kept.nodes.len() >= self.nodes.majority;
        let held = self.cleanup.claims.change(id, |held| {
            if held.claim.ttl != renewal.ttl {
                // Restored leases get the same ttl.
                Arc::make_mut(&mut held.claim).ttl = renewal.ttl;
            }
            for node in &kept.nodes {
                held.granted_at(*node);
            }
            for node in &kept.forgotten {
                held.lost_at(*node);
            }
            Arc::clone(&held.claim)
        });
        for node in std::mem::take(&mut kept.forgotten) {
            if is_safe {
                self.cleanup.repair_later(node, id);
            } else if self.cleanup.repair(node, id).await {
                kept.nodes.push(node);
            }
        }
        let verdict = self.verdict(renewal, Some(fence), &kept);
        match (verdict, held) {
            (Renewed::Extended { .. }, _) => {
                let until = self.safe_until(sent, renewal.ttl);
                self.cleanup
                    .claims
                    .change(id, |held| held.until = held.until.max(until));
            }
            (Renewed::Lost(_), Some(claim)) => self.cleanup.undo(&claim, &[]).await,
            (Renewed::Lost(_) | Renewed::Unknown, _) => {}
        }
        verdict
    }

    /// Determines the result for a lease; `fence` is the one that its holder knows, if given.
    fn verdict(&self, renewal: &Renewal, fence: Option<Fence>, kept: &Kept) -> Renewed {
        let valid = self.settings.valid(renewal.ttl);
        match fence.or(kept.fence) {
            Some(fence) if kept.nodes.len() >= self.nodes.majority => {
                Renewed::Extended { fence, valid }
            }
            _ if kept.nodes.len() + kept.unknown >= self.nodes.majority => Renewed::Unknown,
            _ => Renewed::Lost(kept.loss),
        }
    }
}

/// Interprets the reply to a release.
fn undone(released: &Result<Released>) -> Undone {
    match released {
        Ok(Released::Freed { .. }) => Undone::Gone,
        Ok(Released::NotHeld(_)) => Undone::NotHeld,
        Err(_) => Undone::Unknown,
    }
}

/// The replies of the nodes to a release.
#[derive(Debug)]
struct Freed {
    /// For each node that freed it, how many claims of the same owner are left.
    done: Vec<u32>,
    failed: usize,
    open: usize,
    loss: Loss,
}

impl Freed {
    fn count(answers: &[Option<Result<Released>>]) -> Self {
        let mut freed = Self {
            done: Vec::new(),
            failed: 0,
            open: 0,
            loss: Loss::Gone,
        };
        for answer in answers {
            match answer {
                None => freed.open += 1,
                Some(Err(_)) => freed.failed += 1,
                Some(Ok(Released::NotHeld(Loss::TakenOver))) => freed.loss = Loss::TakenOver,
                Some(Ok(Released::NotHeld(_))) => {}
                Some(Ok(Released::Freed { left })) => freed.done.push(*left),
            }
        }
        freed
    }

    fn is_decided(&self, majority: usize) -> bool {
        let done = self.done.len();
        done >= majority || done + self.failed + self.open < majority
    }

    /// Returns how many claims of the same owner a majority may still have.
    ///
    /// If a majority has a claim, at least `common` of the nodes that freed this one have it too.
    fn left(&self, majority: usize, nodes: usize) -> u32 {
        let mut left = self.done.clone();
        left.sort_unstable();
        let common = (majority + left.len()).saturating_sub(nodes).max(1);
        left.iter().rev().nth(common - 1).copied().unwrap_or(0)
    }
}

/// The replies of the nodes to the renewal of one lease.
#[derive(Debug)]
struct Kept {
    nodes: Vec<usize>,
    fence: Option<Fence>,
    /// Nodes that have lost it without having another lease instead, or have it with too small a number.
    forgotten: Vec<usize>,
    unknown: usize,
    loss: Loss,
}

impl Kept {
    /// Counts the replies so far; `least` is the number that a majority has stored, if known.
    fn count(answers: &[Option<Result<Vec<Renewed>>>], lease: usize, least: Option<Fence>) -> Self {
        let mut kept = Self {
            nodes: Vec::new(),
            fence: None,
            forgotten: Vec::new(),
            unknown: 0,
            loss: Loss::Gone,
        };
        for (node, answer) in answers.iter().enumerate() {
            let answer = answer.as_ref().and_then(|answer| answer.as_ref().ok());
            match answer.and_then(|answers| answers.get(lease)) {
                Some(Renewed::Extended { fence, .. }) if Some(*fence) >= least => {
                    kept.nodes.push(node);
                    kept.fence = kept.fence.max(Some(*fence));
                }
                Some(Renewed::Lost(Loss::TakenOver)) => kept.loss = Loss::TakenOver,
                Some(Renewed::Extended { .. } | Renewed::Lost(_)) => kept.forgotten.push(node),
                Some(Renewed::Unknown) | None => kept.unknown += 1,
            }
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn kept(fence: u64) -> Option<Result<Vec<Renewed>>> {
        let (fence, valid) = (Fence::new(fence).unwrap(), Duration::ZERO);
        Some(Ok(vec![Renewed::Extended { fence, valid }]))
    }

    /// A majority that is renewed has to know the fence, like the majority that granted it.
    #[test]
    fn a_node_with_a_smaller_number_is_brought_into_line_first() {
        let lost = |loss| Some(Ok(vec![Renewed::Lost(loss)]));
        let answers = [
            kept(7),
            kept(6),
            kept(8),
            lost(Loss::Gone),
            lost(Loss::TakenOver),
            None,
        ];
        let known = Kept::count(&answers, 0, Fence::new(7));
        assert_eq!((known.nodes, known.forgotten), (vec![0, 2], vec![1, 3]));
        assert_eq!((known.loss, known.unknown), (Loss::TakenOver, 1));
        let unknown = Kept::count(&answers, 0, None);
        assert_eq!(
            (unknown.nodes, unknown.fence),
            (vec![0, 1, 2], Fence::new(8))
        );
    }

    #[test]
    fn as_many_claims_are_left_as_a_majority_may_have() {
        let left = |nodes: &[u32]| {
            let freed = nodes
                .iter()
                .map(|left| Some(Ok(Released::Freed { left: *left })));
            Freed::count(&freed.collect::<Vec<_>>()).left(2, 3)
        };
        assert_eq!(left(&[1, 0, 1]), 1);
        assert_eq!(left(&[1, 0, 0]), 0, "a minority has it");
        assert_eq!(left(&[2, 1, 1]), 1);
        assert_eq!(left(&[0, 2]), 2, "the third node may have them");
        assert_eq!(left(&[5]), 5, "the others may have them");
    }
}

//! Renewing and letting go what a majority granted.

use std::sync::Arc;

use crate::clock::Tick;
use crate::driver::{Claim, Driver as _, Loss, Release, Released, Renewal, Renewed};
use crate::error::Result;
use crate::name::Fence;
use crate::store::redis::hash::Hash;
use crate::store::redlock::claims::{Held, Key};
use crate::store::redlock::fault::{indeterminate, unavailable};
use crate::store::redlock::group::Group;
use crate::store::redlock::round::Round;
use crate::store::redlock::undo::whole;

impl Group {
    /// Undoes a claim everywhere; what a minority does not confirm goes on in the background.
    pub(crate) async fn withdraw(self: &Arc<Self>, claim: &Claim) -> Result<()> {
        let claim = Arc::new(claim.clone());
        let key = Key::of(&claim);
        // Of a claim that is not known here, any node may have something.
        let touched = self.claims.find(&key).map_or(u64::MAX, |held| held.touched);
        if claim.depth <= 1 {
            self.claims.forget(&key);
        } else {
            self.claims
                .change(&key, |held| lower(held, claim.depth - 1));
        }
        let done = |answers: &[Option<Result<()>>]| answers.iter().flatten().flatten().count();
        let enough = |answers: &[_]| done(answers) >= self.majority;
        let round = self.ask_to_withdraw(&claim, enough).await;
        let failure = (done(&round.answers) < self.majority).then(|| self.failure(&round));
        self.finish_withdrawing(round, &claim, touched);
        match failure {
            Some(text) => Err(indeterminate(text)),
            None => Ok(()),
        }
    }

    /// Lowers a lease or frees it, by majority.
    pub(crate) async fn release(self: &Arc<Self>, release: &Release) -> Result<Released> {
        let key = Key::new(&release.name, &release.owner, release.life);
        let held = self.claims.find(&key).filter(|held| {
            held.fence.is_some() && (release.fence.is_none() || release.fence == held.fence)
        });
        let going = (held.is_some() && release.depth == 0).then(|| self.claims.let_go(&key));
        if held.is_some() && release.depth > 0 {
            self.claims.change(&key, |held| lower(held, release.depth));
        }
        let round = self.ask_to_release(release, held.as_ref()).await;
        let freed = Freed::count(&round.answers);
        let outcome = if freed.done >= self.majority {
            Ok(freed.released)
        } else if freed.done + freed.failed >= self.majority {
            Err(self.failure(&round))
        } else {
            Ok(Released::NotHeld(freed.loss))
        };
        drop(going);
        self.finish_releasing(round, release, held);
        // Even if no node was reached now, an older request may have been.
        outcome.map_err(indeterminate)
    }

    /// Sends each node the release, with the number that it has for the grant. Where that is not
    /// known, or not there yet, the owner's is freed whatever its number.
    async fn ask_to_release(&self, release: &Release, held: Option<&Held>) -> Round<Released> {
        let let_go = |index, node: Arc<Hash>| {
            let mut release = release.clone();
            if let Some(held) = held {
                release.fence = held.number(index);
                if release.fence.is_none() {
                    let doubtful_until = self.clock.now() + held.claim.ttl;
                    self.claims
                        .doubt(&Key::of(&held.claim), index, doubtful_until);
                }
            }
            async move { node.release(&release).await }
        };
        let is_decided = |answers: &[_]| Freed::count(answers).is_decided(self.majority);
        self.ask(let_go, is_decided).await
    }

    /// Goes on with the nodes that have not answered, or not well: nothing is to be left anywhere.
    /// Where the claim itself is still on its way, its late answer is seen to.
    fn finish_releasing(
        self: &Arc<Self>,
        round: Round<Released>,
        release: &Release,
        held: Option<Held>,
    ) {
        let Some(held) = held.filter(|_| release.depth == 0) else {
            return round.finish(&self.background, |_, _| std::future::ready(()));
        };
        let (claim, touched) = (whole(&held.claim), held.touched);
        for (node, answer) in round.answers.iter().enumerate() {
            if let Some(answer) = answer {
                self.settle(node, &claim, is_done(answer), touched);
            }
        }
        let group = Arc::clone(self);
        round.finish(&self.background, move |node, answer| {
            group.settle(node, &claim, is_done(&answer), touched);
            std::future::ready(())
        });
    }

    /// Renews leases by majority.
    ///
    /// A node that has forgotten a lease gets it back, but only while it is safely ours by the
    /// nodes that granted it: a lease that is lost is never revived.
    pub(crate) async fn renew(self: &Arc<Self>, renewals: &[Renewal]) -> Result<Vec<Renewed>> {
        for renewal in renewals {
            self.check_ttl(renewal.ttl)?;
        }
        let sent = self.clock.now();
        let longer = renewals.iter().map(|renewal| Renewal {
            ttl: self.for_nodes(renewal.ttl),
            ..renewal.clone()
        });
        let renewals: Vec<Renewal> = longer.collect();
        let held: Vec<_> = renewals.iter().map(|renewal| self.own(renewal)).collect();
        let renew = |index, node: Arc<Hash>| {
            let own = renewals.iter().zip(&held).map(|(renewal, held)| Renewal {
                fence: number(held.as_ref(), index).or(renewal.fence),
                ..renewal.clone()
            });
            let renewals: Vec<_> = own.collect();
            async move { node.renew(&renewals).await }
        };
        let majority = self.majority;
        let count = renewals.len();
        let are_kept = |answers: &[_]| {
            (0..count).all(|lease| Kept::of(answers, lease).nodes.len() >= majority)
        };
        let round = self.ask(renew, are_kept).await;
        if round.answers.iter().flatten().flatten().count() == 0 {
            return Err(unavailable(self.failure(&round)));
        }
        let mut renewed = Vec::with_capacity(count);
        for (index, (renewal, held)) in renewals.iter().zip(held).enumerate() {
            let kept = Kept::of(&round.answers, index);
            renewed.push(self.renewed(renewal, held, kept, sent).await);
        }
        round.finish(&self.background, |_, _| std::future::ready(()));
        Ok(renewed)
    }

    /// The grant of this client that a renewal is about, if it is one.
    fn own(&self, renewal: &Renewal) -> Option<Held> {
        let key = Key::new(&renewal.name, &renewal.owner, renewal.life);
        let held = self.claims.find(&key).filter(|held| held.fence.is_some());
        held.filter(|held| renewal.fence.is_none() || renewal.fence == held.fence)
    }

    /// What became of one lease; another grant than this client's own cannot be given back to anybody.
    async fn renewed(
        self: &Arc<Self>,
        renewal: &Renewal,
        held: Option<Held>,
        kept: Kept,
        sent: Tick,
    ) -> Renewed {
        let Some(held) = held else {
            return kept.verdict(renewal.fence, self.majority);
        };
        let key = Key::of(&held.claim);
        let mut kept = kept;
        let is_safe = kept.nodes.len() >= self.majority;
        for node in std::mem::take(&mut kept.forgotten) {
            self.claims.change(&key, |held| held.lost_at(node));
            if is_safe {
                self.bring_into_line_later(node, &key);
            } else if self.bring_into_line(node, &key).await {
                kept.nodes.push(node);
            }
        }
        let verdict = kept.verdict(held.fence, self.majority);
        match verdict {
            Renewed::Kept(_) => {
                let until = self.safe_until(sent, renewal.ttl);
                self.claims
                    .change(&key, |held| held.until = held.until.max(until));
            }
            Renewed::Lost(_) => self.undo(&whole(&held.claim), &[]).await,
            Renewed::Unknown => {}
        }
        verdict
    }
}

/// The number that a grant has at a node.
fn number(held: Option<&Held>, node: usize) -> Option<Fence> {
    held.and_then(|held| held.number(node))
}

/// Whether a node has nothing of a lease any more; it may have it under another number.
fn is_done(answer: &Result<Released>) -> bool {
    matches!(answer, Ok(Released::Freed | Released::Lowered))
}

/// Notes the depth that a claim has now.
fn lower(held: &mut Held, depth: u32) {
    if depth < held.claim.depth {
        held.claim = Arc::new(Claim {
            depth,
            ..(*held.claim).clone()
        });
    }
}

/// What the nodes have said to a release.
#[derive(Debug)]
struct Freed {
    done: usize,
    released: Released,
    failed: usize,
    open: usize,
    loss: Loss,
}

impl Freed {
    fn count(answers: &[Option<Result<Released>>]) -> Self {
        let mut freed = Self {
            done: 0,
            released: Released::Freed,
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
                Some(Ok(released)) => {
                    freed.done += 1;
                    freed.released = *released;
                }
            }
        }
        freed
    }

    fn is_decided(&self, majority: usize) -> bool {
        self.done >= majority || self.done + self.failed + self.open < majority
    }
}

/// What the nodes have said to the renewal of one lease.
#[derive(Debug)]
struct Kept {
    nodes: Vec<usize>,
    fence: Option<Fence>,
    /// Who has it no longer, and nobody else's instead.
    forgotten: Vec<usize>,
    unknown: usize,
    loss: Loss,
}

impl Kept {
    /// What became of the lease; `fence` is what its holder knows it by, if it says so.
    fn verdict(&self, fence: Option<Fence>, majority: usize) -> Renewed {
        match fence.or(self.fence) {
            Some(fence) if self.nodes.len() >= majority => Renewed::Kept(fence),
            _ if self.nodes.len() + self.unknown >= majority => Renewed::Unknown,
            _ => Renewed::Lost(self.loss),
        }
    }

    fn of(answers: &[Option<Result<Vec<Renewed>>>], lease: usize) -> Self {
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
                Some(Renewed::Kept(fence)) => {
                    kept.nodes.push(node);
                    kept.fence = kept.fence.max(Some(*fence));
                }
                Some(Renewed::Lost(Loss::TakenOver)) => kept.loss = Loss::TakenOver,
                Some(Renewed::Lost(_)) => kept.forgotten.push(node),
                Some(Renewed::Unknown) | None => kept.unknown += 1,
            }
        }
        kept
    }
}

//! Taking claims back, at every node and until it is done.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::driver::{Claim, Driver as _};
use crate::error::Result;
use crate::store::redis::hash::Hash;
use crate::store::redlock::claims::Key;
use crate::store::redlock::group::Group;
use crate::store::redlock::round::Round;

impl Group {
    /// Takes a claim back everywhere, also where nothing is known of it; waits for some nodes.
    pub(crate) async fn undo(self: &Arc<Self>, claim: &Arc<Claim>, wait_for: &[usize]) {
        let key = Key::of(claim);
        let held = if claim.depth <= 1 {
            self.claims.forget(&key)
        } else {
            self.claims.find(&key)
        };
        let touched = held.map_or(0, |held| held.touched);
        self.withdraw_all(claim, wait_for, touched).await;
    }

    /// Takes a claim back at all nodes, and goes on with those that do not answer well.
    pub(crate) async fn withdraw_all(
        self: &Arc<Self>,
        claim: &Arc<Claim>,
        wait_for: &[usize],
        touched: u64,
    ) {
        let are_there =
            |answers: &[Option<_>]| wait_for.iter().all(|node| answers[*node].is_some());
        let round = self.ask_to_withdraw(claim, are_there).await;
        self.finish_withdrawing(round, claim, touched);
    }

    pub(crate) async fn ask_to_withdraw(
        &self,
        claim: &Arc<Claim>,
        enough: impl Fn(&[Option<Result<()>>]) -> bool,
    ) -> Round<()> {
        let (key, doubtful_until) = (Key::of(claim), self.clock.now() + claim.ttl);
        let withdraw = |index, node: Arc<Hash>| {
            self.claims.doubt(&key, index, doubtful_until);
            let claim = Arc::clone(claim);
            async move { node.withdraw(&claim).await }
        };
        self.ask(withdraw, enough).await
    }

    /// Takes in what nodes say to a withdrawal, and goes on with those that do not answer well, if
    /// they have been touched. Where the claim itself is still on its way, its late answer is seen to.
    pub(crate) fn finish_withdrawing(
        self: &Arc<Self>,
        round: Round<()>,
        claim: &Arc<Claim>,
        touched: u64,
    ) {
        for (node, answer) in round.answers.iter().enumerate() {
            if let Some(answer) = answer {
                self.settle(node, claim, answer.is_ok(), touched);
            }
        }
        let (group, claim) = (Arc::clone(self), Arc::clone(claim));
        round.finish(&self.background, move |node, answer| {
            group.settle(node, &claim, answer.is_ok(), touched);
            std::future::ready(())
        });
    }

    /// Takes in what became of a withdrawal, or of a release by owner, at one node.
    pub(crate) fn settle(
        self: &Arc<Self>,
        node: usize,
        claim: &Arc<Claim>,
        is_done: bool,
        touched: u64,
    ) {
        let key = Key::of(claim);
        if is_done {
            return self.claims.trust(&key, node);
        }
        let is_late = self.claims.landed(&key, node);
        if is_late || touched & (1 << node) != 0 {
            let (group, claim) = (Arc::clone(self), Arc::clone(claim));
            self.background
                .spawn(async move { group.clean_up(node, &claim).await });
        }
    }

    /// Takes a claim back at one node; if that fails, somebody goes on who is not waited for.
    pub(crate) async fn clean_up(self: &Arc<Self>, node: usize, claim: &Arc<Claim>) {
        while self.claims.is_going(&Key::of(claim)) {
            // Were this to come first, the release would not find what it is to free.
            sleep(SHORTEST_PAUSE).await;
        }
        if self.is_taken_back(node, claim).await {
            return;
        }
        let (group, claim) = (Arc::clone(self), Arc::clone(claim));
        tokio::spawn(async move { group.go_on_cleaning_up(node, &claim).await });
    }

    /// Tries again until the lease would be over anyway.
    async fn go_on_cleaning_up(&self, node: usize, claim: &Claim) {
        let give_up = self.clock.now() + claim.ttl;
        let mut pause = SHORTEST_PAUSE;
        while self.clock.now() < give_up {
            sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
            if self.is_taken_back(node, claim).await {
                return;
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Tries to take a claim back at one node; returns whether there is nothing left to do.
    async fn is_taken_back(&self, node: usize, claim: &Claim) -> bool {
        let key = Key::of(claim);
        // Who asks again, or anew as the same owner, is not to be undone.
        if self.claims.find(&key).is_some() {
            return true;
        }
        self.claims.doubt(&key, node, self.clock.now() + claim.ttl);
        let is_done = self.nodes[node].withdraw(claim).await.is_ok();
        if is_done {
            self.claims.trust(&key, node);
        }
        is_done
    }
}

/// The same claim with all that it may have entered again.
pub(crate) fn whole(claim: &Claim) -> Arc<Claim> {
    Arc::new(Claim {
        depth: 1,
        ..claim.clone()
    })
}

const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

//! Taking claims back, at every node and until it is done.

use std::sync::Arc;
use std::time::Duration;

use crate::driver::Claim;
use crate::error::Result;
use crate::random::fraction;
use crate::store::redlock::claims::Said;
use crate::store::redlock::fault::indeterminate;
use crate::store::redlock::group::Group;
use crate::store::redlock::node::Node;
use crate::store::redlock::round::Round;

impl Group {
    /// Undoes a claim everywhere; what a minority does not confirm goes on in the background.
    pub(crate) async fn withdraw(self: &Arc<Self>, claim: &Claim) -> Result<()> {
        let claim = Arc::new(claim.clone());
        self.claims.leave(&claim.id, self.clock.now() + claim.ttl);
        let done = |answers: &[Option<Result<()>>]| answers.iter().flatten().flatten().count();
        let enough = |answers: &[_]| done(answers) >= self.majority;
        let round = self.ask_to_withdraw(&claim, enough).await;
        let failure = (done(&round.answers) < self.majority).then(|| self.failure(&round));
        self.finish_withdrawing(round, &claim);
        match failure {
            Some(text) => Err(indeterminate(text)),
            None => Ok(()),
        }
    }

    /// Takes a claim back everywhere, also where nothing is known of it; waits for some nodes.
    pub(crate) async fn undo(self: &Arc<Self>, claim: &Arc<Claim>, wait_for: &[usize]) {
        self.claims.leave(&claim.id, self.clock.now() + claim.ttl);
        self.withdraw_all(claim, wait_for).await;
    }

    /// Takes a claim back at all nodes, and goes on with those that do not answer well.
    pub(crate) async fn withdraw_all(self: &Arc<Self>, claim: &Arc<Claim>, wait_for: &[usize]) {
        let are_there =
            |answers: &[Option<_>]| wait_for.iter().all(|node| answers[*node].is_some());
        let round = self.ask_to_withdraw(claim, are_there).await;
        self.finish_withdrawing(round, claim);
    }

    async fn ask_to_withdraw(
        self: &Arc<Self>,
        claim: &Arc<Claim>,
        enough: impl Fn(&[Option<Result<()>>]) -> bool,
    ) -> Round<()> {
        let withdraw = |index, node: Arc<dyn Node>| {
            self.claims.sent(&claim.id, index);
            let claim = Arc::clone(claim);
            async move { node.withdraw(&claim).await }
        };
        self.ask(withdraw, enough).await
    }

    fn finish_withdrawing(self: &Arc<Self>, round: Round<()>, claim: &Arc<Claim>) {
        self.see_to(round, claim, said);
    }

    /// Takes in what nodes say to what takes a claim back, and goes on with those that do not answer
    /// well, if they may have something of it: nothing is to be left anywhere. Where the claim
    /// itself is still on its way, its late answer is seen to.
    pub(crate) fn see_to<T: Send + 'static>(
        self: &Arc<Self>,
        round: Round<T>,
        claim: &Arc<Claim>,
        said: fn(&Result<T>) -> Said,
    ) {
        for (node, answer) in round.answers.iter().enumerate() {
            if let Some(answer) = answer {
                self.settle(node, claim, said(answer));
            }
        }
        let (group, claim) = (Arc::clone(self), Arc::clone(claim));
        round.finish(&self.background, move |node, answer| {
            group.settle(node, &claim, said(&answer));
            std::future::ready(())
        });
    }

    fn settle(self: &Arc<Self>, node: usize, claim: &Arc<Claim>, said: Said) {
        if self.claims.settled(&claim.id, node, said) {
            let (group, claim) = (Arc::clone(self), Arc::clone(claim));
            self.background
                .spawn(async move { group.clean_up(node, &claim).await });
        }
    }

    /// Takes a claim back at one node; if that fails, somebody goes on who is not waited for.
    pub(crate) async fn clean_up(self: &Arc<Self>, node: usize, claim: &Arc<Claim>) {
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
            self.clock.sleep(pause.mul_f64(0.5 + fraction())).await;
            if self.is_taken_back(node, claim).await {
                return;
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Tries to take a claim back at one node; returns whether there is nothing left to do.
    async fn is_taken_back(&self, node: usize, claim: &Claim) -> bool {
        let until = self.clock.now() + claim.ttl;
        // Who asks again is not to be undone.
        if !self.claims.is_over(&claim.id, node, until) {
            return true;
        }
        self.withdraw_at(node, claim).await.is_ok_and(|left| !left)
    }

    /// Withdraws a claim at one node; returns whether the node may still have something of it.
    pub(crate) async fn withdraw_at(&self, node: usize, claim: &Claim) -> Result<bool> {
        self.claims.sent(&claim.id, node);
        let withdrawn = self.nodes[node].withdraw(claim).await;
        let is_left = self.claims.settled(&claim.id, node, said(&withdrawn));
        withdrawn.map(|()| is_left)
    }
}

/// What the answer to a withdrawal says.
fn said(withdrawn: &Result<()>) -> Said {
    match withdrawn {
        Ok(()) => Said::Gone,
        Err(_) => Said::Nothing,
    }
}

const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

//! The order of waiters: first come, first served, while no vote is split.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tenure::conformance::Fixture;
use tenure::driver::{
    Answer, Capabilities, Claim, Clock, Driver, Entry, Fairness, Holder, News, Release, Released,
    Renewal, Renewed,
};
use tenure::{Name, Result};

use crate::nodes::Shared;

/// The store promises no order, but claims that come one after the other are served in their order.
#[derive(Debug)]
struct InOrder(Arc<dyn Driver>);

#[async_trait]
impl Driver for InOrder {
    fn kind(&self) -> &'static str {
        self.0.kind()
    }

    fn clock(&self) -> Clock {
        self.0.clock()
    }

    fn capabilities(&self) -> Capabilities {
        let mut can = self.0.capabilities();
        can.fairness = Fairness::FirstCome;
        can
    }

    async fn acquire(&self, claim: &Claim) -> Result<Answer> {
        self.0.acquire(claim).await
    }

    async fn withdraw(&self, claim: &Claim) -> Result<()> {
        self.0.withdraw(claim).await
    }

    async fn renew(&self, renewals: &[Renewal]) -> Result<Vec<Renewed>> {
        self.0.renew(renewals).await
    }

    async fn release(&self, release: &Release) -> Result<Released> {
        self.0.release(release).await
    }

    async fn news(&self) -> News {
        self.0.news().await
    }

    async fn list(&self, only: Option<&Name>) -> Result<Vec<Entry>> {
        self.0.list(only).await
    }

    async fn evict(&self, name: &Name) -> Result<Vec<Holder>> {
        self.0.evict(name).await
    }

    async fn settled(&self) {
        self.0.settled().await;
    }
}

#[derive(Debug)]
struct InTurn(Shared);

#[async_trait]
impl Fixture for InTurn {
    async fn client(&self) -> Arc<dyn Driver> {
        Arc::new(InOrder(self.0.client().await))
    }

    fn short(&self) -> Duration {
        self.0.short()
    }
}

macro_rules! rules_of_order {
    ($count:expr) => {
        tenure::conformance! {
            std::future::ready(super::InTurn(super::Shared::nodes($count)));
            a_place_in_line_ends_with_its_client,
            a_release_by_fence_hands_over_to_the_next,
            a_try_does_not_jump_the_line,
            a_waiting_writer_is_not_passed_by_later_readers,
            a_withdrawn_claim_leaves_the_line,
            asking_again_keeps_the_place,
            leaving_the_line_lets_those_behind_in,
            readers_that_stand_together_go_in_together,
            the_line_is_first_come_first_served,
            two_clients_of_one_owner_go_in_together,
            two_places_of_one_owner_are_two_claims,
        }
    };
}

mod three {
    rules_of_order!(3);
}

mod five {
    rules_of_order!(5);
}

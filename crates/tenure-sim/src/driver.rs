//! The driver of a simulated client, or of a node of its redlock: each request goes over the
//! simulated network.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tenure::driver::{
    Answer, Capabilities, Claim, Clock, Driver, Entry, Holder, News, Release, Released, Renewal,
    Renewed,
};
use tenure::store::redlock::simulation::{Node, Number, Vote};
use tenure::{Error, Name, Result};

use crate::contract::{Reply, Request};
use crate::network::Link;

/// A driver whose store is at the other end of a [`Link`].
#[derive(Debug)]
pub(crate) struct SimDriver(pub(crate) Arc<Link>);

#[async_trait]
impl Driver for SimDriver {
    fn kind(&self) -> &'static str {
        "simulated"
    }

    fn clock(&self) -> Clock {
        self.0.source()
    }

    fn capabilities(&self) -> Capabilities {
        let mut all = Capabilities::all();
        let plan = &self.0.world.plan;
        if plan.is_redlock() {
            all.timeout = Some(Duration::from_millis(plan.setting.timeout_ms));
        }
        all
    }

    async fn acquire(&self, claim: &Claim) -> Result<Answer> {
        match self.0.call(Request::Acquire(claim.clone())).await? {
            Reply::Acquired(answer) => answer,
            other => mixed_up(&other),
        }
    }

    async fn withdraw(&self, claim: &Claim) -> Result<()> {
        match self.0.call(Request::Withdraw(claim.clone())).await? {
            Reply::Withdrawn(answer) => answer,
            other => mixed_up(&other),
        }
    }

    async fn renew(&self, renewals: &[Renewal]) -> Result<Vec<Renewed>> {
        match self.0.call(Request::Renew(renewals.to_vec())).await? {
            Reply::Renewed(answer) => answer,
            other => mixed_up(&other),
        }
    }

    async fn release(&self, release: &Release) -> Result<Released> {
        match self.0.call(Request::Release(release.clone())).await? {
            Reply::Released(answer) => answer,
            other => mixed_up(&other),
        }
    }

    async fn news(&self) -> News {
        self.0.news().await
    }

    async fn list(&self, only: Option<&Name>) -> Result<Vec<Entry>> {
        match self.0.call(Request::List(only.cloned())).await? {
            Reply::Listed(answer) => answer,
            other => mixed_up(&other),
        }
    }

    async fn evict(&self, name: &Name) -> Result<Vec<Holder>> {
        match self.0.call(Request::Evict(name.clone())).await? {
            Reply::Evicted(answer) => answer,
            other => mixed_up(&other),
        }
    }

    /// Returns at once, because the caller of every request waits for it.
    async fn settled(&self) {}
}

#[async_trait]
impl Node for SimDriver {
    async fn vote(&self, claim: &Claim, number: Number) -> Result<Vote> {
        let request = Request::Vote {
            claim: claim.clone(),
            number,
            delayed: false,
        };
        let started = self.0.greeting().map(|greeting| greeting.started);
        let planted = &self.0.world.planted;
        let reply = self.0.call(request).await;
        match reply.map_err(|error| planted.failed_vote(error))? {
            Reply::Voted(vote) => vote.map(|vote| Vote { started, ..vote }),
            other => mixed_up(&other),
        }
    }

    fn is_connected(&self) -> bool {
        self.0.greeting().is_some()
    }

    async fn connected(&self) -> Result<()> {
        self.0.connected().await
    }

    fn no_connection(&self) -> Error {
        self.0.unavailable()
    }

    fn clock_us(&self) -> Option<u64> {
        self.0.greeting().map(|greeting| greeting.clock_us())
    }

    fn place(&self) -> String {
        self.0.world.called(self.0.store)
    }

    fn again(&self) -> Arc<dyn Node> {
        Arc::new(Self(Arc::clone(&self.0)))
    }
}

fn mixed_up<T>(reply: &Reply) -> Result<T> {
    Err(Error::Damaged {
        driver: "simulated",
        source: format!("an answer to another question: {reply:?}").into(),
    })
}

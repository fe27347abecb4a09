//! The driver of a simulated client: each request goes over the simulated network.

use std::sync::Arc;

use async_trait::async_trait;
use tenure::driver::{
    Answer, Capabilities, Claim, Clock, Driver, Entry, Holder, News, Release, Released, Renewal,
    Renewed,
};
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
        Capabilities::all()
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

    /// Every request is waited for by whoever made it.
    async fn settled(&self) {}
}

fn mixed_up<T>(reply: &Reply) -> Result<T> {
    Err(Error::Damaged {
        driver: "simulated",
        source: format!("an answer to another question: {reply:?}").into(),
    })
}

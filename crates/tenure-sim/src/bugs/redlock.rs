//! The planted bugs of redlock: at a node, or around the client.

use std::sync::Arc;

use async_trait::async_trait;
use tenure::driver::{
    Answer, Capabilities, Claim, Clock, Driver, Entry, Grant, Holder, News, Release, Released,
    Renewal, Renewed, TimeSource,
};
use tenure::store::redlock::simulation::{Number, TieRule, Vote};
use tenure::{Error, Name, Result};

use super::{Bug, Planted};
use crate::clock::SimClock;
use crate::contract::{Reply, Request};
use crate::store::Store;

impl Planted {
    /// Returns the rule by which clients decide who is first after a split vote.
    pub(crate) fn tie_rule(&self) -> TieRule {
        if self.is(Bug::RedlockTieByNodeOrder) {
            TieRule::NodeOrder
        } else {
            TieRule::ClaimRank
        }
    }

    /// Returns what a client makes of a failed vote.
    pub(crate) fn failed_vote(&self, error: Error) -> Error {
        match error {
            Error::Indeterminate { driver, source } if self.is(Bug::RedlockLostAnswerMeansNo) => {
                Error::Unavailable { driver, source }
            }
            other => other,
        }
    }

    /// Wraps a client so that it counts its leases wrongly, if that is the mistake.
    pub(crate) fn around(&self, client: Arc<dyn Driver>, clock: &Arc<SimClock>) -> Arc<dyn Driver> {
        if self.is(Bug::RedlockValidityFromAnswers) {
            let clock = Arc::clone(clock);
            Arc::new(CountsFromAnswers { client, clock })
        } else {
            client
        }
    }

    /// Has a node decide, or decides wrongly.
    pub(super) fn decide_vote(
        &self,
        store: &Store,
        link: usize,
        request: &Request,
    ) -> Option<Reply> {
        match request {
            Request::Withdraw(_) if self.is(Bug::RedlockMinorityKept) => {
                return Some(Reply::Withdrawn(Ok(())));
            }
            Request::Vote {
                claim,
                number: Number::Exactly(fence),
                delayed,
            } if self.is(Bug::RedlockFenceNotWritten) => {
                let entries = store.look(Some(&claim.name));
                let mut holders = entries.iter().flat_map(|entry| &entry.holders);
                if holders.any(|holder| holder.claim == claim.id) {
                    return Some(Reply::Voted(Ok(Vote {
                        answer: Answer::Granted(Grant::new(*fence, claim.ttl)),
                        joins: false,
                        clock_us: Some(fence.get()),
                        started: None,
                        delayed: *delayed,
                    })));
                }
            }
            _ => {}
        }
        let reply = store.decide(link, request)?;
        Some(match (request, reply) {
            (Request::Hello, Reply::Hello { clock_us, .. })
                if self.is(Bug::RedlockYoungNodeCounts) =>
            {
                let started = store.first_started();
                Reply::Hello { started, clock_us }
            }
            (Request::Renew(renewals), Reply::Renewed(Ok(renewed)))
                if self.is(Bug::RedlockRenewalByMinority) =>
            {
                let all = renewals.iter().zip(renewed);
                let all = all.map(|(asked, renewed)| match (renewed, asked.fence) {
                    (Renewed::Lost(_), _) => Renewed::Extended {
                        fence: crate::store::fence(u64::MAX >> 1),
                        valid: asked.ttl,
                    },
                    _ => renewed,
                });
                Reply::Renewed(Ok(all.collect()))
            }
            (_, reply) => reply,
        })
    }
}

/// Counts the remaining time of a lease from the arrival of the replies.
#[derive(Debug)]
struct CountsFromAnswers {
    client: Arc<dyn Driver>,
    clock: Arc<SimClock>,
}

#[async_trait]
impl Driver for CountsFromAnswers {
    fn kind(&self) -> &'static str {
        self.client.kind()
    }

    fn clock(&self) -> Clock {
        self.client.clock()
    }

    fn capabilities(&self) -> Capabilities {
        self.client.capabilities()
    }

    async fn acquire(&self, claim: &Claim) -> Result<Answer> {
        let asked = self.clock.now();
        let answer = self.client.acquire(claim).await?;
        Ok(match answer {
            Answer::Granted(grant) => {
                let took = self.clock.now().saturating_sub(asked);
                let longer = Grant::new(grant.fence, claim.ttl + took);
                Answer::Granted(longer.with_fences(grant.fences))
            }
            other => other,
        })
    }

    async fn withdraw(&self, claim: &Claim) -> Result<()> {
        self.client.withdraw(claim).await
    }

    async fn renew(&self, renewals: &[Renewal]) -> Result<Vec<Renewed>> {
        self.client.renew(renewals).await
    }

    async fn release(&self, release: &Release) -> Result<Released> {
        self.client.release(release).await
    }

    async fn news(&self) -> News {
        self.client.news().await
    }

    async fn list(&self, only: Option<&Name>) -> Result<Vec<Entry>> {
        self.client.list(only).await
    }

    async fn evict(&self, name: &Name) -> Result<Vec<Holder>> {
        self.client.evict(name).await
    }

    async fn settled(&self) {
        self.client.settled().await;
    }
}

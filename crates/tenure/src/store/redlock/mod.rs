//! Locks by a majority of independent Redis servers: Redlock, with a fence that grows.
//!
//! | file | content |
//! |---|---|
//! | `url` | what a URL specifies: nodes and times |
//! | `node`, `nodes` | one voting server; one request to all of them |
//! | `vote` | the vote on a claim, from the first request to the answer |
//! | `tally`, `tie` | counting votes; who goes first when they are split |
//! | `clocks` | the number that the next grant may have |
//! | `claims` | what this client has requested, and which nodes have it |
//! | `cleanup` | work at single nodes: withdrawing claims, late replies |
//! | `lease`, `list` | renewal and release; who holds and who waits |
//! | `news` | combines the news of the nodes |
//! | `fault` | the errors of too few nodes |
//! | `doctor` | what endangers locks: in each node, and between them |
//! | `simulation` | nodes and clients of simulations |
//!
//! Each node is a Redis server with the keys and scripts of the `redis` store. `docs/stores/redlock.md`
//! states what is promised, and what breaks it.

#![cfg_attr(
    not(feature = "simulation"),
    expect(
        unreachable_pub,
        reason = "only simulations name nodes and their rules"
    )
)]

mod claims;
mod cleanup;
mod clocks;
#[cfg(feature = "doctor")]
mod doctor;
mod fault;
mod lease;
mod list;
mod news;
mod node;
mod nodes;
#[cfg(feature = "simulation")]
pub mod simulation;
mod tally;
mod tie;
mod url;
mod vote;

use std::sync::Arc;

use async_trait::async_trait;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;

use crate::background::Background;
use crate::driver::{
    Answer, Capabilities, Claim, Clock, Driver, Entry, Fairness, Holder, News, Release, Released,
    Renewal, Renewed, Reopening,
};
use crate::error::Result;
use crate::name::Name;
use crate::store::redis::hash::Hash;
use crate::store::redis::script::Scripts;
use crate::store::redis::use_a_crypto_provider;
use claims::Claims;
use cleanup::Cleanup;
use clocks::Clocks;
use fault::DRIVER;
use news::Inbox;
use node::Node;
use nodes::{Nodes, clock_of};
use tie::TieRule;
use url::Settings;
use vote::Group;

#[cfg(feature = "doctor")]
pub use doctor::doctor;

/// Opens a client of locks that several Redis servers vote on.
///
/// # Errors
///
/// [`InvalidUrl`](crate::Error::InvalidUrl) for an invalid URL;
/// [`Unavailable`](crate::Error::Unavailable) if a majority of the nodes cannot be reached.
///
/// # Panics
///
/// Outside a Tokio runtime with I/O and time enabled.
///
/// # Cancel safety
///
/// Cancel safe: opening changes nothing in the servers.
pub async fn open(url: &str) -> Result<Arc<dyn Driver>> {
    let settings = Settings::parse(url)?;
    settings.nodes.iter().for_each(use_a_crypto_provider);
    let nodes = settings.nodes.iter().cloned();
    let nodes = nodes
        .map(|node| Arc::new(Hash::start_voter(node, Scripts::new())) as Arc<dyn Node>)
        .collect();
    connect(nodes, settings).await
}

async fn connect(nodes: Vec<Arc<dyn Node>>, settings: Settings) -> Result<Arc<dyn Driver>> {
    let client = join(nodes, settings, TieRule::ClaimRank);
    client.group.nodes.connect().await?;
    Ok(Arc::new(client))
}

/// Makes a client of nodes that are still connecting.
fn join(nodes: Vec<Arc<dyn Node>>, settings: Settings, ties: TieRule) -> Redlock {
    let (tell, told) = mpsc::unbounded_channel();
    let mut listeners = JoinSet::new();
    for (index, node) in nodes.iter().enumerate() {
        listeners.spawn(news::listen(index, Arc::clone(node), tell.clone()));
    }
    let count = nodes.len();
    let nodes = Arc::new(Nodes::new(nodes, Background::on(Handle::current())));
    let cleanup = Arc::new(Cleanup {
        nodes: Arc::clone(&nodes),
        claims: Claims::new(count),
        tell,
    });
    let group = Group {
        nodes,
        cleanup,
        settings,
        ties,
        clocks: Clocks::new(count),
    };
    Redlock {
        inbox: Mutex::new(Inbox::new(told)),
        group,
        _listeners: listeners,
    }
}

/// One client of locks by majority.
#[derive(Debug)]
struct Redlock {
    group: Group,
    inbox: Mutex<Inbox>,
    /// Forward the news of the nodes until this client ends.
    _listeners: JoinSet<()>,
}

#[async_trait]
impl Driver for Redlock {
    fn kind(&self) -> &'static str {
        DRIVER
    }

    fn clock(&self) -> Clock {
        clock_of(&self.group.nodes.all)
    }

    fn capabilities(&self) -> Capabilities {
        let nodes = self.group.nodes.all.iter();
        let timeouts = nodes.filter_map(|node| node.capabilities().timeout);
        Capabilities {
            // If each node counted permits, majorities would admit too many holders.
            permits: false,
            // A claim that loses a split vote leaves the line for a while.
            fairness: Fairness::Any,
            sees_clients_end: false,
            longest_ttl: self.group.settings.longest_ttl(),
            timeout: timeouts.max(),
            ..Capabilities::all()
        }
    }

    async fn acquire(&self, claim: &Claim) -> Result<Answer> {
        self.group.acquire(claim).await
    }

    async fn withdraw(&self, claim: &Claim) -> Result<()> {
        self.group.cleanup.withdraw(claim).await
    }

    async fn renew(&self, renewals: &[Renewal]) -> Result<Vec<Renewed>> {
        self.group.renew(renewals).await
    }

    async fn release(&self, release: &Release) -> Result<Released> {
        self.group.release(release).await
    }

    async fn news(&self) -> News {
        self.inbox.lock().await.next(&self.group.cleanup).await
    }

    async fn list(&self, only: Option<&Name>) -> Result<Vec<Entry>> {
        list::list(&self.group.nodes, only).await
    }

    async fn evict(&self, name: &Name) -> Result<Vec<Holder>> {
        list::evict(&self.group.nodes, name).await
    }

    /// Waits for late replies, and for the cleanup that follows from them.
    async fn settled(&self) {
        self.group.nodes.background.over().await;
    }

    fn reopen(self: Arc<Self>) -> Option<Reopening> {
        Some(Box::pin(async move {
            let nodes = self.group.nodes.all.iter();
            let again = nodes.map(|node| node.again()).collect();
            connect(again, self.group.settings.clone()).await
        }))
    }
}

//! Locks by a majority of independent Redis servers: Redlock, with a fence that grows.
//!
//! | file | content |
//! |---|---|
//! | `url` | what a URL says: nodes and times |
//! | `group` | putting a claim to the vote, and its number |
//! | `lost` | a vote that was not won: refused, in line, split, or too few nodes |
//! | `late`, `undo` | answers that come later; taking claims back |
//! | `clocks` | where the next fence may begin |
//! | `lease` | renewing and letting go what a majority granted |
//! | `reach` | which nodes can be asked |
//! | `round`, `tally` | one request to all nodes; counting what they say |
//! | `claims` | what this client has asked for, and which nodes have it |
//! | `inbox` | news of the nodes, as news of the group |
//! | `lists` | who holds and who waits, by the nodes together |
//! | `fault` | what is said when too few nodes can vote |
//! | `doctor` | what endangers locks: in each node, and among them |
//!
//! Each node is a Redis server as the `redis` store knows it, with the same keys and scripts. What
//! is promised, and what breaks it, stands in `docs/stores/redlock.md`.

mod claims;
mod clocks;
mod doctor;
mod fault;
mod group;
mod inbox;
mod late;
mod lease;
mod lists;
mod lost;
#[cfg_attr(
    not(feature = "simulation"),
    expect(unreachable_pub, reason = "only simulations name it")
)]
mod node;
mod reach;
mod round;
#[cfg(feature = "simulation")]
pub mod simulation;
mod tally;
#[cfg_attr(
    not(feature = "simulation"),
    expect(unreachable_pub, reason = "only simulations name it")
)]
mod tie;
mod undo;
mod url;

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;

use crate::driver::{
    Answer, Capabilities, Claim, Clock, Driver, Entry, Fairness, Holder, News, Release, Released,
    Renewal, Renewed, Reopening,
};
use crate::error::Result;
use crate::name::Name;
use crate::store::redis::hash::Hash;
use crate::store::redis::script::Scripts;
use crate::store::redis::use_a_crypto_provider;
use fault::DRIVER;
use group::{Group, clock_of};
use inbox::Inbox;
use node::Node;
use tie::TieRule;
use url::Settings;

pub use doctor::doctor;

/// Opens a client of the locks that several Redis servers vote on.
///
/// # Errors
///
/// [`InvalidUrl`](crate::Error::InvalidUrl) for a URL that makes no sense;
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
    client.group.connect().await?;
    Ok(Arc::new(client))
}

/// Makes one client of nodes that are being connected to.
fn join(nodes: Vec<Arc<dyn Node>>, settings: Settings, ties: TieRule) -> Redlock {
    let (tell, told) = mpsc::unbounded_channel();
    let group = Arc::new(Group::new(nodes, settings, ties, tell));
    let mut listeners = JoinSet::new();
    for (index, node) in group.nodes.iter().enumerate() {
        listeners.spawn(inbox::listen(index, Arc::clone(node), group.tell.clone()));
    }
    Redlock {
        inbox: Mutex::new(Inbox::new(told)),
        group,
        _listeners: listeners,
    }
}

/// One client of locks by majority.
#[derive(Debug)]
struct Redlock {
    group: Arc<Group>,
    inbox: Mutex<Inbox>,
    /// Pass on what nodes tell, until this client ends.
    _listeners: JoinSet<()>,
}

#[async_trait]
impl Driver for Redlock {
    fn kind(&self) -> &'static str {
        DRIVER
    }

    fn clock(&self) -> Clock {
        clock_of(&self.group.nodes)
    }

    fn capabilities(&self) -> Capabilities {
        let nodes = self.group.nodes.iter();
        let timeouts = nodes.filter_map(|node| node.capabilities().timeout);
        Capabilities {
            // Majorities of nodes that each count permits would let too many in.
            permits: false,
            // Who loses a split vote leaves the line for a while.
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
        self.group.withdraw(claim).await
    }

    async fn renew(&self, renewals: &[Renewal]) -> Result<Vec<Renewed>> {
        self.group.renew(renewals).await
    }

    async fn release(&self, release: &Release) -> Result<Released> {
        self.group.release(release).await
    }

    async fn news(&self) -> News {
        self.inbox.lock().await.next(&self.group).await
    }

    async fn list(&self, only: Option<&Name>) -> Result<Vec<Entry>> {
        self.group.list(only).await
    }

    async fn evict(&self, name: &Name) -> Result<Vec<Holder>> {
        self.group.evict(name).await
    }

    /// Waits for answers that came too late to matter, and for what they make necessary.
    async fn settled(&self) {
        self.group.background.over().await;
    }

    fn reopen(self: Arc<Self>) -> Option<Reopening> {
        Some(Box::pin(async move {
            let nodes = self.group.nodes.iter();
            let again = nodes.map(|node| node.again()).collect();
            connect(again, self.group.settings.clone()).await
        }))
    }
}

//! Locks in ZooKeeper: a node per claim, in the order of their numbers.
//!
//! | file | content |
//! |---|---|
//! | `wire/` | a small client: session, connection, requests |
//! | `settings` | what a URL says: servers, session, layout |
//! | `node` | the names and data of nodes |
//! | `claims` | the claims of this client |
//! | `core` | what all parts share |
//! | `place` | how a claim gets its place in the line, and finds it again |
//! | `acquire` | how a claim finds out whether it holds the name |
//! | `join` | claims of one owner that hold together |
//! | `by_hand` | leases that end by the leader's clock |
//! | `give_back` | renewal, release, withdrawal |
//! | `guarded` | writes that are accepted only while a lock is held |
//! | `keeper` | tasks: the pulse of the session, timers of leases, what the wire tells |
//! | `listing` | lists and evictions |
//! | `doctor` | settings of the servers that endanger locks |
//! | `fault` | what errors mean |
//!
//! The rules, and everything else that such stores have in common, stand in `store/session`. What is promised, and what
//! the nodes hold, stands in `docs/stores/zookeeper.md`.

mod acquire;
mod by_hand;
mod claims;
mod core;
#[cfg(feature = "doctor")]
mod doctor;
mod fault;
mod give_back;
mod guarded;
mod join;
mod keeper;
mod listing;
mod node;
mod place;
mod settings;
mod wire;

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::{Mutex, mpsc};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::clock;
use crate::driver::{
    Answer, Capabilities, Claim, Clock, Driver, Entry, Holder, News, NodeProof, Proof, Release,
    Released, Renewal, Renewed, Reopening,
};
use crate::error::Result;
use crate::name::{Fence, Name};
use crate::store::session::fence::FENCES;
use crate::store::zookeeper::core::Core;
use crate::store::zookeeper::settings::Settings;
use crate::store::zookeeper::wire::Event;

#[cfg(feature = "doctor")]
pub use doctor::doctor;

/// Opens a client of the locks in a ZooKeeper ensemble.
///
/// # Errors
///
/// [`InvalidUrl`](crate::Error::InvalidUrl) for an invalid URL;
/// [`Unavailable`](crate::Error::Unavailable) if no server takes the session, the servers do not allow a session as long as the
/// URL asks for, or the node for the locks cannot be made.
///
/// # Panics
///
/// Outside a Tokio runtime with I/O and time enabled.
///
/// # Cancel safety
///
/// Cancel safe: a dropped call leaves nothing behind but the node for the locks, and a session that expires.
pub async fn open(url: &str) -> Result<Arc<dyn Driver>> {
    Ok(Arc::new(ZooKeeper::open(url).await?))
}

/// One client of the locks in ZooKeeper.
#[derive(Debug)]
struct ZooKeeper {
    core: Arc<Core>,
    news: Mutex<mpsc::UnboundedReceiver<News>>,
    /// They end with the client, and with the last of them the session.
    tasks: Vec<AbortHandle>,
}

impl ZooKeeper {
    async fn open(url: &str) -> Result<Self> {
        let settings = Arc::new(Settings::parse(url)?);
        let clock = Arc::new(clock::Clock::start(Clock::Boot));
        let opened = Core::open(settings, clock, Arc::default(), None).await?;
        opened.0.check_session()?;
        opened.0.make_root().await?;
        Ok(Self::start(opened))
    }

    fn start(
        (core, events, news): (
            Arc<Core>,
            mpsc::UnboundedReceiver<Event>,
            mpsc::UnboundedReceiver<News>,
        ),
    ) -> Self {
        let tasks = vec![
            tokio::spawn(keeper::keep_alive(Arc::clone(&core))).abort_handle(),
            tokio::spawn(keeper::serve_timers(Arc::clone(&core))).abort_handle(),
            tokio::spawn(keeper::sweep(Arc::clone(&core))).abort_handle(),
            tokio::spawn(keeper::listen(Arc::clone(&core), events)).abort_handle(),
        ];
        Self {
            core,
            news: Mutex::new(news),
            tasks,
        }
    }
}

impl Drop for ZooKeeper {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

#[async_trait]
impl Driver for ZooKeeper {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn clock(&self) -> Clock {
        Clock::Boot
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            // A client that ends properly ends its session; one that is killed is noticed after the session's timeout.
            sees_clients_end: false,
            timeout: Some(self.core.settings.timeout),
            most_fences: FENCES,
            ..Capabilities::all()
        }
    }

    async fn acquire(&self, claim: &Claim) -> Result<Answer> {
        self.core.acquire(claim).await
    }

    async fn withdraw(&self, claim: &Claim) -> Result<()> {
        self.core.withdraw(claim).await
    }

    async fn renew(&self, renewals: &[Renewal]) -> Result<Vec<Renewed>> {
        self.core.renew(renewals).await
    }

    async fn release(&self, release: &Release) -> Result<Released> {
        self.core.release(release).await
    }

    async fn news(&self) -> News {
        match self.news.lock().await.recv().await {
            Some(news) => news,
            // The sender is the core's, which this client keeps.
            None => std::future::pending().await,
        }
    }

    async fn list(&self, only: Option<&Name>) -> Result<Vec<Entry>> {
        self.core.list(only).await
    }

    async fn evict(&self, name: &Name) -> Result<Vec<Holder>> {
        self.core.evict(name).await
    }

    async fn settled(&self) {
        // Each request ends by itself in time.
        let _ = timeout(self.core.settings.timeout, self.core.wire.settled()).await;
    }

    fn proof(&self, claim: &Claim, fence: Fence) -> Option<Proof> {
        let entry = self.core.claims.find(&claim.name, &claim.id)?;
        let held = entry.held().filter(|held| held.fence == fence);
        let child = held.and(entry.child)?;
        let path = self.core.path(&claim.name, &child);
        Some(Proof::Node(NodeProof::new(path, self.core.clone())))
    }

    fn reopen(self: Arc<Self>) -> Option<Reopening> {
        Some(Box::pin(async move {
            let core = &self.core;
            let opened = Core::open(
                Arc::clone(&core.settings),
                Arc::clone(&core.clock),
                Arc::clone(&core.claims),
                Some(core.wire.session()),
            );
            Ok(Arc::new(Self::start(opened.await?)) as Arc<dyn Driver>)
        }))
    }
}

const KIND: &str = "zookeeper";

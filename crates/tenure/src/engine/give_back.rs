//! Releases and withdrawals that are sent even if the runtime of the client ends first.
//!
//! These requests run on the client's runtime. A runtime that ends drops them unsent, for example the
//! release of a guard that is dropped at the end of `main`; others would then wait for its ttl. So
//! every such request is wrapped in [`Owed`]. If that is dropped before the store has answered, a
//! separate thread sends the request over its own connection, and the dropping thread waits for that
//! for a short time.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tokio::sync::OnceCell;

use crate::clock::Tick;
use crate::driver::{Claim, Driver, Release, Reopening};
use crate::engine::Engine;
use crate::engine::ticket::{Action, Event, Ticket};
use crate::error::Result;
use crate::fork::Origin;
use crate::name::Name;
use crate::sync::Mutex;

/// How long the end of a program waits for all its releases.
const PATIENCE: Duration = Duration::from_secs(1);

/// Sends requests to a store without the runtime of its client.
#[derive(Debug)]
pub(crate) struct Fallback {
    driver: Arc<dyn Driver>,
    /// The same store, on our own thread.
    reopened: OnceCell<Arc<dyn Driver>>,
    /// The process that the requests belong to: a forked child must not send them.
    origin: Origin,
}

/// A release or a withdrawal.
#[derive(Debug, Clone)]
pub(crate) enum GiveBack {
    Release(Release),
    Withdraw(Claim),
}

impl GiveBack {
    pub(super) fn name(&self) -> &Name {
        match self {
            Self::Release(release) => &release.name,
            Self::Withdraw(claim) => &claim.name,
        }
    }

    pub(super) async fn send(&self, driver: &dyn Driver) -> Result<()> {
        match self {
            Self::Release(release) => driver.release(release).await.map(drop),
            Self::Withdraw(claim) => driver.withdraw(claim).await,
        }
    }
}

/// Something that may have to be given back to the store.
pub(crate) trait Owing {
    fn give_back(self) -> Option<GiveBack>;
}

/// A request that is sent when it is dropped, unless it was sent before.
#[derive(Debug)]
pub(crate) struct Owed<R: Owing> {
    /// `None` once the request is done.
    request: Option<R>,
    /// `None` for stores that detect the end of a client themselves.
    fallback: Option<Arc<Fallback>>,
}

impl Engine {
    /// Wraps a request that has to be sent.
    pub(super) fn owe<R: Owing>(&self, request: R) -> Owed<R> {
        Owed {
            request: Some(request),
            fallback: self.fallback.clone(),
        }
    }
}

impl<R: Owing> Owed<R> {
    /// Marks the request as done, and returns it.
    pub(super) fn paid(mut self) -> R {
        match self.request.take() {
            Some(request) => request,
            None => unreachable!("it is taken out at the end alone"),
        }
    }
}

impl<R: Owing> Deref for Owed<R> {
    type Target = R;

    fn deref(&self) -> &R {
        match &self.request {
            Some(request) => request,
            None => unreachable!("it is taken out at the end alone"),
        }
    }
}

impl<R: Owing> Drop for Owed<R> {
    fn drop(&mut self) {
        let fallback = self.fallback.take();
        if let (Some(request), Some(fallback)) = (self.request.take(), fallback)
            && let Some(request) = request.give_back()
        {
            fallback.send_and_wait(request);
        }
    }
}

impl Fallback {
    pub(crate) fn to(driver: &Arc<dyn Driver>) -> Arc<Self> {
        Arc::new(Self {
            driver: Arc::clone(driver),
            reopened: OnceCell::new(),
            origin: Origin::here(),
        })
    }

    /// Sends a request from our own thread, and waits a limited time for its answer.
    fn send_and_wait(self: Arc<Self>, request: GiveBack) {
        if !self.origin.is_here() {
            return;
        }
        let (Some(reopening), Some(runtime)) =
            (Arc::clone(&self.driver).reopen(), crate::thread::runtime())
        else {
            return;
        };
        let (done, answered) = mpsc::sync_channel::<()>(1);
        runtime.spawn(async move {
            if let Err(error) = self.send(request, reopening).await {
                tracing::warn!(%error, "not given back before the end, the lease ends by its ttl");
            }
            drop(done);
        });
        let wait = Wait::begin();
        // Whether it was answered or the time is up, there is nothing more to do.
        let _ = answered.recv_timeout(wait.left);
        wait.end();
    }

    async fn send(&self, request: GiveBack, reopening: Reopening) -> Result<()> {
        let driver = self.reopened.get_or_try_init(|| reopening).await?;
        request.send(&**driver).await?;
        driver.settled().await;
        Ok(())
    }
}

/// A wait at the end of a program.
///
/// All waits share one limit, whatever the number of clients. A wait that starts a while after the last
/// one gets the full limit again.
struct Wait {
    begun: Instant,
    left: Duration,
}

/// The total duration of recent waits, and when the last one ended.
static WAITED: Mutex<Option<(Duration, Instant)>> = Mutex::new(None);

impl Wait {
    fn begin() -> Self {
        let begun = Instant::now();
        let waited = *WAITED.lock();
        let left = match waited {
            Some((waited, last)) if begun.duration_since(last) < PATIENCE => {
                PATIENCE.saturating_sub(waited)
            }
            _ => PATIENCE,
        };
        Self { begun, left }
    }

    fn end(self) {
        let now = Instant::now();
        let waited = PATIENCE.saturating_sub(self.left) + now.duration_since(self.begun);
        *WAITED.lock() = Some((waited, now));
    }
}

impl Owing for Release {
    fn give_back(self) -> Option<GiveBack> {
        // The claim id is enough: it is unique, and the reopened driver may number its grants differently.
        Some(GiveBack::Release(self.with_fence(None)))
    }
}

impl Owing for GiveBack {
    fn give_back(self) -> Option<Self> {
        match self {
            Self::Release(release) => release.give_back(),
            Self::Withdraw(_) => Some(self),
        }
    }
}

impl Owing for Arc<Ticket> {
    fn give_back(self) -> Option<GiveBack> {
        let ended = self.on(Event::End, Tick::default());
        // Otherwise its grant was served and belongs to its guard.
        (ended == Action::Withdraw).then(|| GiveBack::Withdraw(self.claim.clone()))
    }
}

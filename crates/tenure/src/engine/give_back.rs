//! Requests that give something back, and are sent even if the runtime of the client ends first.
//!
//! Releases and withdrawals run on the client's runtime. A runtime that ends drops them unsent,
//! which is what happens to a guard that is dropped at the end of `main`; others would then wait
//! for its ttl. So every such request travels as something [`Owed`]. If it is dropped before the
//! store has answered, a thread of our own sends it over a connection of its own, and the thread
//! that drops it waits for that, but not for long.

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

/// How long the end of a program waits for all that it has to give back.
const PATIENCE: Duration = Duration::from_secs(1);

/// Sends requests to a store without the runtime of its client.
#[derive(Debug)]
pub(crate) struct Fallback {
    driver: Arc<dyn Driver>,
    /// The same, on our own thread.
    reopened: OnceCell<Arc<dyn Driver>>,
    /// The process whose requests these are: a forked child has none to send.
    origin: Origin,
}

/// A request that gives something back.
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

/// Something that has to be given back, unless somebody else has seen to it.
pub(crate) trait Owing {
    fn give_back(self) -> Option<GiveBack>;
}

/// A request that will be sent, if not by whoever has it then when it is dropped.
#[derive(Debug)]
pub(crate) struct Owed<R: Owing> {
    /// Taken out at the end.
    request: Option<R>,
    /// `None` for stores that see the end of a client by themselves.
    fallback: Option<Arc<Fallback>>,
}

impl Engine {
    /// Notes that a request is owed to the store.
    pub(super) fn owe<R: Owing>(&self, request: R) -> Owed<R> {
        Owed {
            request: Some(request),
            fallback: self.fallback.clone(),
        }
    }
}

impl<R: Owing> Owed<R> {
    /// Notes that the request is owed no longer, and returns it.
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

    /// Sends a request from our own thread, and waits for its answer while there is time.
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
        // Whether it was answered or the time is over, there is nothing more to do.
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

/// A wait at the end of a program. All of them together are kept short, whatever the number of
/// clients; one that begins a while after the last has the whole time again.
struct Wait {
    begun: Instant,
    left: Duration,
}

/// For how long the waits of this end have lasted, and when the last was over.
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
        // The claim is enough: nobody else has it, and who asks may number its grants differently.
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
        // Else its grant was served, and is its guard's.
        (ended == Action::Withdraw).then(|| GiveBack::Withdraw(self.claim.clone()))
    }
}

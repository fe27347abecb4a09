//! What has to be given back although the runtime ends first.
//!
//! Releases and withdrawals run on the caller's runtime. A runtime that ends drops them unsent,
//! which is what happens to a guard that is dropped at the end of `main`; others would then wait
//! for its ttl. So every such request travels as something [`Owed`]. If it is dropped before the
//! store has answered, a thread of our own sends it over a connection of its own, and the thread
//! that drops it waits for that, but not for long.

use std::ops::Deref;
use std::sync::mpsc;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::OnceCell;

use crate::driver::{Claim, Driver, Release, Reopening};
use crate::engine::Engine;
use crate::engine::ticket::Ticket;
use crate::error::Result;

/// How long the end of a program waits for all that one client has to give back.
const PATIENCE: Duration = Duration::from_secs(1);

/// A way to a store that does not depend on the runtime of its client.
#[derive(Debug)]
pub(crate) struct Farewell {
    driver: Arc<dyn Driver>,
    /// The same, on our own thread.
    reopened: OnceCell<Arc<dyn Driver>>,
    /// The process whose debts these are: a forked child has none.
    pid: u32,
    /// Until when to wait; counted from the first request that was dropped.
    until: OnceLock<Instant>,
}

/// A request that gives something back.
#[derive(Debug, Clone)]
pub(crate) enum Debt {
    Release(Release),
    Withdraw(Claim),
}

/// A request that will be sent, if not by whoever has it then when it is dropped.
#[derive(Debug)]
pub(crate) struct Owed<R: Into<Debt>> {
    /// Taken out at the end.
    request: Option<R>,
    /// `None` for stores that see the end of a client by themselves.
    farewell: Option<Arc<Farewell>>,
}

impl Engine {
    /// Notes that a request is owed to the store.
    pub(super) fn owe<R: Into<Debt>>(&self, request: R) -> Owed<R> {
        Owed {
            request: Some(request),
            farewell: self.farewell.clone(),
        }
    }
}

impl<R: Into<Debt>> Owed<R> {
    /// Notes that the request is owed no longer, and returns it.
    pub(super) fn paid(mut self) -> R {
        match self.request.take() {
            Some(request) => request,
            None => unreachable!("it is taken out at the end alone"),
        }
    }
}

impl<R: Into<Debt>> Deref for Owed<R> {
    type Target = R;

    fn deref(&self) -> &R {
        match &self.request {
            Some(request) => request,
            None => unreachable!("it is taken out at the end alone"),
        }
    }
}

impl<R: Into<Debt>> Drop for Owed<R> {
    fn drop(&mut self) {
        if let (Some(request), Some(farewell)) = (self.request.take(), self.farewell.take()) {
            farewell.say(request.into());
        }
    }
}

impl Farewell {
    pub(crate) fn to(driver: &Arc<dyn Driver>) -> Arc<Self> {
        Arc::new(Self {
            driver: Arc::clone(driver),
            reopened: OnceCell::new(),
            pid: std::process::id(),
            until: OnceLock::new(),
        })
    }

    /// Sends a request from our own thread, and waits for its answer while there is time.
    fn say(self: Arc<Self>, debt: Debt) {
        if self.pid != std::process::id() {
            return;
        }
        let until = *self.until.get_or_init(|| Instant::now() + PATIENCE);
        let left = until.saturating_duration_since(Instant::now());
        let (Some(reopening), Some(runtime)) =
            (Arc::clone(&self.driver).reopen(), crate::thread::runtime())
        else {
            return;
        };
        let (done, answered) = mpsc::sync_channel::<()>(1);
        runtime.spawn(async move {
            if let Err(error) = self.send(debt, reopening).await {
                tracing::warn!(%error, "not given back before the end, the lease ends by its ttl");
            }
            drop(done);
        });
        // Whether it was answered or the time is over, there is nothing more to do.
        let _ = answered.recv_timeout(left);
    }

    async fn send(&self, debt: Debt, reopening: Reopening) -> Result<()> {
        let driver = self.reopened.get_or_try_init(|| reopening).await?;
        match debt {
            Debt::Release(release) => driver.release(&release).await.map(drop)?,
            Debt::Withdraw(claim) => driver.withdraw(&claim).await?,
        }
        driver.settled().await;
        Ok(())
    }
}

impl From<Release> for Debt {
    fn from(release: Release) -> Self {
        // The claim is enough: nobody else has it, and who asks may number its grants differently.
        let fence = None;
        Self::Release(Release { fence, ..release })
    }
}

impl From<Claim> for Debt {
    fn from(claim: Claim) -> Self {
        Self::Withdraw(claim)
    }
}

impl From<Arc<Ticket>> for Debt {
    fn from(ticket: Arc<Ticket>) -> Self {
        Self::Withdraw(ticket.claim.clone())
    }
}

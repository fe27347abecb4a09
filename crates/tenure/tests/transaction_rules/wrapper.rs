//! A driver around a driver, whose clock stands still, or whose server seems to be another.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tenure::driver::{
    Answer, Capabilities, Claim, Clock, Driver, Entry, Holder, News, Proof, Release, Released,
    Renewal, Renewed, RowKey, TimeSource,
};
use tenure::{Client, Fence, Name, Result};

use super::Database;

/// Opens a client that can be paused.
pub(crate) async fn pausable<D: Database>(database: &D) -> (Client, Arc<Pause>) {
    let mut driver = Wrapper::around(database.driver("").await);
    let pause = Arc::new(Pause {
        start: Instant::now(),
        since: OnceLock::new(),
    });
    driver.clock = Clock::Source(Arc::clone(&pause) as _);
    (Client::with_driver(Arc::new(driver)), pause)
}

#[derive(Debug)]
pub(crate) struct Wrapper {
    inner: Arc<dyn Driver>,
    clock: Clock,
    /// Whether the server seems not to understand `FOR UPDATE WAIT n`.
    pub(crate) without_wait: bool,
}

impl Wrapper {
    pub(crate) fn around(inner: Arc<dyn Driver>) -> Self {
        Self {
            clock: inner.clock(),
            inner,
            without_wait: false,
        }
    }
}

/// The clock of a client that can be paused: it then neither renews nor notices that its leases end.
#[derive(Debug)]
pub(crate) struct Pause {
    start: Instant,
    since: OnceLock<Duration>,
}

impl Pause {
    pub(crate) fn begin(&self) {
        self.since.get_or_init(|| self.start.elapsed());
    }
}

#[async_trait]
impl TimeSource for Pause {
    fn now(&self) -> Duration {
        let elapsed = self.start.elapsed();
        self.since
            .get()
            .map_or(elapsed, |since| elapsed.min(*since))
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
        if self.since.get().is_some() {
            std::future::pending().await
        }
    }
}

#[async_trait]
impl Driver for Wrapper {
    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    fn clock(&self) -> Clock {
        self.clock.clone()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn acquire(&self, claim: &Claim) -> Result<Answer> {
        self.inner.acquire(claim).await
    }

    async fn withdraw(&self, claim: &Claim) -> Result<()> {
        self.inner.withdraw(claim).await
    }

    async fn renew(&self, renewals: &[Renewal]) -> Result<Vec<Renewed>> {
        self.inner.renew(renewals).await
    }

    async fn release(&self, release: &Release) -> Result<Released> {
        self.inner.release(release).await
    }

    async fn news(&self) -> News {
        self.inner.news().await
    }

    async fn list(&self, only: Option<&Name>) -> Result<Vec<Entry>> {
        self.inner.list(only).await
    }

    async fn evict(&self, name: &Name) -> Result<Vec<Holder>> {
        self.inner.evict(name).await
    }

    async fn settled(&self) {
        self.inner.settled().await;
    }

    fn proof(&self, claim: &Claim, fence: Fence) -> Option<Proof> {
        self.inner.proof(claim, fence)
    }

    async fn row_lock(&self, name: &Name) -> Result<Option<RowKey>> {
        let mut key = self.inner.row_lock(name).await?;
        if let Some(RowKey::Row { waits, .. }) = &mut key {
            *waits &= !self.without_wait;
        }
        Ok(key)
    }
}

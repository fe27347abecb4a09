//! Fault injection: a wrapper around a driver that fails, delays or loses requests on command.
//!
//! For tests of programs that use tenure, and for tenure's own.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc;

use crate::driver::{
    Answer, Capabilities, Claim, Clock, Driver, Entry, Holder, News, Proof, Release, Released,
    Renewal, Renewed, RowKey,
};
use crate::error::{Error, Result};
use crate::name::{Fence, Name};
use crate::sync::Mutex;

/// A driver that forwards everything to another, except for the faults that it was told to inject.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> tenure::Result<()> {
/// use std::sync::Arc;
/// use tenure::conformance::faults::{Fault, FaultyDriver, Request};
/// use tenure::store::memory::Memory;
///
/// let fault = Arc::new(FaultyDriver::around(Arc::new(Memory::new())));
/// let locks = tenure::Client::with_driver(fault.clone());
/// fault.next(Request::Acquire, Fault::LoseAnswer, 1);
/// let guard = locks.mutex("a").lock().await?;
/// assert_eq!(fault.requests(Request::Acquire), 2, "the engine asked again");
/// # drop(guard);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct FaultyDriver {
    inner: Arc<dyn Driver>,
    plan: Mutex<Plan>,
    teller: mpsc::UnboundedSender<News>,
    told: tokio::sync::Mutex<mpsc::UnboundedReceiver<News>>,
}

/// A request to a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Request {
    /// [`Driver::acquire`].
    Acquire,
    /// [`Driver::evict`].
    Evict,
    /// [`Driver::list`].
    List,
    /// [`Driver::release`].
    Release,
    /// [`Driver::renew`].
    Renew,
    /// [`Driver::withdraw`].
    Withdraw,
}

/// What goes wrong with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// It takes effect, and its answer is delayed by this long.
    LateAnswer(Duration),
    /// It is delayed by this long.
    LateRequest(Duration),
    /// It takes effect, and its answer is lost.
    LoseAnswer,
    /// It fails without taking effect, and the caller knows that.
    Refuse,
}

#[derive(Debug, Default)]
struct Plan {
    always: HashMap<Request, Fault>,
    next: HashMap<Request, (Fault, u32)>,
    requests: HashMap<Request, u64>,
    news_delay: Duration,
}

impl FaultyDriver {
    /// Wraps a driver; injects no fault until told to.
    pub fn around(inner: Arc<dyn Driver>) -> Self {
        let (teller, told) = mpsc::unbounded_channel();
        Self {
            inner,
            plan: Mutex::default(),
            teller,
            told: tokio::sync::Mutex::new(told),
        }
    }

    /// Sends news to the engine as if from the store; news that is delayed at this time is lost.
    pub fn tell(&self, news: News) {
        // Fails only if the receiver is gone.
        let _ = self.teller.send(news);
    }

    /// Injects a fault into the next `times` requests of a kind.
    pub fn next(&self, request: Request, fault: Fault, times: u32) {
        self.plan.lock().next.insert(request, (fault, times));
    }

    /// Injects a fault into all requests of a kind from now on, until [`heal`](Self::heal).
    pub fn always(&self, request: Request, fault: Fault) {
        self.plan.lock().always.insert(request, fault);
    }

    /// Delays news by this long from now on, until [`heal`](Self::heal).
    pub fn delay_news(&self, delay: Duration) {
        self.plan.lock().news_delay = delay;
    }

    /// Stops injecting faults.
    pub fn heal(&self) {
        let mut plan = self.plan.lock();
        plan.always.clear();
        plan.next.clear();
        plan.news_delay = Duration::ZERO;
    }

    /// Returns how many requests of a kind were made.
    pub fn requests(&self, request: Request) -> u64 {
        self.plan
            .lock()
            .requests
            .get(&request)
            .copied()
            .unwrap_or_default()
    }

    fn next_fault(&self, request: Request) -> Option<Fault> {
        let mut plan = self.plan.lock();
        *plan.requests.entry(request).or_default() += 1;
        if let Some((fault, times)) = plan.next.get_mut(&request)
            && *times > 0
        {
            *times -= 1;
            return Some(*fault);
        }
        plan.always.get(&request).copied()
    }

    async fn send<T: Send>(
        &self,
        request: Request,
        sent: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let driver = self.inner.kind();
        match self.next_fault(request) {
            None => sent.await,
            Some(Fault::LateAnswer(delay)) => {
                let answer = sent.await;
                tokio::time::sleep(delay).await;
                answer
            }
            Some(Fault::LateRequest(delay)) => {
                tokio::time::sleep(delay).await;
                sent.await
            }
            Some(Fault::LoseAnswer) => {
                sent.await?;
                Err(Error::Indeterminate {
                    driver,
                    source: "the answer was lost".into(),
                })
            }
            Some(Fault::Refuse) => Err(Error::Unavailable {
                driver,
                source: "the store is down".into(),
            }),
        }
    }
}

#[async_trait]
impl Driver for FaultyDriver {
    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    fn clock(&self) -> Clock {
        self.inner.clock()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn acquire(&self, claim: &Claim) -> Result<Answer> {
        self.send(Request::Acquire, self.inner.acquire(claim)).await
    }

    async fn withdraw(&self, claim: &Claim) -> Result<()> {
        self.send(Request::Withdraw, self.inner.withdraw(claim))
            .await
    }

    async fn renew(&self, renewals: &[Renewal]) -> Result<Vec<Renewed>> {
        self.send(Request::Renew, self.inner.renew(renewals)).await
    }

    async fn release(&self, release: &Release) -> Result<Released> {
        self.send(Request::Release, self.inner.release(release))
            .await
    }

    async fn news(&self) -> News {
        let mut told = self.told.lock().await;
        let of_the_store = async {
            let news = self.inner.news().await;
            let delay = self.plan.lock().news_delay;
            tokio::time::sleep(delay).await;
            news
        };
        tokio::select! {
            biased;
            Some(news) = told.recv() => news,
            news = of_the_store => news,
        }
    }

    async fn list(&self, only: Option<&Name>) -> Result<Vec<Entry>> {
        self.send(Request::List, self.inner.list(only)).await
    }

    async fn evict(&self, name: &Name) -> Result<Vec<Holder>> {
        self.send(Request::Evict, self.inner.evict(name)).await
    }

    async fn settled(&self) {
        self.inner.settled().await;
    }

    fn proof(&self, claim: &Claim, fence: Fence) -> Option<Proof> {
        self.inner.proof(claim, fence)
    }

    async fn row_lock(&self, name: &Name) -> Result<Option<RowKey>> {
        self.inner.row_lock(name).await
    }
}

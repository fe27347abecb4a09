//! Drivers around drivers: what goes wrong between an engine and its store, on command.
//!
//! For tests of programs that use tenure, and for tenure's own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc;

use crate::driver::{
    Answer, Capabilities, Claim, Clock, Driver, Entry, Holder, News, Release, Released, Renewal,
    Renewed,
};
use crate::error::{Error, Result};
use crate::name::Name;

/// A driver that passes everything on to another, but for the faults it was told to make.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> tenure::Result<()> {
/// use std::sync::Arc;
/// use tenure::layer::{Call, Fault, Trouble};
/// use tenure::store::memory::Memory;
///
/// let fault = Arc::new(Fault::around(Arc::new(Memory::new())));
/// let locks = tenure::Client::with_driver(fault.clone());
/// fault.next(Call::Acquire, Trouble::LoseAnswer, 1);
/// let guard = locks.mutex("a").lock().await?;
/// assert_eq!(fault.calls(Call::Acquire), 2, "the engine asked again");
/// # drop(guard);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Fault {
    inner: Arc<dyn Driver>,
    plan: Mutex<Plan>,
    teller: mpsc::UnboundedSender<News>,
    told: tokio::sync::Mutex<mpsc::UnboundedReceiver<News>>,
}

/// Which request of a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Call {
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
pub enum Trouble {
    /// It takes effect, and its answer takes this long.
    LateAnswer(Duration),
    /// It takes this long to get there.
    LateRequest(Duration),
    /// It takes effect, and its answer is lost.
    LoseAnswer,
    /// It does not get there, and the caller knows that.
    Refuse,
}

#[derive(Debug, Default)]
struct Plan {
    always: HashMap<Call, Trouble>,
    next: HashMap<Call, (Trouble, u32)>,
    calls: HashMap<Call, u64>,
    news_delay: Duration,
}

impl Fault {
    /// Wraps a driver; without further orders nothing goes wrong.
    pub fn around(inner: Arc<dyn Driver>) -> Self {
        let (teller, told) = mpsc::unbounded_channel();
        Self {
            inner,
            plan: Mutex::default(),
            teller,
            told: tokio::sync::Mutex::new(told),
        }
    }

    /// Tells the engine something as if the store had; news that is late at this time is lost.
    pub fn tell(&self, news: News) {
        // Fails only if nobody can listen any more.
        let _ = self.teller.send(news);
    }

    /// Makes trouble for the next `times` requests of a kind.
    pub fn next(&self, call: Call, trouble: Trouble, times: u32) {
        self.plan().next.insert(call, (trouble, times));
    }

    /// Makes trouble for all requests of a kind from now on, until [`heal`](Self::heal).
    pub fn always(&self, call: Call, trouble: Trouble) {
        self.plan().always.insert(call, trouble);
    }

    /// Lets news arrive so much later from now on, until [`heal`](Self::heal).
    pub fn delay_news(&self, delay: Duration) {
        self.plan().news_delay = delay;
    }

    /// Ends all trouble.
    pub fn heal(&self) {
        let mut plan = self.plan();
        plan.always.clear();
        plan.next.clear();
        plan.news_delay = Duration::ZERO;
    }

    /// Returns how many requests of a kind were made.
    pub fn calls(&self, call: Call) -> u64 {
        self.plan().calls.get(&call).copied().unwrap_or_default()
    }

    fn trouble(&self, call: Call) -> Option<Trouble> {
        let mut plan = self.plan();
        *plan.calls.entry(call).or_default() += 1;
        if let Some((trouble, times)) = plan.next.get_mut(&call)
            && *times > 0
        {
            *times -= 1;
            return Some(*trouble);
        }
        plan.always.get(&call).copied()
    }

    async fn carry<T: Send>(
        &self,
        call: Call,
        request: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let driver = self.inner.kind();
        match self.trouble(call) {
            None => request.await,
            Some(Trouble::LateAnswer(delay)) => {
                let answer = request.await;
                tokio::time::sleep(delay).await;
                answer
            }
            Some(Trouble::LateRequest(delay)) => {
                tokio::time::sleep(delay).await;
                request.await
            }
            Some(Trouble::LoseAnswer) => {
                request.await?;
                Err(Error::Indeterminate {
                    driver,
                    source: "the answer was lost".into(),
                })
            }
            Some(Trouble::Refuse) => Err(Error::Unavailable {
                driver,
                source: "the store is down".into(),
            }),
        }
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Driver for Fault {
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
        self.carry(Call::Acquire, self.inner.acquire(claim)).await
    }

    async fn withdraw(&self, claim: &Claim) -> Result<()> {
        self.carry(Call::Withdraw, self.inner.withdraw(claim)).await
    }

    async fn renew(&self, renewals: &[Renewal]) -> Result<Vec<Renewed>> {
        self.carry(Call::Renew, self.inner.renew(renewals)).await
    }

    async fn release(&self, release: &Release) -> Result<Released> {
        self.carry(Call::Release, self.inner.release(release)).await
    }

    async fn news(&self) -> News {
        let mut told = self.told.lock().await;
        let of_the_store = async {
            let news = self.inner.news().await;
            let delay = self.plan().news_delay;
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
        self.carry(Call::List, self.inner.list(only)).await
    }

    async fn evict(&self, name: &Name) -> Result<Vec<Holder>> {
        self.carry(Call::Evict, self.inner.evict(name)).await
    }

    async fn settled(&self) {
        self.inner.settled().await;
    }
}

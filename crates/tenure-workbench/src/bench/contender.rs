//! The contenders: tenure, and the bare locks that it is compared with.

use std::fmt::{Debug, Display};
use std::pin::Pin;
use std::time::Duration;

use tenure::{Client, Guard, Lock, Outcome};

use crate::bench::messages::Who;
use crate::bench::stores;
use tenure_cli::{Failure, Result, Store, exit_code};

/// A lock without the promises of tenure, as people write it by hand.
pub(super) trait BareLock: Debug + Send {
    /// Waits for the lock.
    fn acquire(&mut self) -> Attempt<'_>;

    /// Releases it.
    fn release(&mut self) -> Attempt<'_>;
}

/// A call of a bare lock.
///
/// System calls and file operations block until they are done. They return `Done`, so that a boxed
/// future does not slow them down.
pub(super) enum Attempt<'a> {
    Done(Result<()>),
    InFlight(Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>),
}

impl<'a> Attempt<'a> {
    pub(super) fn in_flight(future: impl Future<Output = Result<()>> + Send + 'a) -> Self {
        Self::InFlight(Box::pin(future))
    }

    pub(super) async fn done(self) -> Result<()> {
        match self {
            Self::Done(done) => done,
            Self::InFlight(future) => future.await,
        }
    }
}

/// Creates bare locks for names, from what was opened once for the process.
pub(super) type BareLocks = Box<dyn Fn(&str) -> Result<Box<dyn BareLock>>>;

/// Creates the contenders of a process, from what was opened once.
pub(super) enum Source {
    Tenure {
        client: Client,
        ttl: Option<Duration>,
        keep: Option<Duration>,
    },
    Bare(BareLocks),
}

impl Source {
    /// Opens what the contenders share; `ttl` and `keep` only apply to tenure.
    pub(super) async fn open(
        who: Who,
        ttl: Option<Duration>,
        keep: Option<Duration>,
        store: &Store,
    ) -> Result<Self> {
        Ok(match who {
            Who::Tenure => Self::Tenure {
                client: store.open().await?,
                ttl,
                keep,
            },
            Who::Bare { lock, places } => {
                Self::Bare(stores::open_bare(lock, places, store.url()).await?)
            }
        })
    }

    /// Returns the client, for workloads that only tenure supports.
    pub(super) fn client(&self) -> Result<&Client> {
        match self {
            Self::Tenure { client, .. } => Ok(client),
            Self::Bare(_) => Err(bare_failed(&"it has no such workload")),
        }
    }

    /// Waits until no request is in flight and no lease is kept.
    pub(super) async fn settled(&self) {
        if let Self::Tenure { client, .. } = self {
            client.settled().await;
        }
    }

    /// Creates a contender for a name.
    pub(super) fn contender(&self, name: &str) -> Result<Contender> {
        Ok(match self {
            Self::Tenure { client, ttl, keep } => {
                let mut lock = client.mutex(name);
                if let Some(ttl) = ttl {
                    lock = lock.ttl(*ttl);
                }
                if let Some(keep) = keep {
                    lock = lock.keep(*keep);
                }
                Contender::tenure(lock)
            }
            Self::Bare(locks) => Contender::Bare(locks(name)?),
        })
    }
}

/// Locks and releases a name, by tenure or by a bare lock.
#[derive(Debug)]
pub(super) enum Contender {
    Tenure { lock: Lock, guard: Option<Guard> },
    Bare(Box<dyn BareLock>),
}

impl Contender {
    pub(super) fn tenure(lock: Lock) -> Self {
        Self::Tenure { lock, guard: None }
    }

    /// Waits for the lock.
    pub(super) async fn acquire(&mut self) -> Result<()> {
        match self {
            Self::Tenure { lock, guard } => {
                *guard = Some(lock.lock().await?);
                Ok(())
            }
            Self::Bare(bare) => bare.acquire().done().await,
        }
    }

    /// Releases it.
    pub(super) async fn release(&mut self) -> Result<()> {
        match self {
            Self::Tenure { guard, .. } => match guard.take() {
                Some(guard) => release(guard).await,
                None => Ok(()),
            },
            Self::Bare(bare) => bare.release().done().await,
        }
    }
}

/// Releases a lock; fails if it was lost, because the measurement would be wrong.
pub(super) async fn release(guard: Guard) -> Result<()> {
    match guard.release().await? {
        Outcome::Released => Ok(()),
        outcome => {
            let sentence = format!("a lock was lost while it was measured: {outcome:?}");
            Err(Failure::new(exit_code::LOST, sentence))
        }
    }
}

/// Returns the failure of a bare lock.
pub(super) fn bare_failed(why: &dyn Display) -> Failure {
    Failure::unavailable(format!("the bare lock to compare with failed: {why}"))
}

//! One client of a store.

use std::sync::Arc;

use crate::driver::{Capabilities, Driver, Entry, Holder, Mode};
use crate::engine::{Engine, to_end::to_end};
use crate::error::Result;
use crate::lock::{Lock, RwLock, Semaphore};
use crate::name::Name;
use crate::transaction::RowLock;

/// A client of a store, made by [`open`](crate::open()).
///
/// Cloning it is cheap and returns the same client: clones share one place in each line, one watchdog and
/// one connection.
///
/// It belongs to the Tokio runtime that it was opened in, and ends with it. Then calls that wait on
/// another runtime get an error. Guards that are held there are no longer renewed, and report their loss
/// only by [`health`](crate::Guard::health). It also belongs to its process: in a forked child its calls
/// fail with [`Error::Unavailable`](crate::Error::Unavailable) and its guards release nothing. The child
/// has to open its own client.
#[derive(Debug, Clone)]
pub struct Client {
    pub(crate) engine: Arc<Engine>,
}

impl Client {
    /// Makes a client with your own driver.
    ///
    /// # Panics
    ///
    /// Outside a Tokio runtime.
    pub fn with_driver(driver: Arc<dyn Driver>) -> Self {
        Self {
            engine: Engine::start(driver),
        }
    }

    /// Returns what the store can do; locks that ask for more are refused before anything is sent.
    pub fn capabilities(&self) -> &Capabilities {
        &self.engine.capabilities
    }

    /// Returns a mutex: one owner at a time holds it.
    ///
    /// Sends no request yet. The first call that sends one refuses a name that breaks the rules.
    pub fn mutex(&self, name: &str) -> Lock {
        Lock::new(self, name, Mode::Exclusive)
    }

    /// Returns a read-write lock: many read together, or one writes alone.
    pub fn rwlock(&self, name: &str) -> RwLock {
        RwLock::new(self, name)
    }

    /// Returns a semaphore with `of` permits.
    pub fn semaphore(&self, name: &str, of: u32) -> Semaphore {
        Semaphore::new(self, name, of)
    }

    /// Returns a lock that is taken in your own transaction in the store's database, and ends with it.
    ///
    /// This is for data in the same database, with the stores `postgres://` and `mysql://`; see
    /// [`transaction`](crate::transaction). Sends no request yet.
    pub fn row(&self, name: &str) -> RowLock {
        RowLock::new(self, name)
    }

    /// Lists holders and waiters, for one name or for all, sorted by name.
    ///
    /// # Errors
    ///
    /// What the store reports.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: listing changes nothing.
    pub async fn list(&self, only: Option<&Name>) -> Result<Vec<Entry>> {
        self.engine.check_origin()?;
        let (driver, only) = (Arc::clone(&self.engine.driver), only.cloned());
        let listed = async move { driver.list(only.as_ref()).await };
        to_end(&self.engine.background, listed).await
    }

    /// Returns the holders of a lock; none if it is free.
    ///
    /// The answer may be out of date when it arrives: use it to inform people, and
    /// [`try_lock`](crate::Lock::try_lock) to decide.
    ///
    /// # Errors
    ///
    /// A name that breaks the rules; what the store reports.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: listing changes nothing.
    pub async fn holders(&self, name: impl AsRef<str>) -> Result<Vec<Holder>> {
        let name = Name::new(name.as_ref())?;
        let entries = self.list(Some(&name)).await?;
        Ok(entries
            .into_iter()
            .flat_map(|entry| entry.holders)
            .collect())
    }

    /// Returns whether anybody holds a lock; see [`holders`](Self::holders).
    ///
    /// # Errors
    ///
    /// As [`holders`](Self::holders).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: listing changes nothing.
    pub async fn is_locked(&self, name: impl AsRef<str>) -> Result<bool> {
        Ok(!self.holders(name).await?.is_empty())
    }

    /// Evicts all holders of a lock, and returns them.
    ///
    /// The fence advances, the holders are told, and the next in line are granted the lock. A holder that
    /// does not react may still write: only the fence keeps it out.
    ///
    /// # Errors
    ///
    /// A name that breaks the rules; what the store reports.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: an eviction that was started continues in the background.
    pub async fn evict(&self, name: impl AsRef<str>) -> Result<Vec<Holder>> {
        self.engine.check_origin()?;
        let name = Name::new(name.as_ref())?;
        let driver = Arc::clone(&self.engine.driver);
        let evicted = async move { driver.evict(&name).await };
        to_end(&self.engine.background, evicted).await
    }

    /// Waits until this client has no background work.
    ///
    /// Dropped guards and cancelled calls are released in the background. The shutdown of the runtime
    /// waits at most a second for that. A program that wants to be sure, or that calls
    /// [`std::process::exit`], should call this first. Leases that are only [kept](crate::Lock::keep) are
    /// released first. This also waits for calls that still wait for a lock.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: work that was started continues in the background.
    pub async fn settled(&self) {
        self.engine.settled().await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    #[tokio::test(start_paused = true)]
    async fn what_was_cut_short_is_given_back_once_settled() {
        let locks = crate::open("memory:settled").await.unwrap();
        let others = crate::open("memory:settled").await.unwrap();
        let held = others.mutex("a").lock().await.unwrap();
        let lock = locks.mutex("a");
        let cut_short = timeout(Duration::from_millis(10), lock.lock()).await;
        assert!(cut_short.is_err());
        locks.settled().await;
        let entries = others.list(None).await.unwrap();
        assert!(entries[0].waiters.is_empty());
        drop(held);
        others.settled().await;
        assert!(locks.list(None).await.unwrap().is_empty());
    }
}

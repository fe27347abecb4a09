//! Work under a lock: the lock is held while it runs, and released when it ends.

use crate::error::{Error, Result};
use crate::guard::{Guard, Health, Outcome};
use crate::lock::Lock;
use crate::name::Fence;

impl Lock {
    /// Runs `work` while holding the lock, and releases the lock when it ends.
    ///
    /// `work` gets the fence, to send along with every write. It is dropped as soon as the lock is lost. The lock is
    /// released whatever happens: if `work` succeeds, fails or panics, or if the caller drops this future.
    ///
    /// # Errors
    ///
    /// What `work` returns; as [`lock`](Lock::lock); [`Error::Lost`] if the lock was lost before `work` was done. A
    /// release that fails is not an error here: it is retried in the background, and otherwise the lease expires.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe if `work` is: dropping the future drops it, and gives up the lock or the place in line.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> tenure::Result<()> {
    /// # async fn save(_stock: u32, _fence: tenure::Fence) -> tenure::Result<()> { Ok(()) }
    /// let locks = tenure::open("memory:").await?;
    /// let lock = locks.mutex("inventory:001");
    /// lock.with(|fence| async move { save(41, fence).await }).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn with<T, E, Working>(&self, work: impl FnOnce(Fence) -> Working) -> Result<T, E>
    where
        Working: Future<Output = Result<T, E>>,
        E: From<Error>,
    {
        let guard = self.lock().await?;
        let done = until_lost(&guard, work(guard.fence())).await?;
        let name = guard.name().clone();
        match guard.release().await {
            // The store ended the lease before this release, maybe before the work was done.
            Ok(Outcome::NotHeld(source)) if done.is_ok() => {
                Err(Error::Lost { name, source }.into())
            }
            _ => done,
        }
    }
}

/// Runs work until the lock is lost.
pub(crate) async fn until_lost<T>(guard: &Guard, work: impl Future<Output = T>) -> Result<T> {
    let done = tokio::select! {
        biased;
        source = guard.lost() => {
            let name = guard.name().clone();
            return Err(Error::Lost { name, source });
        }
        done = work => done,
    };
    // If the work blocks its thread, the report of a loss is delayed.
    check_held(guard)?;
    Ok(done)
}

/// Returns an error if the lock was lost.
pub(crate) fn check_held(guard: &Guard) -> Result<()> {
    match guard.health() {
        Health::Lost(source) => Err(Error::Lost {
            name: guard.name().clone(),
            source,
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::time::Duration;

    use super::*;
    use crate::driver::Loss;

    #[tokio::test(start_paused = true)]
    async fn the_lock_is_held_while_the_work_runs_and_free_afterwards() {
        let locks = crate::open("memory:").await.unwrap();
        let lock = locks.mutex("a");
        let work = |fence: Fence| {
            let locks = locks.clone();
            async move {
                let holders = locks.holders("a").await?;
                assert_eq!(holders[0].fence, fence);
                Ok::<_, Error>(7)
            }
        };
        assert_eq!(lock.with(work).await.unwrap(), 7);
        assert!(!locks.is_locked("a").await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_fails_or_panics_gives_the_lock_back() {
        let locks = crate::open("memory:").await.unwrap();
        let lock = locks.mutex("a");
        let failed: Result<()> = lock
            .with(|_| async { Err(Error::unavailable("x", "y")) })
            .await;
        assert!(matches!(
            failed,
            Err(Error::Unavailable { driver: "x", .. })
        ));
        assert!(!locks.is_locked("a").await.unwrap());
        let panics = tokio::spawn(async move {
            let work = |_| async { panic!("on purpose") };
            lock.with::<(), Error, _>(work).await
        });
        assert!(panics.await.unwrap_err().is_panic());
        locks.settled().await;
        assert!(!locks.is_locked("a").await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn work_ends_when_the_lock_is_lost() {
        let locks = crate::open("memory:").await.unwrap();
        let lock = locks.mutex("a");
        let working = lock.with::<(), Error, _>(|_| pending());
        let (ended, _) = tokio::join!(working, async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            locks.evict("a").await.unwrap()
        });
        let Err(Error::Lost { name, source }) = ended else {
            panic!("{ended:?}");
        };
        assert_eq!((name.as_str(), source), ("a", Loss::Evicted));
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_call_gives_the_lock_back() {
        let locks = crate::open("memory:").await.unwrap();
        let lock = locks.mutex("a");
        let working = lock.with::<(), Error, _>(|_| pending());
        let cancelled = tokio::time::timeout(Duration::from_millis(10), working).await;
        assert!(cancelled.is_err());
        locks.settled().await;
        assert!(!locks.is_locked("a").await.unwrap());
    }
}

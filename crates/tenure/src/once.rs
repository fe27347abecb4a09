//! Single-flight: one caller computes a result, the others wait for it or use the stale one.

use crate::error::{Error, Result};
use crate::guard::Guard;
use crate::lock::Lock;
use crate::name::Fence;
use crate::with::{check_held, until_lost};

/// What a caller finds where results are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen<T> {
    /// A result that can be used.
    Fresh(T),
    /// A result that should be computed again, and can be used meanwhile.
    Stale(T),
    /// No result.
    Missing,
}

/// A result, and its origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Once<T> {
    /// It was stored already, or another caller computed it meanwhile.
    Found(T),
    /// This caller computed it.
    Made(T),
    /// Another caller is computing a new one; this is the previous one.
    Stale(T),
}

impl<T> Once<T> {
    /// Returns the result, whatever its origin.
    pub fn into_inner(self) -> T {
        match self {
            Self::Found(result) | Self::Made(result) | Self::Stale(result) => result,
        }
    }
}

impl Lock {
    /// Computes a result once for all callers: the holder of the lock computes it, the others wait for it.
    ///
    /// `look` returns what is stored. If that is not [fresh](Seen::Fresh), the caller waits for the lock and looks
    /// once more, because another caller may have computed the result meanwhile. Only then it calls `make`, which
    /// computes the result and stores it where `look` finds it. `make` gets the fence, to send along with the result:
    /// a store that refuses fences smaller than the largest it has seen keeps a paused caller from replacing a newer
    /// result.
    ///
    /// If `make` fails, the caller gets its error, and the next caller in line computes the result.
    ///
    /// # Errors
    ///
    /// What `look` and `make` return; as [`lock`](Lock::lock); [`Error::Lost`] if the lock is lost while the result
    /// is being computed, in which case `make` is not polled any more; [`Error::InvalidOption`] if several callers
    /// can hold the lock together.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe if `look` and `make` are: dropping the future drops them, and gives up the lock or the place in
    /// line.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> tenure::Result<()> {
    /// use std::sync::Mutex;
    /// use tenure::{Once, Seen};
    ///
    /// let locks = tenure::open("memory:").await?;
    /// let cache = Mutex::new(None); // in practice: Redis, a file, a table
    /// let look = || async {
    ///     Ok(cache.lock().unwrap().map_or(Seen::Missing, Seen::Fresh))
    /// };
    /// let rebuild = |_fence| async {
    ///     *cache.lock().unwrap() = Some(42);
    ///     Ok::<_, tenure::Error>(42)
    /// };
    /// let lock = locks.mutex("cache:answer");
    /// assert_eq!(lock.once(look, rebuild).await?, Once::Made(42));
    /// assert_eq!(lock.once(look, rebuild).await?, Once::Found(42));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn once<T, E, Looking, Making>(
        &self,
        look: impl Fn() -> Looking,
        make: impl FnOnce(Fence) -> Making,
    ) -> Result<Once<T>, E>
    where
        Looking: Future<Output = Result<Seen<T>, E>>,
        Making: Future<Output = Result<T, E>>,
        E: From<Error>,
    {
        self.check_alone()?;
        if let Seen::Fresh(result) = look().await? {
            return Ok(Once::Found(result));
        }
        let guard = self.lock().await?;
        make_if_missing(guard, look, make).await
    }

    /// Does the same, but returns a [stale](Seen::Stale) result instead of waiting.
    ///
    /// A caller that finds a stale result and a free lock computes a new one. A caller that finds the lock taken gets
    /// the stale result at once. If there is no result at all, all callers wait as in [`once`](Self::once).
    ///
    /// # Errors
    ///
    /// As [`once`](Self::once).
    ///
    /// # Cancel safety
    ///
    /// As [`once`](Self::once).
    pub async fn once_or_stale<T, E, Looking, Making>(
        &self,
        look: impl Fn() -> Looking,
        make: impl FnOnce(Fence) -> Making,
    ) -> Result<Once<T>, E>
    where
        Looking: Future<Output = Result<Seen<T>, E>>,
        Making: Future<Output = Result<T, E>>,
        E: From<Error>,
    {
        self.check_alone()?;
        let guard = match look().await? {
            Seen::Fresh(result) => return Ok(Once::Found(result)),
            Seen::Stale(result) => match self.try_lock().await? {
                Some(guard) => guard,
                None => return Ok(Once::Stale(result)),
            },
            Seen::Missing => self.lock().await?,
        };
        make_if_missing(guard, look, make).await
    }

    /// Refuses a lock that several callers can hold together: each of them would compute the result.
    pub(crate) fn check_alone(&self) -> Result<()> {
        if self.is_held_alone() {
            return Ok(());
        }
        let reason = "a result is made once under a lock that one alone holds: use a mutex without \
                      an owner";
        Err(Error::InvalidOption {
            option: "mode or owner",
            reason: reason.to_owned(),
        })
    }
}

/// Looks again under the lock, and computes the result if it is still missing.
async fn make_if_missing<T, E, Looking, Making>(
    guard: Guard,
    look: impl Fn() -> Looking,
    make: impl FnOnce(Fence) -> Making,
) -> Result<Once<T>, E>
where
    Looking: Future<Output = Result<Seen<T>, E>>,
    Making: Future<Output = Result<T, E>>,
    E: From<Error>,
{
    if let Seen::Fresh(result) = look().await? {
        return Ok(Once::Found(result));
    }
    // A lease that ended while the caller looked must not be used.
    check_held(&guard)?;
    let result = until_lost(&guard, make(guard.fence())).await??;
    // The caller does not wait for the release: the result is stored, and the release runs in the background.
    drop(guard);
    Ok(Once::Made(result))
}

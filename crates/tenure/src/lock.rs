//! Locks with their options, and the three ways to request them.

use std::sync::Arc;
use std::time::Duration;

use crate::by_hand::Lease;
use crate::client::Client;
use crate::driver::{About, Life, Mode};
use crate::engine::lock_request::LockRequest;
use crate::error::{Error, Result};
use crate::guard::Guard;
use crate::name::{Name, Owner};

/// A lock with its options, ready to be requested.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> tenure::Result<()> {
/// use std::time::Duration;
///
/// let locks = tenure::open("memory:").await?;
/// let guard = locks.mutex("report").ttl(Duration::from_secs(10)).lock().await?;
/// assert!(locks.mutex("report").try_lock().await?.is_none());
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing is locked before lock, try_lock or lock_timeout is called and awaited"]
pub struct Lock {
    client: Client,
    /// The first call that can return an error reports the rule that the name breaks.
    name: std::result::Result<Name, &'static str>,
    owner: Option<Owner>,
    /// Whether the task that asks, or the thread outside a task, may lock again what it holds.
    reentrant: bool,
    mode: Mode,
    ttl: Duration,
    max_hold: Option<Duration>,
    at_least: Duration,
    keep: Duration,
    reason: Option<Arc<str>>,
}

impl Lock {
    pub(crate) fn new(client: &Client, name: &str, mode: Mode) -> Self {
        let name = Name::new(name).map_err(|error| match error {
            Error::InvalidName { reason } => reason,
            _ => "it is not a name",
        });
        Self {
            client: client.clone(),
            name,
            owner: None,
            reentrant: false,
            mode,
            ttl: DEFAULT_TTL,
            max_hold: None,
            at_least: Duration::ZERO,
            keep: Duration::ZERO,
            reason: None,
        }
    }

    /// Returns whether no two callers can hold it together.
    pub(crate) fn is_held_alone(&self) -> bool {
        self.mode == Mode::Exclusive && self.owner.is_none()
    }

    /// Sets how long the lease lasts unless renewed: 30 s if not set.
    ///
    /// A live holder renews automatically. The ttl is how long others wait for one that crashed or was
    /// disconnected.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets the longest time that the lock is held: it is not renewed beyond that.
    pub fn max_hold(mut self, longest: Duration) -> Self {
        self.max_hold = Some(longest);
        self
    }

    /// Sets the shortest time for which the name stays taken, even if it is released earlier.
    ///
    /// For jobs that must not run twice in a minute on two machines.
    pub fn at_least(mut self, shortest: Duration) -> Self {
        self.at_least = shortest;
        self
    }

    /// Keeps the lease in this process for up to this long after each release, if nobody else wants
    /// it: the next lock of the same name in this process then costs no request.
    ///
    /// Off by default. It is meant for a name that one process locks again and again and that others rarely want. The
    /// first claim from elsewhere calls the lease back with a message. Then it is released at once or, if it is in
    /// use again, when that use ends. Each use has a larger [fence](crate::Guard::fence), as always.
    ///
    /// What it costs others: they wait for that message, and a `try_lock` from elsewhere may be refused
    /// because of a lease that is only kept. It also calls the lease back, so that a later attempt finds
    /// the name free. If the message is lost, they wait until the lease has been unused for this
    /// duration; if it is in use, until its first release after the longer of this and the `ttl`. If
    /// this process is killed or stopped, they wait as they do for a holder. Listings show a kept lock
    /// as held.
    ///
    /// Kept leases are released when the last clone of the [`Client`] is dropped and by
    /// [`Client::settled`]. Names that are locked only once should not be kept: each costs memory and
    /// renewals until its time is up.
    ///
    /// Cannot be combined with [`owner`](Self::owner), [`max_hold`](Self::max_hold) or
    /// [`at_least`](Self::at_least), nor with shared locks, permits or leases by hand: the call then
    /// fails with [`InvalidOption`](Error::InvalidOption).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> tenure::Result<()> {
    /// use std::time::Duration;
    ///
    /// let locks = tenure::open("memory:").await?;
    /// let lock = locks.mutex("shard:7").keep(Duration::from_secs(5));
    /// for _ in 0..1000 {
    ///     let guard = lock.lock().await?;
    ///     guard.release().await?; // asks the store the first time only
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn keep(mut self, duration: Duration) -> Self {
        self.keep = duration;
        self
    }

    /// Sets the reason, for people who inspect the lock.
    pub fn reason(mut self, reason: &str) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Sets who may share the lock: all calls that name this owner, in any client and process, hold it together.
    ///
    /// In this client only the outermost call asks the store. The calls nested in it cost no request, and share its lease:
    /// its fence, its ttl, its `max_hold` and its loss. Each client has its own lease, which ends with its last call;
    /// the name is free when the last of them has ended. Until then the fence stays the same, even for a call that arrives
    /// while the release of the previous one is still in flight.
    ///
    /// Without an owner each call excludes all others, and a nested call waits for the outer one.
    pub fn owner(mut self, owner: Owner) -> Self {
        self.owner = Some(owner);
        self.reentrant = false;
        self
    }

    /// Lets nested calls of one task (or thread) lock again what it holds through this client or a clone.
    ///
    /// The task is the one that asks for the lock, not the one that built it: clones in several tasks exclude each other.
    /// Nested calls cost no request and share the lease of the outermost, as with [`owner`](Self::owner), which shares a lock
    /// with other tasks, clients and processes.
    pub fn reentrant(mut self) -> Self {
        self.owner = None;
        self.reentrant = true;
        self
    }

    /// Waits for the lock, first come, first served.
    ///
    /// # Errors
    ///
    /// A name or option that breaks the rules; what the store reports.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. Dropping the future gives up the place in line. If the store had granted the
    /// lock already, it is released in the background; until that release arrives, at the latest
    /// when `ttl` ends, others find the lock held.
    pub async fn lock(&self) -> Result<Guard> {
        let request = self.request(Life::Client)?;
        self.client.engine.lock(&request).await
    }

    /// Takes the lock if it is free right now and nobody waits for it.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, as [`lock`](Self::lock).
    pub async fn try_lock(&self) -> Result<Option<Guard>> {
        let request = self.request(Life::Client)?;
        self.client.engine.try_lock(&request).await
    }

    /// Waits for the lock, for at most `patience`.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`] once `patience` has run out, or [`Error::Indeterminate`] if the store
    /// has not answered for 100 ms or more by then; otherwise as [`lock`](Self::lock). In the last
    /// quarter of a longer wait in line, at most a second before its end, the store is asked once more.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, as [`lock`](Self::lock).
    pub async fn lock_timeout(&self, patience: Duration) -> Result<Guard> {
        let request = self.request(Life::Client)?;
        self.client.engine.lock_timeout(&request, patience).await
    }

    /// Waits for a lease that belongs to no process, to be renewed and released by hand.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, as [`lock`](Self::lock).
    pub async fn lease(&self) -> Result<Lease> {
        let request = self.request(Life::Ttl)?;
        Ok(self.client.engine.lock(&request).await?.into_lease())
    }

    /// Takes a lease by hand if the lock is free right now and nobody waits for it.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, as [`lock`](Self::lock).
    pub async fn try_lease(&self) -> Result<Option<Lease>> {
        let request = self.request(Life::Ttl)?;
        let guard = self.client.engine.try_lock(&request).await?;
        Ok(guard.map(Guard::into_lease))
    }

    /// Waits for a lease by hand, for at most `patience`.
    ///
    /// # Errors
    ///
    /// As [`lock_timeout`](Self::lock_timeout).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, as [`lock`](Self::lock).
    pub async fn lease_timeout(&self, patience: Duration) -> Result<Lease> {
        let request = self.request(Life::Ttl)?;
        let guard = self.client.engine.lock_timeout(&request, patience).await?;
        Ok(guard.into_lease())
    }

    fn request(&self, life: Life) -> Result<Arc<LockRequest>> {
        let name = self
            .name
            .clone()
            .map_err(|reason| Error::InvalidName { reason })?;
        let engine = &self.client.engine;
        engine.check_origin()?;
        let owner = match (life, &self.owner) {
            // A lease by hand belongs to nobody in this process. Anyone who has its owner may share it.
            (Life::Ttl, None) if engine.capabilities.shared_owners => Some(Owner::unique()),
            (_, owner) => owner.clone(),
        };
        let caller = self.reentrant.then(Owner::current);
        let request = LockRequest {
            name,
            owner,
            caller,
            mode: self.mode,
            ttl: self.ttl,
            life,
            max_hold: self.max_hold,
            at_least: self.at_least,
            keep: self.keep,
            about: About::this_process(self.reason.as_ref()),
        };
        request.check(engine.driver.kind(), &engine.capabilities)?;
        engine.warn_of_a_short_ttl(&request);
        Ok(Arc::new(request))
    }
}

/// A read-write lock: many read together, or one writes alone.
///
/// Readers and writers are served in order of arrival, so neither starves.
#[derive(Debug, Clone)]
pub struct RwLock {
    client: Client,
    name: Box<str>,
}

impl RwLock {
    pub(crate) fn new(client: &Client, name: &str) -> Self {
        Self {
            client: client.clone(),
            name: name.into(),
        }
    }

    /// Returns the lock for reading, together with other readers.
    pub fn read(&self) -> Lock {
        Lock::new(&self.client, &self.name, Mode::Shared)
    }

    /// Returns the lock for writing, alone.
    pub fn write(&self) -> Lock {
        Lock::new(&self.client, &self.name, Mode::Exclusive)
    }
}

/// A semaphore: claims hold it together as long as there are permits for all of them.
///
/// All users should give the same number of permits; if they differ, the smallest counts.
#[derive(Debug, Clone)]
pub struct Semaphore {
    client: Client,
    name: Box<str>,
    of: u32,
}

impl Semaphore {
    pub(crate) fn new(client: &Client, name: &str, of: u32) -> Self {
        Self {
            client: client.clone(),
            name: name.into(),
            of,
        }
    }

    /// Returns the lock that takes this many permits at once.
    pub fn take(&self, permits: u32) -> Lock {
        let mode = Mode::Permits {
            take: permits,
            of: self.of,
        };
        Lock::new(&self.client, &self.name, mode)
    }

    /// Waits for one permit: the same as `take(1).lock()`.
    ///
    /// # Errors
    ///
    /// As [`Lock::lock`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, as [`Lock::lock`].
    pub async fn lock(&self) -> Result<Guard> {
        self.take(1).lock().await
    }

    /// Takes one permit if it is free right now: the same as `take(1).try_lock()`.
    ///
    /// # Errors
    ///
    /// As [`Lock::lock`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, as [`Lock::lock`].
    pub async fn try_lock(&self) -> Result<Option<Guard>> {
        self.take(1).try_lock().await
    }

    /// Waits for one permit, for at most `patience`: the same as `take(1).lock_timeout(patience)`.
    ///
    /// # Errors
    ///
    /// As [`Lock::lock_timeout`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, as [`Lock::lock`].
    pub async fn lock_timeout(&self, patience: Duration) -> Result<Guard> {
        self.take(1).lock_timeout(patience).await
    }
}

/// How long a lease lasts by default.
pub const DEFAULT_TTL: Duration = Duration::from_secs(30);

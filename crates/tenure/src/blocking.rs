//! The same API for code that is not async.
//!
//! It works without a Tokio runtime, and does not panic inside one. A call inside a runtime blocks
//! its thread, so it belongs in [`spawn_blocking`](tokio::task::spawn_blocking). Renewal and all
//! other background work run on one thread that all blocking clients of a process share. The first
//! client starts it.
//!
//! # Examples
//!
//! ```
//! # fn main() -> tenure::Result<()> {
//! let locks = tenure::blocking::open("memory:")?;
//! let guard = locks.mutex("inventory:001").lock()?;
//! println!("fence {}", guard.fence());
//! guard.release()?;
//! # Ok(())
//! # }
//! ```

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake};
use std::thread::Thread;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::by_hand::{Lease, LeaseRenewal};
use crate::driver::{Capabilities, Entry, Holder, Loss};
use crate::error::{Error, Result};
use crate::guard::{Health, Outcome, RenewalFailure};
use crate::name::{Fence, Name, Owner};
use crate::once::{Once, Seen};
use crate::with::check_held;

/// Opens the store that a URL names; see [`tenure::open`](crate::open()).
///
/// # Errors
///
/// As [`tenure::open`](crate::open()).
pub fn open(url: &str) -> Result<Client> {
    wait(crate::open(url))?.map(Client)
}

/// A client of a store; see [`tenure::Client`](crate::Client).
#[derive(Debug, Clone)]
pub struct Client(crate::Client);

impl Client {
    /// Returns what the store can do; see [`Client::capabilities`](crate::Client::capabilities).
    pub fn capabilities(&self) -> &Capabilities {
        self.0.capabilities()
    }

    /// Returns a mutex: one owner at a time holds it.
    pub fn mutex(&self, name: &str) -> Lock {
        Lock(self.0.mutex(name))
    }

    /// Returns a read-write lock: many read together, or one writes alone.
    pub fn rwlock(&self, name: &str) -> RwLock {
        RwLock(self.0.rwlock(name))
    }

    /// Returns a semaphore with `of` permits.
    pub fn semaphore(&self, name: &str, of: u32) -> Semaphore {
        Semaphore(self.0.semaphore(name, of))
    }

    /// Lists holders and waiters; see [`Client::list`](crate::Client::list).
    ///
    /// # Errors
    ///
    /// What the store reports.
    pub fn list(&self, only: Option<&Name>) -> Result<Vec<Entry>> {
        wait(self.0.list(only))?
    }

    /// Returns the holders of a lock; see [`Client::holders`](crate::Client::holders).
    ///
    /// # Errors
    ///
    /// As [`Client::holders`](crate::Client::holders).
    pub fn holders(&self, name: impl AsRef<str>) -> Result<Vec<Holder>> {
        wait(self.0.holders(name))?
    }

    /// Returns whether anybody holds a lock; see [`Client::is_locked`](crate::Client::is_locked).
    ///
    /// # Errors
    ///
    /// As [`Client::holders`](crate::Client::holders).
    pub fn is_locked(&self, name: impl AsRef<str>) -> Result<bool> {
        wait(self.0.is_locked(name))?
    }

    /// Returns the leases by hand of one owner on a name; see [`Client::leases`](crate::Client::leases).
    ///
    /// # Errors
    ///
    /// As [`Client::leases`](crate::Client::leases).
    pub fn leases(&self, name: impl AsRef<str>, owner: &str) -> Result<Vec<Lease>> {
        wait(self.0.leases(name, owner))?
    }

    /// Restarts the ttl of a lease by hand, unless it is over; see [`Client::renew`](crate::Client::renew).
    ///
    /// # Errors
    ///
    /// As [`Client::renew`](crate::Client::renew).
    pub fn renew(&self, lease: &Lease) -> Result<LeaseRenewal> {
        wait(self.0.renew(lease))?
    }

    /// Frees a lease by hand; see [`Client::release`](crate::Client::release).
    ///
    /// # Errors
    ///
    /// As [`Client::release`](crate::Client::release).
    pub fn release(&self, lease: &Lease) -> Result<Outcome> {
        wait(self.0.release(lease))?
    }

    /// Waits until this client has no background work; see
    /// [`Client::settled`](crate::Client::settled).
    ///
    /// Leases that are only kept are released first. A program should call this before it ends if it
    /// [keeps](Lock::keep) leases, or made calls on threads that it does not join.
    pub fn settled(&self) {
        // Fails only if there is no background thread, and so no background work.
        let _ = wait(self.0.settled());
    }

    /// Evicts all holders of a lock; see [`Client::evict`](crate::Client::evict).
    ///
    /// # Errors
    ///
    /// As [`Client::evict`](crate::Client::evict).
    pub fn evict(&self, name: impl AsRef<str>) -> Result<Vec<Holder>> {
        wait(self.0.evict(name))?
    }
}

/// A lock with its options, ready to be requested; see [`tenure::Lock`](crate::Lock).
#[derive(Debug, Clone)]
#[must_use = "nothing is locked before lock, try_lock or lock_timeout is called"]
pub struct Lock(crate::Lock);

impl Lock {
    /// Sets how long the lease lasts unless renewed.
    pub fn ttl(self, ttl: Duration) -> Self {
        Self(self.0.ttl(ttl))
    }

    /// Sets the longest time that the lock is held.
    pub fn max_hold(self, longest: Duration) -> Self {
        Self(self.0.max_hold(longest))
    }

    /// Sets the shortest time for which the name stays taken.
    pub fn at_least(self, shortest: Duration) -> Self {
        Self(self.0.at_least(shortest))
    }

    /// Keeps the lease in this process for up to this long after each release, if nobody else wants
    /// it; see [`Lock::keep`](crate::Lock::keep).
    pub fn keep(self, duration: Duration) -> Self {
        Self(self.0.keep(duration))
    }

    /// Sets the reason, for people who inspect the lock.
    pub fn reason(self, reason: &str) -> Self {
        Self(self.0.reason(reason))
    }

    /// Sets who asks; the same owner may lock again what it holds.
    pub fn owner(self, owner: Owner) -> Self {
        Self(self.0.owner(owner))
    }

    /// Lets nested calls of this thread lock again.
    pub fn reentrant(self) -> Self {
        Self(self.0.reentrant())
    }

    /// Waits for the lock, first come, first served.
    ///
    /// # Errors
    ///
    /// As [`Lock::lock`](crate::Lock::lock).
    pub fn lock(&self) -> Result<Guard> {
        wait(self.0.lock())?.map(Guard::new)
    }

    /// Takes the lock if it is free right now and nobody waits for it.
    ///
    /// # Errors
    ///
    /// As [`Lock::try_lock`](crate::Lock::try_lock).
    pub fn try_lock(&self) -> Result<Option<Guard>> {
        Ok(wait(self.0.try_lock())??.map(Guard::new))
    }

    /// Waits for the lock, for at most `patience`.
    ///
    /// # Errors
    ///
    /// As [`Lock::lock_timeout`](crate::Lock::lock_timeout).
    pub fn lock_timeout(&self, patience: Duration) -> Result<Guard> {
        wait(self.0.lock_timeout(patience))?.map(Guard::new)
    }

    /// Waits for a lease that belongs to no process, to be renewed and released by hand.
    ///
    /// # Errors
    ///
    /// As [`Lock::lease`](crate::Lock::lease).
    pub fn lease(&self) -> Result<Lease> {
        wait(self.0.lease())?
    }

    /// Takes a lease by hand if the lock is free right now and nobody waits for it.
    ///
    /// # Errors
    ///
    /// As [`Lock::try_lease`](crate::Lock::try_lease).
    pub fn try_lease(&self) -> Result<Option<Lease>> {
        wait(self.0.try_lease())?
    }

    /// Waits for a lease by hand, for at most `patience`.
    ///
    /// # Errors
    ///
    /// As [`Lock::lease_timeout`](crate::Lock::lease_timeout).
    pub fn lease_timeout(&self, patience: Duration) -> Result<Lease> {
        wait(self.0.lease_timeout(patience))?
    }

    /// Runs `work` while holding the lock, and releases the lock when it ends; see
    /// [`Lock::with`](crate::Lock::with).
    ///
    /// # Errors
    ///
    /// As [`Lock::with`](crate::Lock::with). A loss is noticed when `work` has returned, because a thread cannot be
    /// interrupted: let long work check the fence at the resource.
    pub fn with<T, E: From<Error>>(
        &self,
        work: impl FnOnce(Fence) -> Result<T, E>,
    ) -> Result<T, E> {
        let guard = self.lock()?;
        let done = work(guard.fence())?;
        check_held(guard.inner())?;
        let name = guard.name().clone();
        match guard.release() {
            Ok(Outcome::NotHeld(source)) => Err(Error::Lost { name, source }.into()),
            _ => Ok(done),
        }
    }

    /// Computes a result once for all who want it: single-flight; see
    /// [`Lock::once`](crate::Lock::once).
    ///
    /// # Errors
    ///
    /// As [`Lock::once`](crate::Lock::once); a loss is noticed when `make` has returned.
    pub fn once<T, E: From<Error>>(
        &self,
        look: impl Fn() -> Result<Seen<T>, E>,
        make: impl FnOnce(Fence) -> Result<T, E>,
    ) -> Result<Once<T>, E> {
        self.0.check_alone()?;
        if let Seen::Fresh(result) = look()? {
            return Ok(Once::Found(result));
        }
        make_if_missing(&self.lock()?, look, make)
    }

    /// Does the same, but returns a stale result instead of waiting; see
    /// [`Lock::once_or_stale`](crate::Lock::once_or_stale).
    ///
    /// # Errors
    ///
    /// As [`once`](Self::once).
    pub fn once_or_stale<T, E: From<Error>>(
        &self,
        look: impl Fn() -> Result<Seen<T>, E>,
        make: impl FnOnce(Fence) -> Result<T, E>,
    ) -> Result<Once<T>, E> {
        self.0.check_alone()?;
        let guard = match look()? {
            Seen::Fresh(result) => return Ok(Once::Found(result)),
            Seen::Stale(result) => match self.try_lock()? {
                Some(guard) => guard,
                None => return Ok(Once::Stale(result)),
            },
            Seen::Missing => self.lock()?,
        };
        make_if_missing(&guard, look, make)
    }
}

/// Looks again under the lock, and computes the result if it is still missing.
fn make_if_missing<T, E: From<Error>>(
    guard: &Guard,
    look: impl Fn() -> Result<Seen<T>, E>,
    make: impl FnOnce(Fence) -> Result<T, E>,
) -> Result<Once<T>, E> {
    if let Seen::Fresh(result) = look()? {
        return Ok(Once::Found(result));
    }
    let result = make(guard.fence())?;
    check_held(guard.inner())?;
    Ok(Once::Made(result))
}

/// A read-write lock: many read together, or one writes alone; see [`tenure::RwLock`](crate::RwLock).
#[derive(Debug, Clone)]
pub struct RwLock(crate::RwLock);

impl RwLock {
    /// Returns the lock for reading, together with other readers.
    pub fn read(&self) -> Lock {
        Lock(self.0.read())
    }

    /// Returns the lock for writing, alone.
    pub fn write(&self) -> Lock {
        Lock(self.0.write())
    }
}

/// A semaphore; see [`tenure::Semaphore`](crate::Semaphore).
#[derive(Debug, Clone)]
pub struct Semaphore(crate::Semaphore);

impl Semaphore {
    /// Returns the lock that takes this many permits at once.
    pub fn take(&self, permits: u32) -> Lock {
        Lock(self.0.take(permits))
    }

    /// Waits for one permit: the same as `take(1).lock()`.
    ///
    /// # Errors
    ///
    /// As [`Lock::lock`](crate::Lock::lock).
    pub fn lock(&self) -> Result<Guard> {
        self.take(1).lock()
    }

    /// Takes one permit if it is free right now: the same as `take(1).try_lock()`.
    ///
    /// # Errors
    ///
    /// As [`Lock::try_lock`](crate::Lock::try_lock).
    pub fn try_lock(&self) -> Result<Option<Guard>> {
        self.take(1).try_lock()
    }

    /// Waits for one permit, for at most `patience`: the same as `take(1).lock_timeout(patience)`.
    ///
    /// # Errors
    ///
    /// As [`Lock::lock_timeout`](crate::Lock::lock_timeout).
    pub fn lock_timeout(&self, patience: Duration) -> Result<Guard> {
        self.take(1).lock_timeout(patience)
    }
}

/// A lock that was granted, held until released or dropped; see [`tenure::Guard`](crate::Guard).
///
/// Dropping it waits for the store's answer for at most a second: at the end of `main` nobody else
/// would send the release. Call [`release`](Self::release) to see errors.
#[must_use = "a guard that is not kept releases the lock at once: write `let _guard = …`, because `let _ = …` drops it"]
#[derive(Debug)]
pub struct Guard {
    /// `None` once the lock is given back.
    inner: Option<crate::Guard>,
}

impl Guard {
    fn new(inner: crate::Guard) -> Self {
        Self { inner: Some(inner) }
    }

    fn inner(&self) -> &crate::Guard {
        match &self.inner {
            Some(inner) => inner,
            None => unreachable!("only a release and a drop take it out, and both end the guard"),
        }
    }

    /// Returns the fence of this grant, to send along with every write.
    pub fn fence(&self) -> Fence {
        self.inner().fence()
    }

    /// Returns the name of the lock.
    pub fn name(&self) -> &Name {
        self.inner().name()
    }

    /// Returns the holder as people see it in the store; see [`Guard::owner`](crate::Guard::owner).
    pub fn owner(&self) -> Option<Owner> {
        self.inner().owner()
    }

    /// Returns whether the lock is held, at risk or lost, by this machine's clock.
    pub fn health(&self) -> Health {
        self.inner().health()
    }

    /// Returns the time until the lock is lost, if no renewal succeeds from now on.
    pub fn time_left(&self) -> Duration {
        self.inner().time_left()
    }

    /// Returns why the latest renewal failed, and for how long renewals have failed; see
    /// [`Guard::renewal_failure`](crate::Guard::renewal_failure).
    pub fn renewal_failure(&self) -> Option<RenewalFailure> {
        self.inner().renewal_failure()
    }

    /// Waits until the lock is lost, and returns why: for a thread of its own that ends the work.
    pub fn lost(&self) -> Loss {
        wait(self.inner().lost()).unwrap_or(Loss::Gone)
    }

    /// Waits until the lock is lost, for at most `patience`; `None` if it is still held.
    pub fn lost_timeout(&self, patience: Duration) -> Option<Loss> {
        match wait(async { timeout(patience, self.inner().lost()).await }) {
            Ok(lost) => lost.ok(),
            Err(_) => Some(Loss::Gone),
        }
    }

    /// Releases the lock and waits for the store's answer.
    ///
    /// # Errors
    ///
    /// As [`Guard::release`](crate::Guard::release).
    pub fn release(mut self) -> Result<Outcome> {
        match self.inner.take() {
            Some(guard) => wait(guard.release())?,
            None => Ok(Outcome::NotHeld(Loss::Gone)),
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(guard) = self.inner.take() {
            // A release that takes longer or fails continues in the background, as always.
            let released = async move { timeout(LONGEST_DROP, guard.release()).await };
            match is_ending() {
                true => wait_elsewhere(released),
                false => drop(wait(released)),
            }
        }
    }
}

/// How long a guard that is dropped waits for the store.
const LONGEST_DROP: Duration = Duration::from_secs(1);

/// Runs a call on this thread, which blocks until it is done; tasks that it spawns run on the shared
/// thread.
///
/// # Errors
///
/// [`Error::Unavailable`] if the shared thread cannot be started; nothing was called.
fn wait<T>(call: impl Future<Output = T>) -> Result<T> {
    let unavailable = |why: &'static str| Error::unavailable("blocking", why);
    let no_thread = "no thread could be started for the blocking clients";
    let runtime = crate::thread::runtime().ok_or_else(|| unavailable(no_thread))?;
    if is_ending() {
        return Err(unavailable("this thread is ending"));
    }
    let _context = runtime.enter();
    let alarm = Arc::new(Alarm {
        rung: AtomicBool::new(false),
        thread: std::thread::current(),
    });
    let waker = Arc::clone(&alarm).into();
    // Inside a task the call would use up the cooperative budget, which is only renewed on a yield.
    let mut call = pin!(tokio::task::unconstrained(call));
    loop {
        if let Poll::Ready(output) = call.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Ok(output);
        }
        while !alarm.rung.swap(false, Ordering::Acquire) {
            std::thread::park();
        }
    }
}

/// Returns whether this thread is ending and can no longer run a call.
fn is_ending() -> bool {
    Handle::try_current().is_err_and(|error| error.is_thread_local_destroyed())
}

/// Runs a call on the shared thread, and waits for it.
fn wait_elsewhere<T>(call: impl Future<Output = T> + Send + 'static) {
    let (done, is_done) = mpsc::channel();
    if let Some(runtime) = crate::thread::runtime() {
        runtime.spawn(async move {
            call.await;
            // The dropping thread may have stopped waiting.
            let _ = done.send(());
        });
        let _ = is_done.recv_timeout(LONGEST_DROP);
    }
}

/// Wakes a thread that waits for a call.
struct Alarm {
    /// Whether to poll again: a nested call may consume the thread's own unpark token.
    rung: AtomicBool,
    thread: Thread,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.rung.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

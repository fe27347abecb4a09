//! Faults that all databases have in common, on the kind of server that the test program names.

mod attacks;
mod clocks;
pub(crate) mod crashes;
mod endings;
mod evictions;
mod failover;
pub(crate) mod hold_ups;
mod isolation;
mod late;
mod mailbox;
mod names;
mod processes;
mod refusals;
mod resource;
mod sessions;
mod storms;
mod wire;

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use rustix::time::{ClockId, clock_gettime};
use tenure::conformance::Fixture;
use tenure::driver::{Driver, Entry};
use tenure::{Client, Error, Guard, Name, Outcome};
use tokio::task::JoinHandle;

pub(crate) use processes::hand;

/// A URL whose clients the rules of the contract are checked with.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) url: String,
}

impl Store {
    pub(crate) fn of(url: &str) -> Self {
        Self { url: patient(url) }
    }
}

#[async_trait]
impl Fixture for Store {
    async fn client(&self) -> Arc<dyn Driver> {
        crate::open_driver(&self.url).await.unwrap()
    }
}

pub(crate) async fn open(url: &str) -> Client {
    let opened = tenure::open(&patient(url)).await;
    opened.unwrap_or_else(|error| panic!("{}", chain(&error)))
}

/// The URL with time for answers that also a machine has which stands still for some seconds.
pub(crate) fn patient(url: &str) -> String {
    with(url, "timeout=20s&connect_timeout=20s")
}

/// The URL with further options.
pub(crate) fn with(url: &str, options: &str) -> String {
    let sign = if url.contains('?') { '&' } else { '?' };
    format!("{url}{sign}{options}")
}

/// A client whose requests fail soon; opened again if the machine stood still just then.
pub(crate) async fn open_hasty(url: &str) -> Client {
    let url = with(url, "timeout=700ms&connect_timeout=4s");
    let mut opened = None;
    until("the client to be open", async || {
        opened = tenure::open(&url).await.ok();
        opened.is_some()
    })
    .await;
    opened.unwrap()
}

/// Starts to wait for a lock.
pub(crate) fn waiter(
    client: &Client,
    name: &str,
    ttl: Duration,
) -> JoinHandle<tenure::Result<Guard>> {
    let lock = client.mutex(name).ttl(ttl);
    tokio::spawn(async move { lock.lock().await })
}

/// Waits until a waiter has its lock.
pub(crate) async fn got(waiting: JoinHandle<tenure::Result<Guard>>) -> Guard {
    let ended = tokio::time::timeout(PATIENCE, waiting).await;
    let guard = ended.expect("it gets the lock in time").unwrap();
    guard.unwrap_or_else(|error| panic!("{}", chain(&error)))
}

/// Asks for a free name until it is granted, and gives it back.
pub(crate) async fn until_granted(client: &Client, name: &str) {
    until(&format!("{name} to be granted"), async || {
        match client.mutex(name).try_lock().await {
            Ok(Some(guard)) => matches!(guard.release().await, Ok(Outcome::Released)),
            Ok(None) | Err(_) => false,
        }
    })
    .await;
}

/// Waits until a lease has been renewed, and so lasts longer than it did.
pub(crate) async fn until_longer_than(end: Instant, guard: &Guard) {
    until("a renewal", async || {
        let (now, left) = (Instant::now(), guard.time_left());
        // A lease that is over is none that was renewed.
        !left.is_zero() && now + left > end
    })
    .await;
}

/// When a lease is over at the latest, if it is not renewed.
pub(crate) fn ends_by(guard: &Guard) -> Instant {
    let left = guard.time_left();
    Instant::now() + left
}

/// Who holds a name, and who waits for it.
pub(crate) async fn entry(client: &Client, name: &str) -> Entry {
    let name: Name = name.parse().unwrap();
    let listed = client.list(Some(&name)).await.unwrap().pop();
    listed.unwrap_or_else(|| Entry::new(name))
}

/// Waits until so many stand in line for a name.
pub(crate) async fn until_waiting(client: &Client, name: &str, count: usize) {
    let only: Name = name.parse().unwrap();
    until(&format!("{count} in line for {name}"), async || {
        // Asked again after a fault: the server may just be away.
        let listed = client.list(Some(&only)).await;
        listed.is_ok_and(|listed| {
            let waiters = listed.iter().map(|entry| entry.waiters.len());
            waiters.sum::<usize>() == count
        })
    })
    .await;
}

/// Waits until nobody holds a name or waits for it.
pub(crate) async fn until_free(client: &Client, name: &str) {
    let only: Name = name.parse().unwrap();
    until(&format!("{name} to be free"), async || {
        let listed = client.list(Some(&only)).await;
        listed.is_ok_and(|listed| listed.is_empty())
    })
    .await;
}

/// Asks until the answer is yes.
pub(crate) async fn until(what: &str, mut found: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !found().await {
        assert!(
            begun.elapsed() < PATIENCE,
            "waited {PATIENCE:?} for: {what}"
        );
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// An error with all its sources, as a program prints it.
pub(crate) fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

/// The clock that all processes of a machine share, in nanoseconds.
pub(crate) fn boot_time() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    u64::try_from(now.tv_sec * 1_000_000_000 + now.tv_nsec).unwrap()
}

pub(crate) const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// How long a test waits for what has to happen before it fails: far less than [`LONG`], and far
/// more than a machine takes that stands still for a while.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A lease that outlives every test, so that its end explains nothing.
pub(crate) const LONG: Duration = Duration::from_secs(1000);

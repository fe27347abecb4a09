//! What the tests of this store share.

use std::time::{Duration, Instant};

use tenure::driver::Entry;
use tenure::{Client, Error, Guard, Health, Name};
use tokio::task::JoinHandle;

/// Opens a client whose answers may take as long as a machine that stands still for some seconds.
pub(crate) async fn open(url: &str) -> Client {
    open_with(url, "timeout=20s&connect_timeout=20s").await
}

/// Opens a client that gives up a server that does not answer within a second.
pub(crate) async fn open_hasty(url: &str, options: &str) -> Client {
    let options = format!("timeout=1s&connect_timeout=1s&{options}");
    let mut opened = None;
    until("the client to be open", async || {
        opened = tenure::open(&with(url, &options)).await.ok();
        opened.is_some()
    })
    .await;
    opened.unwrap()
}

pub(crate) async fn open_with(url: &str, options: &str) -> Client {
    let opened = tenure::open(&with(url, options)).await;
    opened.unwrap_or_else(|error| panic!("{}", chain(&error)))
}

/// The URL with further options.
pub(crate) fn with(url: &str, options: &str) -> String {
    let sign = if url.contains('?') { '&' } else { '?' };
    format!("{url}{sign}{options}")
}

/// Starts to wait for a lock.
pub(crate) fn waiter(client: &Client, name: &str) -> JoinHandle<tenure::Result<Guard>> {
    let lock = client.mutex(name);
    tokio::spawn(async move { lock.lock().await })
}

/// Waits until a waiter has its lock.
pub(crate) async fn got(waiting: JoinHandle<tenure::Result<Guard>>) -> Guard {
    let ended = tokio::time::timeout(PATIENCE, waiting).await;
    let guard = ended.expect("it gets the lock in time").unwrap();
    guard.unwrap_or_else(|error| panic!("{}", chain(&error)))
}

/// Waits until a guard says that it is lost.
pub(crate) async fn lost(guard: &Guard) -> tenure::Loss {
    let lost = tokio::time::timeout(PATIENCE, guard.lost()).await;
    lost.expect("the loss is told in time")
}

/// Waits until a guard is held again after an outage; fails if it is lost.
pub(crate) async fn until_held(guard: &Guard) {
    until("a renewal", async || match guard.health() {
        Health::Held => true,
        Health::Lost(loss) => panic!("lost: {loss}"),
        _ => false,
    })
    .await;
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
        tokio::time::sleep(Duration::from_millis(5)).await;
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

/// A name that no other test uses.
pub(crate) fn fresh(what: &str) -> String {
    format!("{what}-{:016x}", fastrand::u64(..))
}

/// How long a test waits for what has to happen before it fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);

//! Redis: the contract on all kinds of real servers, and what only Redis does.
#![cfg(target_os = "linux")]

mod clocks;
mod cluster;
mod deployments;
mod doctor;
mod ending;
mod forgetting;
mod keys;
mod native;
mod processes;
mod refusals;
mod replicas;
mod resource;
mod rights;
mod sentinel;
mod short_ttl;
mod store;
mod storms;
mod string;
mod tls;
mod wire;
#[path = "../processes/worker.rs"]
#[expect(dead_code, reason = "the tests of the local store do more with it")]
mod worker;

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tenure::driver::Entry;
use tenure::{Client, Error, Guard, Name};
use tenure_testkit::RedisServer;
use tokio::task::JoinHandle;

mod rules {
    tenure::conformance!(std::future::ready(super::store::Store::shared()));
}

/// Not a test: a process that follows commands, one after the other.
#[test]
fn hand() {
    worker::play(processes::hand);
}

async fn open(url: &str) -> Client {
    let mut url = patient(url);
    // Sentinels and nodes that are frozen should be skipped soon.
    if url.starts_with("redis://") {
        url += "&connect_timeout=20s";
    }
    let opened = tenure::open(&url).await;
    opened.unwrap_or_else(|error| panic!("{}", chain(&error)))
}

/// Returns the URL with timeouts that are long enough for a machine that stalls for some seconds.
fn patient(url: &str) -> String {
    let sign = if url.contains('?') { '&' } else { '?' };
    format!("{url}{sign}timeout=20s")
}

/// Returns a client whose requests time out soon; opens it again if the machine stalled just then.
async fn open_hasty(url: &str) -> Client {
    let sign = if url.contains('?') { '&' } else { '?' };
    let url = format!("{url}{sign}timeout=300ms&connect_timeout=300ms");
    let mut opened = None;
    until("the client to be open", async || {
        opened = tenure::open(&url).await.ok();
        opened.is_some()
    })
    .await;
    opened.unwrap()
}

/// Waits until a claim is in line for a name, or was granted it.
///
/// For a wait behind a short lease, which expires if the machine stalls.
async fn until_waiting_or_granted<T>(client: &Client, name: &str, waiting: &JoinHandle<T>) {
    until(&format!("a place in line for {name}"), async || {
        waiting.is_finished() || entry(client, name).await.waiters.len() == 1
    })
    .await;
}

/// Disconnects all clients, which renew their leases as soon as they are reconnected, and waits
/// until this lease is renewed.
async fn until_renewed(server: &RedisServer, guard: &Guard) {
    let end = ends_by(guard);
    for kind in ["normal", "pubsub"] {
        server.cli(&["CLIENT", "KILL", "TYPE", kind]);
    }
    until_longer_than(end, guard).await;
}

/// Waits until a lease has been renewed, and therefore lasts longer than it did.
async fn until_longer_than(end: Instant, guard: &Guard) {
    until("a renewal", async || {
        Instant::now() + guard.time_left() > end
    })
    .await;
}

/// Returns when a lease ends at the latest, if it is not renewed.
fn ends_by(guard: &Guard) -> Instant {
    let left = guard.time_left();
    Instant::now() + left
}

/// Returns who holds a name, and who waits for it.
async fn entry(client: &Client, name: &str) -> Entry {
    let name: Name = name.parse().unwrap();
    let listed = client.list(Some(&name)).await.unwrap().pop();
    listed.unwrap_or_else(|| Entry::new(name))
}

/// Waits until this many claims are in line for a name.
async fn until_waiting(client: &Client, name: &str, count: usize) {
    let only: Name = name.parse().unwrap();
    until(&format!("{count} in line for {name}"), async || {
        // Retried after a fault: the server may be down at the moment.
        let listed = client.list(Some(&only)).await;
        listed.is_ok_and(|listed| {
            listed
                .iter()
                .map(|entry| entry.waiters.len())
                .sum::<usize>()
                == count
        })
    })
    .await;
}

/// Waits until nobody holds a name or waits for it.
async fn until_free(client: &Client, name: &str) {
    until(&format!("{name} to be free"), async || {
        let entry = entry(client, name).await;
        entry.holders.is_empty() && entry.waiters.is_empty()
    })
    .await;
}

/// Retries until `found` returns `true`.
async fn until(what: &str, mut found: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !found().await {
        assert!(
            begun.elapsed() < PATIENCE,
            "waited {PATIENCE:?} for: {what}"
        );
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Returns an error with all its sources, as a program prints it.
fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

/// Returns the clock that all processes of a machine share, in nanoseconds.
fn boot_time() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    u64::try_from(now.tv_sec * 1_000_000_000 + now.tv_nsec).unwrap()
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// How long a test waits for a condition before it fails: far less than [`LONG`], and far more than
/// a stalled machine needs.
const PATIENCE: Duration = Duration::from_secs(30);

/// A lease that outlives every test, so that its expiry explains nothing.
const LONG: Duration = Duration::from_secs(1000);

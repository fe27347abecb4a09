//! Redlock: the contract on one to five real servers, and what only a vote can do.
#![cfg(target_os = "linux")]

mod by_hand;
mod clocks;
mod doctor;
mod ending;
mod majority;
mod minority;
mod nodes;
mod order;
mod owners;
mod processes;
mod replies;
#[path = "../redis/resource.rs"]
#[expect(dead_code, reason = "the tests of the redis store do more with it")]
mod resource;
mod restarts;
mod sizes;
mod storm;
mod ties;
mod urls;
mod votes;
#[path = "../processes/worker.rs"]
#[expect(dead_code, reason = "the tests of the local store do more with it")]
mod worker;

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tenure::{Client, Error, Guard, Health};
use tokio::task::JoinHandle;

mod three {
    tenure::conformance!(std::future::ready(crate::nodes::Shared::nodes(3)));
}

/// Not a test: a process that follows commands, one after the other.
#[test]
fn hand() {
    worker::play(processes::hand);
}

async fn open(url: &str) -> Client {
    let opened = tenure::open(url).await;
    opened.unwrap_or_else(|error| panic!("{}", chain(&error)))
}

/// Lets two clients take turns: one is granted the name, the other waits for it in line.
async fn take_turns(ann: &Client, bob: &Client, name: &str) {
    let hers = lock(ann, name).await;
    let waiting = bob.mutex(name).ttl(STEADY);
    let waiting = tokio::spawn(async move { waiting.lock_timeout(PATIENCE).await });
    until_waiting(ann, name, 1).await;
    assert!(is_held(&hers));
    let fence = hers.fence();
    hers.release().await.unwrap();
    let his = waiting.await.unwrap();
    let his = his.unwrap_or_else(|error| panic!("{name}: {}", chain(&error)));
    assert!(fence < his.fence(), "{name}");
    his.release().await.unwrap();
}

/// Gets a free name, however often the store has to be asked.
async fn lock(client: &Client, name: &str) -> Guard {
    let begun = Instant::now();
    loop {
        match client.mutex(name).ttl(STEADY).lock().await {
            Ok(guard) => return guard,
            Err(error) => assert!(begun.elapsed() < PATIENCE, "{name}: {}", chain(&error)),
        }
    }
}

/// Waits until a lease is renewed.
async fn until_renewed(guard: &Guard) {
    let left = guard.time_left();
    let end = Instant::now() + left;
    until("a renewal", async || {
        Instant::now() + guard.time_left() > end
    })
    .await;
}

/// Waits until a claim is in line for a name, or was granted it.
///
/// For a wait behind a short lease, which expires if the machine stalls.
async fn until_waiting_or_granted<T>(client: &Client, name: &str, waiting: &JoinHandle<T>) {
    let only = name.parse().unwrap();
    until(&format!("a place in line for {name}"), async || {
        let listed = client.list(Some(&only)).await.unwrap_or_default();
        waiting.is_finished() || listed.iter().any(|entry| entry.waiters.len() == 1)
    })
    .await;
}

fn is_held(guard: &Guard) -> bool {
    !matches!(guard.health(), Health::Lost(_))
}

/// Waits until this many claims are in line for a name.
async fn until_waiting(client: &Client, name: &str, count: usize) {
    let only = name.parse().unwrap();
    until(&format!("{count} in line for {name}"), async || {
        // Retried after a fault: the servers may be down at the moment.
        let listed = client.list(Some(&only)).await.unwrap_or_default();
        let waiters = listed.iter().map(|entry| entry.waiters.len());
        waiters.sum::<usize>() == count
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

/// How long a test waits for a condition before it fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// A lease that outlives every test, so that its expiry explains nothing.
const LONG: Duration = Duration::from_secs(1000);

/// A lease that is renewed before long, even by a machine that stalls for some seconds.
const STEADY: Duration = Duration::from_secs(9);

/// A lease that expires soon.
const SHORT: Duration = Duration::from_millis(1500);

//! Many real processes on the store of one machine, with kill -9 and SIGSTOP.
//!
//! The other processes are this program again, in one of the roles below.
#![cfg(target_os = "linux")]

mod churn;
mod counting;
mod disk;
mod ends;
mod hand;
mod history;
mod keep;
mod news;
mod owners;
mod register;
mod users;
mod worker;

use std::path::Path;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tempfile::TempDir;
use tenure::driver::Entry;
use tenure::{Client, Name};

use crate::worker::play;

/// Not a test: a process that follows commands, one after the other.
#[test]
fn hand() {
    play(hand::hand);
}

/// Not a test: a process that increments a resource outside the lock.
#[test]
fn counter() {
    play(counting::counter);
}

/// Not a test: a process that locks and releases as fast as it can.
#[test]
fn churner() {
    play(churn::churner);
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder for a test")
}

async fn open(folder: &Path) -> Client {
    let opened = tenure::open(&url(folder)).await;
    opened.expect("the folder opens")
}

fn url(folder: &Path) -> String {
    format!("local:{}", folder.display())
}

/// Returns who holds a name, and who waits for it.
async fn entry(client: &Client, name: &str) -> Option<Entry> {
    let name: Name = name.parse().unwrap();
    client.list(Some(&name)).await.unwrap().pop()
}

/// Waits until this many claims are in line for a name.
async fn until_waiting(client: &Client, name: &str, count: usize) {
    until(&format!("{count} in line for {name}"), async || {
        let entry = entry(client, name).await;
        entry.map_or(0, |entry| entry.waiters.len()) == count
    })
    .await;
}

/// Retries until `found` returns `true`.
async fn until(what: &str, mut found: impl AsyncFnMut() -> bool) {
    let deadline = boot_time() + nanos(PATIENCE);
    while !found().await {
        assert!(boot_time() < deadline, "waited {PATIENCE:?} for: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Ends this process's client, and fails if the next one finds anything that the others left.
async fn assert_nothing_left(client: Client, folder: &Path) {
    drop(client);
    until("the end of the client", async || is_closed(folder)).await;
    let client = open(folder).await;
    assert_eq!(client.list(None).await.unwrap(), []);
    let files = folder.join("clients").read_dir().unwrap().count();
    assert_eq!(files, 2, "only this client's");
}

/// Returns whether this process no longer has a client in the directory.
fn is_closed(folder: &Path) -> bool {
    let own = format!(" {} ", std::process::id());
    let clients = folder.join("clients").read_dir().unwrap();
    let mut texts = clients.map(|file| std::fs::read_to_string(file.unwrap().path()));
    !texts.any(|text| text.is_ok_and(|text| text.contains(&own)))
}

/// Returns the clock that all processes of a machine share, in nanoseconds.
fn boot_time() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    u64::try_from(now.tv_sec * 1_000_000_000 + now.tv_nsec).unwrap()
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap()
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// How long a test waits for a condition before it fails: far less than [`LONG_MS`], and far more
/// than a stalled machine needs.
const PATIENCE: Duration = Duration::from_secs(30);

/// A lease that outlives every test, so that only the end of the process frees it.
const LONG_MS: u64 = 1_000_000;

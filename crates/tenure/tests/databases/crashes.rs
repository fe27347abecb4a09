//! Servers that are killed and started again, or stand still.

use std::sync::Arc;
use std::time::Instant;

use tenure::driver::Loss;
use tenure::{Health, Outcome};
use tokio::time::timeout;

use crate::databases::{
    LONG, PATIENCE, ends_by, entry, got, millis, open, open_hasty, until, until_free,
    until_longer_than, until_waiting, waiter,
};
use crate::{Server, dialect};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_is_there_after_a_crash() {
    let mut server = Server::start().unwrap();
    let client = open(&server.url()).await;
    let granted = client.mutex("a").ttl(LONG).lock().await.unwrap();
    server.kill().unwrap();
    server.start_again().unwrap();
    let other = open(&server.url()).await;
    let holders = entry(&other, "a").await.holders;
    assert_eq!(holders[0].fence, granted.fence());
    assert!(other.mutex("a").try_lock().await.unwrap().is_none());
    assert_eq!(granted.health(), Health::Held);
    until_released(granted).await;
    until_free(&other, "a").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_over_is_there_after_a_crash() {
    let mut server = Server::start().unwrap();
    let (ann, bob) = (open(&server.url()).await, open(&server.url()).await);
    let held = ann.mutex("a").ttl(LONG).lock().await.unwrap();
    let waiting = waiter(&bob, "a", LONG);
    until_waiting(&ann, "a", 1).await;
    held.release().await.unwrap();
    let next = got(waiting).await;
    server.kill().unwrap();
    server.start_again().unwrap();
    let other = open(&server.url()).await;
    let holders = entry(&other, "a").await.holders;
    assert_eq!(holders[0].fence, next.fence());
    assert!(other.mutex("a").try_lock().await.unwrap().is_none());
    until_released(next).await;
    until_free(&other, "a").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_is_there_after_a_crash() {
    let mut server = Server::start().unwrap();
    let client = open(&server.url()).await;
    let ttl = millis(6000);
    let guard = client.mutex("a").ttl(ttl).lock().await.unwrap();
    let end = ends_by(&guard);
    until_longer_than(end, &guard).await;
    let renewed = Instant::now();
    server.kill().unwrap();
    server.start_again().unwrap();
    let other = open(&server.url()).await;
    let holder = entry(&other, "a").await.holders.pop();
    // A machine that stood still for so long proves nothing.
    if renewed.elapsed() < ttl / 2 {
        let left = holder.unwrap().expires_in;
        assert!(left + renewed.elapsed() > ttl / 2, "{left:?} are left");
    }
    until_released(guard).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_who_holds_and_one_who_waits_outlive_a_crash() {
    let mut server = Server::start().unwrap();
    let (ann, bob) = (open(&server.url()).await, open(&server.url()).await);
    let held = ann.mutex("a").ttl(LONG).lock().await.unwrap();
    let fence = held.fence();
    let waiting = waiter(&bob, "a", LONG);
    until_waiting(&ann, "a", 1).await;
    for _ in 0..2 {
        server.kill().unwrap();
        server.start_again().unwrap();
        until_waiting(&ann, "a", 1).await;
        assert_eq!(held.health(), Health::Held);
        assert!(!waiting.is_finished());
    }
    until_released(held).await;
    let next = got(waiting).await;
    assert!(fence < next.fence());
    until_released(next).await;
}

/// A release that nobody waits for need not be on disk: it is said again when the client is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_just_before_a_crash_is_not_undone() {
    let server = Server::builder();
    let mut server = dialect::lazy(server).start().unwrap();
    let client = open(&server.url()).await;
    for name in ["a", "b", "c"] {
        let guard = client.mutex(name).ttl(LONG).lock().await.unwrap();
        assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    }
    let guard = client.mutex("d").ttl(LONG).lock().await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    server.kill().unwrap();
    server.start_again().unwrap();
    let other = open(&server.url()).await;
    until("the client to be back", async || {
        client.list(None).await.is_ok()
    })
    .await;
    for name in ["a", "b", "c", "d"] {
        until_free(&other, name).await;
        assert!(other.mutex(name).try_lock().await.unwrap().is_some());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stands_still_for_less_than_a_lease_costs_no_lock() {
    let server = Server::start().unwrap();
    let (ann, bob) = (
        open_hasty(&server.url()).await,
        open_hasty(&server.url()).await,
    );
    let held = ann.mutex("a").ttl(millis(9000)).lock().await.unwrap();
    let waiting = waiter(&bob, "a", millis(9000));
    until_waiting(&ann, "a", 1).await;
    let end = ends_by(&held);
    server.freeze().unwrap();
    let frozen = Instant::now();
    // Until a renewal was due, and has not been answered.
    until("a renewal to fail", async || {
        frozen.elapsed() > millis(4500)
    })
    .await;
    server.thaw().unwrap();
    until_longer_than(end, &held).await;
    assert_eq!(held.health(), Health::Held);
    assert!(!waiting.is_finished());
    until_released(held).await;
    until_released(got(waiting).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stands_still_for_longer_than_a_lease_ends_it_before_the_next_is_granted() {
    let server = Server::start().unwrap();
    let (ann, bob) = (
        open_hasty(&server.url()).await,
        open_hasty(&server.url()).await,
    );
    let held = ann.mutex("a").ttl(millis(2000)).lock().await.unwrap();
    let held = Arc::new(held);
    let (lock, older) = (bob.mutex("a").ttl(LONG), Arc::clone(&held));
    let next = tokio::spawn(async move {
        let guard = lock.lock().await.unwrap();
        (guard, older.health())
    });
    until_waiting(&ann, "a", 1).await;
    server.freeze().unwrap();
    let loss = timeout(PATIENCE, held.lost()).await.unwrap();
    assert!(matches!(loss, Loss::Unreachable | Loss::Expired), "{loss}");
    server.thaw().unwrap();
    let (newer, known) = timeout(PATIENCE, next).await.unwrap().unwrap();
    assert_eq!(known, Health::Lost(loss), "when the next has the lock");
    assert!(held.fence() < newer.fence());
    until_released(newer).await;
}

/// Releases, also if a connection that the server has ended has to be found out first.
pub(crate) async fn until_released(guard: tenure::Guard) {
    match guard.release().await {
        Ok(outcome) => assert_eq!(outcome, Outcome::Released),
        // It goes on in the background.
        Err(error) => assert!(error.may_pass(), "{error:?}"),
    }
}

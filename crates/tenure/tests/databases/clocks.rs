//! The clock of the server is set while locks are held.

use tenure::Health;
use tokio::time::timeout;

use crate::Server;
use crate::databases::{
    LONG, PATIENCE, ends_by, millis, open, until_longer_than, until_waiting, waiter, with,
};

const HOUR_MS: i64 = 3_600_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fences_grow_and_leases_are_kept_when_the_clock_is_set_back() {
    let server = Server::builder().movable_clock().start().unwrap();
    server.move_clock(HOUR_MS).unwrap();
    let client = open(&server.url()).await;
    let guard = client.mutex("a").ttl(millis(4000)).lock().await.unwrap();
    let mut older = guard.fence();
    let end = ends_by(&guard);
    server.move_clock(-HOUR_MS).unwrap();
    until_longer_than(end, &guard).await;
    assert_eq!(guard.health(), Health::Held);
    guard.release().await.unwrap();
    for _ in 0..3 {
        let next = client.mutex("a").ttl(LONG).lock().await.unwrap();
        assert!(older < next.fence());
        older = next.fence();
        next.release().await.unwrap();
    }
}

/// A fence ahead of the clock is not forgotten, however long ago its name seems to be unused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_swept_is_not_ahead_of_the_clock() {
    let server = Server::builder().movable_clock().start().unwrap();
    let client = open(&with(&server.url(), "fence_memory=1s")).await;
    server.move_clock(HOUR_MS).unwrap();
    let guard = client.mutex("a").lock().await.unwrap();
    let older = guard.fence();
    guard.release().await.unwrap();
    server.move_clock(0).unwrap();
    // As if it had been unused for long, by the clock as it is now.
    server.sql(crate::dialect::LONG_UNUSED);
    for number in 0..600 {
        let guard = client.mutex(&format!("b {number}")).lock().await.unwrap();
        guard.release().await.unwrap();
    }
    client.settled().await;
    let next = client.mutex("a").lock().await.unwrap();
    assert!(older < next.fence());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_set_ahead_lets_the_next_in_with_a_larger_fence() {
    let server = Server::builder().movable_clock().start().unwrap();
    let (ann, bob) = (open(&server.url()).await, open(&server.url()).await);
    let guard = ann.mutex("a").ttl(millis(9000)).lock().await.unwrap();
    let waiting = waiter(&bob, "a", LONG);
    until_waiting(&ann, "a", 1).await;
    server.move_clock(HOUR_MS).unwrap();
    let loss = timeout(PATIENCE, guard.lost()).await.unwrap();
    println!("{loss}");
    let next = crate::databases::got(waiting).await;
    assert!(guard.fence() < next.fence());
}

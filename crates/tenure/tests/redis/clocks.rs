//! Servers whose wall clocks jump, or differ.

use std::time::Duration;

use tenure::{Client, Guard, Health, Outcome};
use tenure_testkit::{Fault, Proxy, RedisServer};
use tokio::time::timeout;

use crate::{LONG, PATIENCE, millis, open, until, until_waiting};

fn start() -> RedisServer {
    RedisServer::builder().movable_clock().start().unwrap()
}

async fn lock_and_release(client: &Client) -> u64 {
    let guard = client.mutex("a").lock().await.unwrap();
    let fence = guard.fence().get();
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    fence
}

/// Returns the key and the text of the only waiter's place.
fn place(server: &RedisServer) -> (String, String) {
    let waiter = server.cli(&["LINDEX", "tenure:{a}:line", "0"]);
    let place = server.cli(&["HGET", "tenure:{a}:places", &waiter]);
    (waiter, place)
}

/// Disconnects all clients, and waits until the only waiter has asked again.
async fn until_asked_again(server: &RedisServer) {
    let (waiter, place) = place(server);
    // Another deadline, which each request overwrites.
    let mut words: Vec<&str> = place.split(' ').collect();
    words[7] = MARK;
    server.cli(&["HSET", "tenure:{a}:places", &waiter, &words.join(" ")]);
    server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    until("the waiter to ask again", async || {
        !self::place(server).1.contains(MARK)
    })
    .await;
}

/// A time in milliseconds in the far future.
const MARK: &str = "99999999999999";

/// When a waiter last asks before the clock jumps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asks {
    Once,
    Again,
}

/// Lets one client wait behind another with this ttl while the clock jumps, and returns the grant.
async fn handed_over_after_a_jump(
    server: &RedisServer,
    ttl: Duration,
    jump_ms: i64,
    asks: Asks,
) -> Guard {
    server.move_clock(0).unwrap();
    let (ann, bob) = (open(&server.url()).await, open(&server.url()).await);
    let held = ann.mutex("a").ttl(LONG).lock().await.unwrap();
    let waiting = bob.mutex("a").ttl(ttl);
    let waiting = tokio::spawn(async move { waiting.lock().await });
    until_waiting(&ann, "a", 1).await;
    if asks == Asks::Again {
        until_asked_again(server).await;
    }
    server.move_clock(jump_ms).unwrap();
    assert_eq!(held.release().await.unwrap(), Outcome::Released);
    timeout(PATIENCE, waiting).await.unwrap().unwrap().unwrap()
}

/// By the server's clock, the grant was made long after the claim was queued.
#[tokio::test]
async fn a_jump_forwards_before_a_grant_does_not_lengthen_the_lease() {
    let server = start();
    let ttl = millis(5000);
    for asks in [Asks::Once, Asks::Again] {
        let guard = handed_over_after_a_jump(&server, ttl, 8000, asks).await;
        let left = guard.time_left();
        assert!(left <= ttl, "{left:?}");
        let ends_in: u64 = server.cli(&["PTTL", "tenure:{a}"]).parse().unwrap();
        let now_left = guard.time_left();
        assert!(
            now_left <= millis(ends_in),
            "{now_left:?} left, {ends_in} ms at the server"
        );
        drop(guard);
        server.cli(&["DEL", "tenure:{a}"]);
    }
}

/// By the server's clock, the grant was made before the claim was queued. The lease is long, so
/// that a waiter that ignores the news does not notice it by the end of the lease.
#[tokio::test]
async fn a_jump_backwards_before_a_grant_leaves_nobody_unaware_of_it() {
    let server = start();
    for asks in [Asks::Once, Asks::Again] {
        let guard = handed_over_after_a_jump(&server, LONG, -8000, asks).await;
        assert!(guard.time_left() <= LONG);
        assert_eq!(guard.health(), Health::Held);
        assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    }
}

/// The server remembers the last fence, whatever the clock shows.
#[tokio::test]
async fn fences_grow_while_a_clock_that_jumped_back_catches_up() {
    let server = start();
    let client = open(&server.url()).await;
    let mut last = lock_and_release(&client).await;
    for ahead_ms in [-3000, -600_000, 0] {
        server.move_clock(ahead_ms).unwrap();
        let fence = lock_and_release(&client).await;
        assert!(last < fence);
        last = fence;
    }
}

#[tokio::test]
async fn fences_grow_after_a_failover_to_a_replica_that_saw_them_whatever_its_clock() {
    let mut master = RedisServer::start().unwrap();
    let replica = RedisServer::builder()
        .movable_clock()
        .replica_of(master.port())
        .start()
        .unwrap();
    replica.wait_until_linked().unwrap();
    replica.move_clock(-3000).unwrap();
    let older = lock_and_release(&open(&master.url()).await).await;
    let seen = master.cli(&["GET", "tenure:{a}:fence"]);
    until("the replica to see the fence", async || {
        replica.cli(&["GET", "tenure:{a}:fence"]) == seen
    })
    .await;
    master.kill().unwrap();
    replica.cli(&["REPLICAOF", "NO", "ONE"]);
    assert!(older < lock_and_release(&open(&replica.url()).await).await);
}

/// What the docs say about a replica that lags: its clock must be past the last grant.
#[tokio::test]
async fn fences_grow_after_a_failover_to_a_replica_that_lags_once_its_clock_is_past_the_last_grant()
{
    let mut master = RedisServer::start().unwrap();
    let proxy = Proxy::start(master.port()).unwrap();
    let replica = RedisServer::builder()
        .movable_clock()
        .replica_of(proxy.port())
        .start()
        .unwrap();
    replica.wait_until_linked().unwrap();
    proxy.set(Fault::Freeze);
    let older = lock_and_release(&open(&master.url()).await).await;
    master.kill().unwrap();
    replica.cli(&["REPLICAOF", "NO", "ONE"]);
    replica.move_clock(-600_000).unwrap();
    let client = open(&replica.url()).await;
    let behind = lock_and_release(&client).await;
    println!("{} s too small", (older - behind) / 1_000_000);
    replica.move_clock(0).unwrap();
    assert!(older < lock_and_release(&client).await);
}

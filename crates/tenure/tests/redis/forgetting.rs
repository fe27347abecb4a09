//! A server that dies, loses its data or freezes.

use std::time::Instant;

use tenure::driver::Loss;
use tenure::{Health, Outcome};
use tenure_testkit::{Persistence, RedisServer};
use tokio::time::timeout;

use crate::{
    LONG, PATIENCE, chain, millis, open, open_hasty, until, until_waiting, until_waiting_or_granted,
};

/// Documented: without persistence a restart loses all locks.
#[tokio::test]
async fn a_restart_without_persistence_can_make_a_second_holder_with_a_larger_fence() {
    let mut server = RedisServer::start().unwrap();
    let (ann, bob) = (open(&server.url()).await, open(&server.url()).await);
    let hers = ann.mutex("a").ttl(LONG).lock().await.unwrap();
    let waiting = bob.mutex("a").ttl(LONG);
    let waiting = tokio::spawn(async move { waiting.lock().await });
    until_waiting(&ann, "a", 1).await;
    server.kill().unwrap();
    server.start_again().unwrap();
    let back = Instant::now();
    let his = timeout(PATIENCE, waiting).await.unwrap().unwrap().unwrap();
    println!("the waiter went on {:?} after the restart", back.elapsed());
    assert!(hers.fence() < his.fence());
    // She asks as soon as she is reconnected, and learns of it.
    let loss = timeout(PATIENCE, hers.lost()).await.unwrap();
    assert!(matches!(loss, Loss::TakenOver | Loss::Gone), "{loss:?}");
    assert_eq!(his.release().await.unwrap(), Outcome::Released);
}

#[tokio::test]
async fn a_restart_with_a_log_keeps_the_lock_and_the_line() {
    for persistence in [Persistence::AofEverySecond, Persistence::AofAlways] {
        let mut server = RedisServer::builder()
            .persistence(persistence)
            .start()
            .unwrap();
        let (ann, bob) = (open(&server.url()).await, open(&server.url()).await);
        let hers = ann.mutex("a").ttl(LONG).lock().await.unwrap();
        let waiting = bob.mutex("a").ttl(LONG);
        let waiting = tokio::spawn(async move { waiting.lock().await });
        until_waiting(&ann, "a", 1).await;
        server.kill().unwrap();
        server.start_again().unwrap();
        until_waiting(&ann, "a", 1).await;
        let other = open(&server.url()).await;
        assert!(other.mutex("a").try_lock().await.unwrap().is_none());
        assert_eq!(hers.health(), Health::Held);
        let older = hers.fence();
        assert_eq!(hers.release().await.unwrap(), Outcome::Released);
        let his = timeout(PATIENCE, waiting).await.unwrap().unwrap().unwrap();
        assert!(older < his.fence());
    }
}

#[tokio::test]
async fn fences_grow_after_everything_was_flushed() {
    let server = RedisServer::start().unwrap();
    let client = open(&server.url()).await;
    let mut last = client.mutex("a").lock().await.unwrap();
    for _ in 0..20 {
        server.cli(&["FLUSHALL"]);
        let next = open(&server.url()).await.mutex("a").lock().await.unwrap();
        assert!(last.fence() < next.fence());
        last = next;
    }
}

#[tokio::test]
async fn a_waiter_outlives_a_server_that_is_away_for_a_while() {
    let mut server = RedisServer::builder()
        .persistence(Persistence::AofEverySecond)
        .start()
        .unwrap();
    let (ann, bob) = (
        open_hasty(&server.url()).await,
        open_hasty(&server.url()).await,
    );
    let hers = ann.mutex("a").ttl(millis(1000)).lock().await.unwrap();
    let waiting = bob.mutex("a").ttl(LONG);
    let waiting = tokio::spawn(async move { waiting.lock().await });
    until_waiting_or_granted(&ann, "a", &waiting).await;
    server.kill().unwrap();
    let loss = timeout(PATIENCE, hers.lost()).await.unwrap();
    assert!(is_own_word(loss), "{loss:?}");
    server.start_again().unwrap();
    let back = Instant::now();
    let his = timeout(PATIENCE, waiting).await.unwrap().unwrap().unwrap();
    println!("the waiter went on {:?} after the restart", back.elapsed());
    assert!(hers.fence() < his.fence());
}

#[tokio::test]
async fn a_server_that_stands_still_past_the_ttl_is_noticed_without_it() {
    let server = RedisServer::start().unwrap();
    let (ann, bob) = (
        open_hasty(&server.url()).await,
        open_hasty(&server.url()).await,
    );
    let ttl = millis(1000);
    let guard = ann.mutex("a").ttl(ttl).lock().await.unwrap();
    let waiting = bob.mutex("a").ttl(LONG);
    let waiting = tokio::spawn(async move { waiting.lock().await });
    until_waiting_or_granted(&ann, "a", &waiting).await;
    server.freeze().unwrap();
    let frozen = Instant::now();
    // The server does not reply, so both learn of it by their own clock.
    let loss = timeout(PATIENCE, guard.lost()).await.unwrap();
    assert!(is_own_word(loss), "{loss:?}");
    let error = ann.mutex("b").try_lock().await.unwrap_err();
    println!("{} {:?} after the freeze", chain(&error), frozen.elapsed());
    until("the lease to be over", async || frozen.elapsed() > ttl).await;
    server.thaw().unwrap();
    let thawed = Instant::now();
    let his = timeout(PATIENCE, waiting).await.unwrap().unwrap().unwrap();
    println!("the waiter went on {:?} after the thaw", thawed.elapsed());
    assert!(guard.fence() < his.fence());
    assert!(matches!(guard.release().await, Ok(Outcome::NotHeld(_))));
    let free = ann.mutex("b").lock().await.unwrap();
    assert_eq!(free.release().await.unwrap(), Outcome::Released);
}

/// Returns whether the holder noticed it by itself; which of the two it is depends on what it has
/// tried by then.
fn is_own_word(loss: Loss) -> bool {
    matches!(loss, Loss::Unreachable | Loss::Expired)
}

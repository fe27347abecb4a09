//! Faults between a client and its server.

use std::sync::Arc;
use std::time::Instant;

use tenure::driver::Loss;
use tenure::{Client, Error, Health, Outcome, Owner};
use tenure_testkit::{Fault, Proxy, RedisServer};
use tokio::time::timeout;

use crate::{
    LONG, PATIENCE, chain, ends_by, entry, millis, open, open_hasty, until, until_free,
    until_longer_than, until_renewed, until_waiting, until_waiting_or_granted,
};

/// A server, a connection that breaks, a client behind it and one with a direct connection.
pub(crate) struct Wire {
    pub(crate) server: RedisServer,
    pub(crate) proxy: Proxy,
    pub(crate) client: Client,
    pub(crate) direct: Client,
}

impl Wire {
    /// Starts everything, with scripts that the server knows.
    pub(crate) async fn start(options: &str) -> Self {
        let server = RedisServer::start().unwrap();
        let proxy = Proxy::start(server.port()).unwrap();
        let direct = open(&format!("{}{options}", server.url())).await;
        let guard = direct.mutex("warm").ttl(LONG).lock().await.unwrap();
        until_renewed(&server, &guard).await;
        let impatient = direct.mutex("warm").lock_timeout(millis(20)).await;
        assert!(impatient.is_err());
        guard.release().await.unwrap();
        direct.settled().await;
        let client = open_hasty(&format!("{}{options}", server.url_on(proxy.port()))).await;
        Self {
            server,
            proxy,
            client,
            direct,
        }
    }

    /// Waits until this many requests have lost their reply.
    pub(crate) async fn swallowed(&self, count: u64) {
        until("an answer to be lost", async || {
            self.proxy.replies_swallowed() >= count
        })
        .await;
        assert_eq!(self.proxy.connections_cut(), count);
    }
}

#[tokio::test]
async fn an_acquire_whose_answer_is_lost_is_counted_once() {
    let wire = Wire::start("").await;
    wire.proxy.lose_reply_then_cut(b"{a}");
    let guard = wire.client.mutex("a").ttl(LONG).lock().await.unwrap();
    wire.swallowed(1).await;
    let holders = entry(&wire.direct, "a").await.holders;
    assert_eq!(holders.len(), 1);
    assert_eq!((holders[0].depth, holders[0].fence), (1, guard.fence()));
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    until_free(&wire.direct, "a").await;
}

#[tokio::test]
async fn a_re_entry_whose_answer_is_lost_is_counted_once() {
    let wire = Wire::start("").await;
    let owner = Owner::unique();
    let lock = |client: &Client| client.mutex("a").ttl(LONG).owner(owner.clone());
    let outer = lock(&wire.direct).lock().await.unwrap();
    wire.proxy.lose_reply_then_cut(b"{a}");
    let inner = lock(&wire.client).lock().await.unwrap();
    wire.swallowed(1).await;
    assert_eq!(entry(&wire.direct, "a").await.holders[0].depth, 2);
    assert_eq!(
        inner.release().await.unwrap(),
        Outcome::Lowered { depth: 1 }
    );
    assert_eq!(outer.release().await.unwrap(), Outcome::Released);
    until_free(&wire.direct, "a").await;
}

#[tokio::test]
async fn a_place_in_line_whose_answer_is_lost_is_one_place() {
    let wire = Wire::start("").await;
    let held = wire.direct.mutex("a").ttl(LONG).lock().await.unwrap();
    wire.proxy.lose_reply_then_cut(b"{a}");
    let waiting = wire.client.mutex("a").ttl(LONG);
    let waiting = tokio::spawn(async move { waiting.lock().await });
    until_waiting(&wire.direct, "a", 1).await;
    wire.swallowed(1).await;
    until("the client to be back", async || {
        wire.proxy.connections_accepted() == 2
    })
    .await;
    held.release().await.unwrap();
    let guard = timeout(PATIENCE, waiting).await.unwrap().unwrap().unwrap();
    assert_eq!(entry(&wire.direct, "a").await.holders[0].depth, 1);
    guard.release().await.unwrap();
    until_free(&wire.direct, "a").await;
}

#[tokio::test]
async fn a_release_whose_answer_is_lost_has_freed_the_lock() {
    let wire = Wire::start("").await;
    let guard = wire.client.mutex("a").ttl(LONG).lock().await.unwrap();
    wire.proxy.lose_reply_then_cut(b"{a}");
    let released = guard.release().await;
    wire.swallowed(1).await;
    println!("the holder is told {released:?}");
    assert!(!matches!(released, Ok(Outcome::Lowered { .. })));
    until_free(&wire.direct, "a").await;
    let next = wire.direct.mutex("a").try_lock().await.unwrap();
    assert!(next.is_some());
}

#[tokio::test]
async fn a_renewal_whose_answer_is_lost_keeps_the_lease() {
    let wire = Wire::start("").await;
    let guard = wire.client.mutex("a").ttl(LONG).lock().await.unwrap();
    let end = ends_by(&guard);
    wire.proxy.lose_reply_then_cut(b"{a}");
    // It renews as soon as it is reconnected, gets no reply, and retries.
    wire.proxy.cut();
    until("the answer to be lost", async || {
        wire.proxy.replies_swallowed() == 1
    })
    .await;
    until_longer_than(end, &guard).await;
    assert_eq!(wire.proxy.connections_cut(), 2);
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
}

#[tokio::test]
async fn a_withdrawal_whose_answer_is_lost_has_left_the_line() {
    let wire = Wire::start("").await;
    let held = wire.direct.mutex("a").ttl(LONG).lock().await.unwrap();
    let given_up = wire.client.mutex("a").ttl(LONG);
    let given_up = tokio::spawn(async move { given_up.lock().await });
    until_waiting(&wire.direct, "a", 1).await;
    wire.proxy.lose_reply_then_cut(b"{a}");
    given_up.abort();
    wire.swallowed(1).await;
    until_waiting(&wire.direct, "a", 0).await;
    held.release().await.unwrap();
    until_free(&wire.direct, "a").await;
}

#[tokio::test]
async fn a_client_that_hears_no_answers_leaves_nothing_behind() {
    let wire = Wire::start("").await;
    wire.proxy.set(Fault::LoseReplies);
    let begun = Instant::now();
    let error = wire.client.mutex("a").ttl(LONG).lock().await.unwrap_err();
    println!("told after {:?}: {}", begun.elapsed(), chain(&error));
    assert!(
        matches!(error, Error::Indeterminate { .. }),
        "it may have taken effect"
    );
    assert!(wire.proxy.replies_swallowed() > 0);
    assert_eq!(
        entry(&wire.direct, "a").await.holders.len(),
        1,
        "it took effect"
    );
    wire.proxy.set(Fault::Pass);
    until_free(&wire.direct, "a").await;
    let guard = wire.client.mutex("a").lock().await.unwrap();
    guard.release().await.unwrap();
}

/// Half-open: nothing is forwarded, and neither side notices.
#[tokio::test]
async fn a_holder_behind_a_dead_wire_knows_of_its_loss_before_the_next_has_the_lock() {
    let wire = Wire::start("").await;
    let lock = wire.client.mutex("a").ttl(millis(1000));
    let guard = Arc::new(lock.lock().await.unwrap());
    let (next, older) = (wire.direct.mutex("a").ttl(LONG), Arc::clone(&guard));
    let next = tokio::spawn(async move {
        let guard = next.lock().await.unwrap();
        (guard, older.health())
    });
    until_waiting_or_granted(&wire.direct, "a", &next).await;
    wire.proxy.set(Fault::Freeze);
    let frozen = Instant::now();
    let loss = timeout(PATIENCE, guard.lost()).await.unwrap();
    println!("told {loss:?} after {:?}", frozen.elapsed());
    let (newer, known) = timeout(PATIENCE, next).await.unwrap().unwrap();
    assert_eq!(known, Health::Lost(loss), "when the next has the lock");
    assert!(matches!(loss, Loss::Unreachable | Loss::Expired), "{loss}");
    assert!(guard.fence() < newer.fence());
    wire.proxy.set(Fault::Pass);
    let guard = Arc::into_inner(guard).unwrap();
    assert!(matches!(
        guard.release().await,
        Ok(Outcome::NotHeld(_)) | Err(_)
    ));
    newer.release().await.unwrap();
    let again = wire.client.mutex("a").lock().await.unwrap();
    assert_eq!(again.release().await.unwrap(), Outcome::Released);
}

#[tokio::test]
async fn a_request_into_a_dead_wire_ends_by_the_timeouts() {
    let wire = Wire::start("").await;
    wire.proxy.set(Fault::Freeze);
    let begun = Instant::now();
    let error = wire.client.mutex("a").try_lock().await.unwrap_err();
    println!("told after {:?}: {}", begun.elapsed(), chain(&error));
    // The request may still arrive when the connection works again, and is then undone.
    wire.proxy.set(Fault::Pass);
    let guard = timeout(PATIENCE, wire.client.mutex("a").lock()).await;
    guard.unwrap().unwrap().release().await.unwrap();
    until_free(&wire.direct, "a").await;
}

#[tokio::test]
async fn a_slow_wire_keeps_its_leases() {
    let wire = Wire::start("").await;
    wire.proxy.set(Fault::Delay(millis(60)));
    let begun = Instant::now();
    let guard = wire.client.mutex("a").ttl(LONG).lock().await.unwrap();
    assert!(begun.elapsed() >= millis(120), "the wire is slow");
    for _ in 0..3 {
        let (left, end) = (guard.time_left(), ends_by(&guard));
        assert!(left <= LONG - millis(120), "it counts from the request");
        wire.proxy.cut();
        until_longer_than(end, &guard).await;
    }
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
}

#[tokio::test]
async fn an_answer_slower_than_the_timeout_is_no_grant_and_leaves_nothing_behind() {
    let wire = Wire::start("").await;
    // Longer than all attempts together; what is held back arrives as soon as the connection works
    // again.
    wire.proxy.set(Fault::Delay(PATIENCE));
    let error = wire
        .client
        .mutex("a")
        .ttl(LONG)
        .try_lock()
        .await
        .unwrap_err();
    assert!(matches!(
        error,
        Error::Indeterminate { .. } | Error::Unavailable { .. }
    ));
    wire.proxy.set(Fault::Pass);
    until_free(&wire.direct, "a").await;
}

#[tokio::test]
async fn a_cut_wire_loses_neither_the_lease_nor_the_place_in_line() {
    let wire = Wire::start("").await;
    let guard = wire.client.mutex("held").ttl(LONG).lock().await.unwrap();
    let held = wire.direct.mutex("a").ttl(LONG).lock().await.unwrap();
    let waiting = wire.client.mutex("a").ttl(LONG);
    let waiting = tokio::spawn(async move { waiting.lock().await });
    until_waiting(&wire.direct, "a", 1).await;
    for count in 1..=10 {
        wire.proxy.cut();
        until("the client to be back", async || {
            let accepted = wire.proxy.connections_accepted() == 1 + count;
            accepted && wire.client.list(None).await.is_ok()
        })
        .await;
    }
    assert_eq!(wire.proxy.connections_cut(), 10);
    held.release().await.unwrap();
    let next = timeout(PATIENCE, waiting).await.unwrap().unwrap().unwrap();
    assert_eq!(next.release().await.unwrap(), Outcome::Released);
    assert_eq!(guard.health(), Health::Held);
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
}

/// The message of the grant is in flight when the connection dies.
#[tokio::test]
async fn a_grant_whose_message_is_lost_is_found_by_asking_again() {
    let wire = Wire::start("").await;
    let held = wire.direct.mutex("a").ttl(LONG).lock().await.unwrap();
    let waiting = wire.client.mutex("a").ttl(LONG);
    let waiting = tokio::spawn(async move { waiting.lock().await });
    until_waiting(&wire.direct, "a", 1).await;
    wire.proxy.set(Fault::LoseReplies);
    held.release().await.unwrap();
    until("the message to be lost", async || {
        wire.proxy.replies_swallowed() > 0
    })
    .await;
    assert_eq!(
        entry(&wire.direct, "a").await.holders.len(),
        1,
        "it is granted"
    );
    let lost = Instant::now();
    wire.proxy.set(Fault::Pass);
    wire.server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    let guard = timeout(PATIENCE, waiting).await.unwrap().unwrap().unwrap();
    println!("found after {:?}", lost.elapsed());
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
}

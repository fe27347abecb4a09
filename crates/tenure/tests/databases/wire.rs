//! Faults between a client and its server.

use std::sync::Arc;
use std::time::Instant;

use tenure::driver::Loss;
use tenure::{Client, Error, Health, Outcome, Owner};
use tenure_testkit::{Fault, Proxy};
use tokio::time::timeout;

use crate::Server;
use crate::databases::{
    LONG, PATIENCE, chain, ends_by, entry, got, millis, open, open_hasty, until, until_free,
    until_longer_than, until_waiting, waiter,
};
use crate::dialect;

/// A server, a wire that breaks, a client behind it and one that is not.
struct Wire {
    server: Server,
    proxy: Proxy,
    client: Client,
    direct: Client,
}

impl Wire {
    async fn start() -> Self {
        let server = Server::start().unwrap();
        let proxy = Proxy::start(server.port()).unwrap();
        let direct = open(&server.url()).await;
        let client = open_hasty(&server.url_on(proxy.port())).await;
        // What is asked for the first time is prepared first.
        let warm = client.mutex("warm").ttl(LONG).lock().await.unwrap();
        warm.release().await.unwrap();
        Self {
            server,
            proxy,
            client,
            direct,
        }
    }

    /// Waits until an answer was lost.
    async fn swallowed(&self) {
        until("an answer to be lost", async || {
            self.proxy.replies_swallowed() >= 1
        })
        .await;
    }
}

const NAME: &str = "the-name-of-a-lock";

#[tokio::test]
async fn an_acquire_whose_answer_is_lost_is_counted_once() {
    let wire = Wire::start().await;
    wire.proxy.lose_reply_then_cut(NAME.as_bytes());
    let guard = wire.client.mutex(NAME).ttl(LONG).lock().await.unwrap();
    wire.swallowed().await;
    let holders = entry(&wire.direct, NAME).await.holders;
    assert_eq!(holders.len(), 1);
    assert_eq!((holders[0].depth, holders[0].fence), (1, guard.fence()));
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    let next = wire.direct.mutex(NAME).try_lock().await.unwrap().unwrap();
    assert!(holders[0].fence < next.fence());
}

/// The row is there, so that one statement grants it.
#[tokio::test]
async fn a_fast_acquire_whose_answer_is_lost_is_counted_once() {
    let wire = Wire::start().await;
    let before = wire.client.mutex(NAME).ttl(LONG).lock().await.unwrap();
    let older = before.fence();
    before.release().await.unwrap();
    wire.proxy.lose_reply_then_cut(NAME.as_bytes());
    let guard = wire.client.mutex(NAME).ttl(LONG).lock().await.unwrap();
    wire.swallowed().await;
    let holders = entry(&wire.direct, NAME).await.holders;
    assert_eq!(holders.len(), 1);
    assert_eq!((holders[0].depth, holders[0].fence), (1, guard.fence()));
    assert!(older < guard.fence());
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
}

#[tokio::test]
async fn a_re_entry_whose_answer_is_lost_is_counted_once() {
    let wire = Wire::start().await;
    let owner = Owner::unique();
    let lock = |client: &Client| client.mutex(NAME).ttl(LONG).owner(owner.clone());
    let outer = lock(&wire.direct).lock().await.unwrap();
    wire.proxy.lose_reply_then_cut(NAME.as_bytes());
    let inner = lock(&wire.client).lock().await.unwrap();
    wire.swallowed().await;
    assert_eq!(entry(&wire.direct, NAME).await.holders[0].depth, 2);
    let left = inner.release().await.unwrap();
    assert_eq!(left, Outcome::Lowered { depth: 1 });
    assert_eq!(outer.release().await.unwrap(), Outcome::Released);
    until_free(&wire.direct, NAME).await;
}

#[tokio::test]
async fn a_place_in_line_whose_answer_is_lost_is_one_place() {
    let wire = Wire::start().await;
    let held = wire.direct.mutex(NAME).ttl(LONG).lock().await.unwrap();
    let first = waiter(&wire.client, NAME, LONG);
    until_waiting(&wire.direct, NAME, 1).await;
    first.abort();
    until_waiting(&wire.direct, NAME, 0).await;
    // The mailbox is open now: what is lost is the answer to the place in line.
    wire.proxy.lose_reply_then_cut(NAME.as_bytes());
    let waiting = waiter(&wire.client, NAME, LONG);
    wire.swallowed().await;
    until_waiting(&wire.direct, NAME, 1).await;
    held.release().await.unwrap();
    let guard = got(waiting).await;
    let holders = entry(&wire.direct, NAME).await.holders;
    assert_eq!((holders.len(), holders[0].depth), (1, 1));
    guard.release().await.unwrap();
    until_free(&wire.direct, NAME).await;
}

#[tokio::test]
async fn a_release_whose_answer_is_lost_has_freed_the_lock() {
    let wire = Wire::start().await;
    let guard = wire.client.mutex(NAME).ttl(LONG).lock().await.unwrap();
    wire.proxy.lose_reply_then_cut(NAME.as_bytes());
    let released = guard.release().await;
    wire.swallowed().await;
    println!("the holder is told {released:?}");
    assert!(!matches!(released, Ok(Outcome::Lowered { .. })));
    until_free(&wire.direct, NAME).await;
    let next = wire.direct.mutex(NAME).try_lock().await.unwrap();
    assert!(next.is_some());
}

#[tokio::test]
async fn a_hand_over_whose_answer_is_lost_happens_once() {
    let wire = Wire::start().await;
    let guard = wire.client.mutex(NAME).ttl(LONG).lock().await.unwrap();
    let fence = guard.fence();
    let waiting = waiter(&wire.direct, NAME, LONG);
    until_waiting(&wire.direct, NAME, 1).await;
    wire.proxy.lose_reply_then_cut(NAME.as_bytes());
    let released = guard.release().await;
    println!("the holder is told {released:?}");
    wire.swallowed().await;
    let next = got(waiting).await;
    assert!(fence < next.fence());
    assert_eq!(next.release().await.unwrap(), Outcome::Released);
    until_free(&wire.direct, NAME).await;
}

#[tokio::test]
async fn a_renewal_whose_answer_is_lost_keeps_the_lease() {
    let wire = Wire::start().await;
    let guard = wire.client.mutex(NAME).ttl(millis(3000)).lock().await;
    let guard = guard.unwrap();
    let end = ends_by(&guard);
    wire.proxy.lose_reply_then_cut(NAME.as_bytes());
    wire.swallowed().await;
    until_longer_than(end, &guard).await;
    assert_eq!(guard.health(), Health::Held);
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
}

#[tokio::test]
async fn a_withdrawal_whose_answer_is_lost_has_left_the_line() {
    let wire = Wire::start().await;
    let held = wire.direct.mutex(NAME).ttl(LONG).lock().await.unwrap();
    let given_up = waiter(&wire.client, NAME, LONG);
    until_waiting(&wire.direct, NAME, 1).await;
    wire.proxy.lose_reply_then_cut(NAME.as_bytes());
    given_up.abort();
    wire.swallowed().await;
    until_waiting(&wire.direct, NAME, 0).await;
    held.release().await.unwrap();
    until_free(&wire.direct, NAME).await;
}

#[tokio::test]
async fn a_client_that_hears_no_answers_leaves_nothing_behind() {
    let wire = Wire::start().await;
    wire.proxy.set(Fault::LoseReplies);
    let error = wire.client.mutex(NAME).ttl(LONG).lock().await.unwrap_err();
    println!("{}", chain(&error));
    assert!(matches!(error, Error::Indeterminate { .. }));
    assert!(wire.proxy.replies_swallowed() > 0);
    wire.proxy.set(Fault::Pass);
    until_free(&wire.direct, NAME).await;
    let guard = wire.client.mutex(NAME).lock().await.unwrap();
    guard.release().await.unwrap();
}

/// Half-open: nothing is forwarded, and nothing says so.
#[tokio::test]
async fn a_holder_behind_a_dead_wire_knows_of_its_loss_before_the_next_has_the_lock() {
    let wire = Wire::start().await;
    let lock = wire.client.mutex(NAME).ttl(millis(2000));
    let guard = Arc::new(lock.lock().await.unwrap());
    wire.proxy.set(Fault::Freeze);
    let frozen = Instant::now();
    let (next, older) = (wire.direct.mutex(NAME).ttl(LONG), Arc::clone(&guard));
    let next = tokio::spawn(async move {
        let guard = next.lock().await.unwrap();
        (guard, older.health())
    });
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
    assert_eq!(newer.release().await.unwrap(), Outcome::Released);
    until_free(&wire.direct, NAME).await;
    let again = wire.client.mutex(NAME).lock().await.unwrap();
    assert_eq!(again.release().await.unwrap(), Outcome::Released);
}

#[tokio::test]
async fn a_request_into_a_dead_wire_ends_by_the_timeouts() {
    let wire = Wire::start().await;
    wire.proxy.set(Fault::Freeze);
    let begun = Instant::now();
    let error = wire.client.mutex(NAME).try_lock().await.unwrap_err();
    println!("told after {:?}: {}", begun.elapsed(), chain(&error));
    assert!(error.may_pass());
    // The request may still arrive when the wire is healed, and is then taken back.
    wire.proxy.set(Fault::Pass);
    let guard = timeout(PATIENCE, wire.client.mutex(NAME).lock()).await;
    guard.unwrap().unwrap().release().await.unwrap();
    until_free(&wire.direct, NAME).await;
}

#[tokio::test]
async fn a_cut_wire_loses_neither_the_lease_nor_the_place_in_line() {
    let wire = Wire::start().await;
    let guard = wire.client.mutex("held").ttl(LONG).lock().await.unwrap();
    let held = wire.direct.mutex(NAME).ttl(LONG).lock().await.unwrap();
    let waiting = waiter(&wire.client, NAME, LONG);
    until_waiting(&wire.direct, NAME, 1).await;
    for _ in 0..5 {
        wire.proxy.cut();
        until("the client to be back", async || {
            wire.client.list(None).await.is_ok()
        })
        .await;
    }
    assert!(wire.proxy.connections_cut() >= 5);
    held.release().await.unwrap();
    let next = got(waiting).await;
    assert_eq!(next.release().await.unwrap(), Outcome::Released);
    assert_eq!(guard.health(), Health::Held);
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
}

/// Its new connection is known as well as the old one was.
#[tokio::test]
async fn a_waiter_whose_wire_was_cut_can_be_reached_again() {
    let wire = Wire::start().await;
    let held = wire.direct.mutex(NAME).ttl(LONG).lock().await.unwrap();
    let waiting = waiter(&wire.client, NAME, LONG);
    until("a mailbox", async || dialect::mailboxes(&wire.server) == 1).await;
    wire.proxy.cut();
    until("the client to be back", async || {
        wire.client.list(None).await.is_ok()
    })
    .await;
    until("a mailbox again, and nothing that polls", async || {
        dialect::mailboxes(&wire.server) == 1 && dialect::pollers(&wire.server) == 0
    })
    .await;
    held.release().await.unwrap();
    got(waiting).await.release().await.unwrap();
}

/// The message of the grant is lost, and the connection on which it should have come lives on.
#[tokio::test]
async fn a_grant_whose_message_is_lost_is_found_by_looking() {
    let wire = Wire::start().await;
    let held = wire.direct.mutex(NAME).ttl(LONG).lock().await.unwrap();
    let waiting = waiter(&wire.client, NAME, LONG);
    until_waiting(&wire.direct, NAME, 1).await;
    wire.proxy.set(Fault::LoseReplies);
    held.release().await.unwrap();
    until("the message to be lost", async || {
        wire.proxy.replies_swallowed() > 0
    })
    .await;
    wire.proxy.set(Fault::Pass);
    let lost = Instant::now();
    let guard = got(waiting).await;
    println!("found after {:?}", lost.elapsed());
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
}

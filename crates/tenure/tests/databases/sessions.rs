//! Sessions that the server ends, and sessions that it has no room for.

use tenure::{Client, Error, Health, Outcome};

use crate::databases::crashes::until_released;
use crate::databases::{
    LONG, chain, ends_by, got, millis, open, open_hasty, until, until_granted, until_longer_than,
    until_waiting, waiter, with,
};
use crate::{Server, dialect};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_are_ended_cost_neither_the_lease_nor_the_place() {
    let server = Server::start().unwrap();
    let (ann, bob) = (open(&server.url()).await, open(&server.url()).await);
    let held = ann.mutex("a").ttl(millis(9000)).lock().await.unwrap();
    let waiting = waiter(&bob, "a", LONG);
    until_waiting(&ann, "a", 1).await;
    for _ in 0..3 {
        let end = ends_by(&held);
        assert!(dialect::end_sessions(&server) > 0);
        until_longer_than(end, &held).await;
        assert_eq!(held.health(), Health::Held);
    }
    until_waiting(&ann, "a", 1).await;
    assert_eq!(held.release().await.unwrap(), Outcome::Released);
    let next = got(waiting).await;
    assert_eq!(next.release().await.unwrap(), Outcome::Released);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_ended_while_it_waits_is_made_again() {
    let server = Server::start().unwrap();
    let (ann, bob) = (open(&server.url()).await, open(&server.url()).await);
    let held = ann.mutex("a").ttl(LONG).lock().await.unwrap();
    let waiting = waiter(&bob, "a", LONG);
    until("a mailbox", async || dialect::mailboxes(&server) == 1).await;
    dialect::end_sessions(&server);
    // At once, while the waiter may be taken for gone.
    until_released(held).await;
    let next = got(waiting).await;
    until_released(next).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_full_says_so_and_serves_again_when_it_has_room() {
    let server = Server::builder().max_connections(MOST).start().unwrap();
    let one = with(&server.url(), "connections=1");
    let held = open(&one).await;
    let guard = held.mutex("a").ttl(LONG).lock().await.unwrap();
    let crowd = fill(&one).await;
    let error = tenure::open(&one).await.unwrap_err();
    let text = chain(&error);
    println!("{text}");
    assert!(matches!(error, Error::Unavailable { .. }), "{text}");
    assert!(error.may_pass(), "{text}");
    assert!(text.contains("no connection left"), "{text}");
    assert!(!text.contains('\n'), "{text}");
    // Who is in goes on.
    assert!(held.mutex("b").try_lock().await.unwrap().is_some());
    assert_eq!(guard.health(), Health::Held);
    drop(crowd);
    let mut other = None;
    until("room", async || {
        other = tenure::open(&one).await.ok();
        other.is_some()
    })
    .await;
    until_released(guard).await;
    until_granted(&other.unwrap(), "a").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_for_whose_mailbox_there_is_no_room_gets_the_lock_by_looking() {
    let server = Server::builder().max_connections(MOST).start().unwrap();
    let one = with(&server.url(), "connections=1");
    let (ann, bob) = (open(&one).await, open(&one).await);
    let held = ann.mutex("a").ttl(LONG).lock().await.unwrap();
    let crowd = fill(&one).await;
    let waiting = waiter(&bob, "a", LONG);
    until_waiting(&ann, "a", 1).await;
    assert_eq!(held.release().await.unwrap(), Outcome::Released);
    let next = got(waiting).await;
    drop(crowd);
    assert_eq!(next.release().await.unwrap(), Outcome::Released);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_had_no_room_for_its_mailbox_makes_one_later() {
    let server = Server::builder().max_connections(MOST).start().unwrap();
    let one = with(&server.url(), "connections=1");
    let (ann, bob) = (open(&one).await, open(&one).await);
    let held = ann.mutex("a").ttl(LONG).lock().await.unwrap();
    let crowd = fill(&one).await;
    let waiting = waiter(&bob, "a", LONG);
    until_waiting(&ann, "a", 1).await;
    drop(crowd);
    until("a mailbox, and nothing that polls", async || {
        dialect::mailboxes(&server) == 1 && dialect::pollers(&server) == 0
    })
    .await;
    assert_eq!(held.release().await.unwrap(), Outcome::Released);
    assert_eq!(
        got(waiting).await.release().await.unwrap(),
        Outcome::Released
    );
}

/// Takes all connections that are left.
async fn fill(url: &str) -> Vec<Client> {
    let mut crowd = Vec::new();
    while let Ok(client) = tenure::open(url).await {
        crowd.push(client);
    }
    assert!(!crowd.is_empty());
    crowd
}

/// Few enough to be taken quickly; PostgreSQL keeps three of them for the admin.
const MOST: u32 = 12;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_the_server_ends_when_they_idle_are_not_noticed() {
    let server = dialect::short_idle(Server::builder()).start().unwrap();
    let client = open_hasty(&server.url()).await;
    let guard = client.mutex("a").ttl(LONG).lock().await.unwrap();
    let begun = std::time::Instant::now();
    until("idle sessions to be over", async || {
        begun.elapsed() > millis(2500)
    })
    .await;
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
}

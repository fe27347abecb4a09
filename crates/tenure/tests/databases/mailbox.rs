//! The connection on which a client hears: only while it waits, and found again after faults.

use tenure::Outcome;
use tenure::driver::{Answer, Claim, News, Wait};
use tokio::time::timeout;

use crate::databases::{LONG, PATIENCE, got, millis, open, until, until_waiting, waiter, with};
use crate::{Server, dialect};

async fn until_mailboxes(server: &Server, count: usize) {
    until(&format!("{count} mailboxes"), async || {
        dialect::mailboxes(server) == count
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mailbox_closes_when_its_waiter_was_served() {
    let server = Server::start().unwrap();
    let (ann, bob) = (open(&server.url()).await, open(&server.url()).await);
    let held = ann.mutex("a").ttl(LONG).lock().await.unwrap();
    let waiting = waiter(&bob, "a", LONG);
    until_mailboxes(&server, 1).await;
    held.release().await.unwrap();
    let guard = got(waiting).await;
    until_mailboxes(&server, 0).await;
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mailbox_closes_when_its_waiter_has_given_up() {
    let server = Server::start().unwrap();
    let (ann, bob) = (open(&server.url()).await, open(&server.url()).await);
    let held = ann.mutex("a").ttl(LONG).lock().await.unwrap();
    for _ in 0..2 {
        let given_up = waiter(&bob, "a", LONG);
        until_waiting(&ann, "a", 1).await;
        until_mailboxes(&server, 1).await;
        given_up.abort();
        until_waiting(&ann, "a", 0).await;
        until_mailboxes(&server, 0).await;
    }
    // It can be opened again.
    let waiting = waiter(&bob, "a", LONG);
    until_waiting(&ann, "a", 1).await;
    held.release().await.unwrap();
    got(waiting).await.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mailbox_closes_when_what_was_kept_is_given_back() {
    let server = Server::start().unwrap();
    let (ann, bob) = (open(&server.url()).await, open(&server.url()).await);
    let kept = ann.mutex("a").ttl(LONG).keep(LONG);
    kept.lock().await.unwrap().release().await.unwrap();
    until_mailboxes(&server, 1).await;
    // Called back, since somebody else wants it.
    let guard = bob.mutex("a").lock_timeout(LONG).await.unwrap();
    until_mailboxes(&server, 0).await;
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_interest_stays_behind_after_faults() {
    let server = Server::start().unwrap();
    let (ann, bob) = (open(&server.url()).await, open(&server.url()).await);
    let held = ann.mutex("a").ttl(LONG).lock().await.unwrap();
    for round in 0..5 {
        let lock = bob.mutex("a").ttl(LONG).keep(LONG);
        let hurry = lock.lock_timeout(millis(30 * round)).await;
        assert!(hurry.is_err());
        dialect::end_sessions(&server);
        // A fault or none.
        let _ = lock.try_lock().await;
    }
    until_mailboxes(&server, 0).await;
    assert_ne!(held.health(), tenure::Health::AtRisk);
}

/// Waiters come and go just when the mailbox is about to close.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_comes_as_the_mailbox_closes_is_heard_of() {
    let server = Server::start().unwrap();
    let (ann, bob) = (open(&server.url()).await, open(&server.url()).await);
    for offset in [4990, 5000, 5010] {
        let held = ann.mutex("a").ttl(LONG).lock().await.unwrap();
        let first = waiter(&bob, "a", LONG);
        until_waiting(&ann, "a", 1).await;
        held.release().await.unwrap();
        let guard = got(first).await;
        let begun = std::time::Instant::now();
        until("the mailbox to be about to close", async || {
            begun.elapsed() >= millis(offset)
        })
        .await;
        let second = waiter(&ann, "a", LONG);
        until_waiting(&bob, "a", 1).await;
        guard.release().await.unwrap();
        got(second).await.release().await.unwrap();
    }
}

/// Also if the claim is asked for again, and the rows are looked at again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_called_back_once_however_long_it_is_kept() {
    let server = Server::start().unwrap();
    let url = crate::databases::patient(&server.url());
    let (ann, bob) = (
        crate::open_driver(&url).await.unwrap(),
        crate::open_driver(&url).await.unwrap(),
    );
    let claim = || Claim::new("a".parse().unwrap(), LONG);
    let hers = claim().told_if_wanted();
    assert!(matches!(ann.acquire(&hers).await, Ok(Answer::Granted(_))));
    let his = claim().with_wait(Wait::InLine);
    assert!(matches!(bob.acquire(&his).await, Ok(Answer::Queued { .. })));
    let called = timeout(PATIENCE, ann.news()).await.unwrap();
    assert!(matches!(called, News::Wanted { .. }), "{called:?}");
    assert!(matches!(ann.acquire(&hers).await, Ok(Answer::Granted(_))));
    // Longer than it takes until the rows are looked at.
    let again = timeout(millis(3000), ann.news()).await;
    assert!(again.is_err(), "{again:?}");
    bob.withdraw(&his).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_different_users_wake_each_other() {
    let other = dialect::everything_in_the_table(Server::builder(), "other");
    let server = other.start().unwrap();
    let ann = open(&server.url()).await;
    let held = ann.mutex("a").ttl(LONG).lock().await.unwrap();
    dialect::grant_the_table(&server, "other");
    let bob = open(&server.url_as("other", "secret")).await;
    for _ in 0..3 {
        let waiting = waiter(&bob, "a", LONG);
        until_waiting(&ann, "a", 1).await;
        waiting.abort();
        until_waiting(&ann, "a", 0).await;
    }
    let waiting = waiter(&bob, "a", LONG);
    until_waiting(&ann, "a", 1).await;
    held.release().await.unwrap();
    got(waiting).await.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_for_statements_does_not_end_the_wait() {
    let server = dialect::short_statements(Server::builder());
    let server = server.start().unwrap();
    let (ann, bob) = (
        open(&with(&server.url(), "connections=1")).await,
        open(&server.url()).await,
    );
    let held = ann.mutex("a").ttl(LONG).lock().await.unwrap();
    let waiting = waiter(&bob, "a", LONG);
    until_mailboxes(&server, 1).await;
    let begun = std::time::Instant::now();
    until("some limits to be over", async || {
        begun.elapsed() > millis(2500)
    })
    .await;
    assert_eq!(dialect::pollers(&server), 0);
    held.release().await.unwrap();
    got(waiting).await.release().await.unwrap();
}

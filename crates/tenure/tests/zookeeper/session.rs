//! Sessions that expire, connections that break, and answers that are lost.

use tenure::{Loss, Outcome};
use tenure_testkit::{Fault, Proxy, ZooKeeperServer};

use crate::common::{
    entry, fresh, got, lost, open, open_hasty, until, until_free, until_held, until_waiting,
    waiter, with,
};

#[tokio::test]
async fn a_session_that_expires_loses_all_its_locks_before_others_get_them() {
    let server = ZooKeeperServer::start().unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    let ann = open_hasty(&server.url_on(proxy.port()), "session=2s").await;
    let bob = open(&server.url()).await;
    let one = ann.mutex("one").lock().await.unwrap();
    let two = ann.mutex("two").lock().await.unwrap();
    let waiting = waiter(&bob, "one");
    until_waiting(&bob, "one", 1).await;
    proxy.set(Fault::Refuse);
    proxy.cut();
    // Told by its own clock: it cannot ask.
    assert_eq!(lost(&one).await, Loss::Unreachable);
    assert!(
        !waiting.is_finished(),
        "another one has it before the loss was told"
    );
    assert_eq!(lost(&two).await, Loss::Unreachable);
    let next = got(waiting).await;
    assert!(next.fence() > one.fence());
    proxy.set(Fault::Pass);
    // A new session begins, and everything works again.
    let again = got(waiter(&ann, "two")).await;
    assert!(again.fence() > two.fence());
    assert!(matches!(one.release().await, Ok(Outcome::NotHeld(_))));
    assert_eq!(entry(&bob, "one").await.holders[0].fence, next.fence());
}

#[tokio::test]
async fn a_waiter_whose_session_expires_stands_in_line_again() {
    let server = ZooKeeperServer::start().unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    let ann = open(&server.url()).await;
    let bob = open_hasty(&server.url_on(proxy.port()), "session=2s").await;
    let held = ann.mutex("a").lock().await.unwrap();
    let waiting = waiter(&bob, "a");
    until_waiting(&ann, "a", 1).await;
    proxy.set(Fault::Refuse);
    proxy.cut();
    // The servers have ended the session, and its place in line with it.
    until_waiting(&ann, "a", 0).await;
    proxy.set(Fault::Pass);
    until_waiting(&ann, "a", 1).await;
    held.release().await.unwrap();
    let next = got(waiting).await;
    next.release().await.unwrap();
    until_free(&ann, "a").await;
}

#[tokio::test]
async fn a_connection_that_breaks_costs_neither_lock_nor_place() {
    let server = ZooKeeperServer::start().unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    let url = server.url_on(proxy.port());
    let (ann, bob) = (open(&url).await, open(&url).await);
    let held = ann.mutex("a").lock().await.unwrap();
    let waiting = waiter(&bob, "a");
    until_waiting(&ann, "a", 1).await;
    for _ in 0..3 {
        let before = proxy.connections_accepted();
        proxy.cut();
        until("both to connect again", async || {
            proxy.connections_accepted() >= before + 2
        })
        .await;
        until_held(&held).await;
        until_waiting(&ann, "a", 1).await;
    }
    held.release().await.unwrap();
    got(waiting).await.release().await.unwrap();
    until_free(&ann, "a").await;
}

#[tokio::test]
async fn a_create_whose_answer_is_lost_leaves_one_node_and_one_lock() {
    let server = ZooKeeperServer::start().unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    let (ann, bob) = (
        open(&server.url_on(proxy.port())).await,
        open(&server.url()).await,
    );
    for _ in 0..3 {
        let swallowed = proxy.replies_swallowed();
        proxy.lose_reply_then_cut(b"/tenure_");
        let held = got(waiter(&ann, "a")).await;
        assert_eq!(proxy.replies_swallowed(), swallowed + 1);
        let found = entry(&bob, "a").await;
        assert_eq!(
            (found.holders.len(), found.waiters.len()),
            (1, 0),
            "{found:?}"
        );
        assert_eq!(found.holders[0].fence, held.fence());
        held.release().await.unwrap();
        until_free(&bob, "a").await;
    }
}

#[tokio::test]
async fn a_place_in_line_whose_answer_is_lost_is_found_again() {
    let server = ZooKeeperServer::start().unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    let (ann, bob) = (
        open(&server.url()).await,
        open(&server.url_on(proxy.port())).await,
    );
    let held = ann.mutex("a").lock().await.unwrap();
    proxy.lose_reply_then_cut(b"/tenure_");
    let waiting = waiter(&bob, "a");
    until("the answer to be lost", async || {
        proxy.replies_swallowed() == 1
    })
    .await;
    until_waiting(&ann, "a", 1).await;
    held.release().await.unwrap();
    got(waiting).await.release().await.unwrap();
    until_free(&ann, "a").await;
}

#[tokio::test]
async fn a_delete_whose_answer_is_lost_is_a_release() {
    let server = ZooKeeperServer::start().unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    let (ann, bob) = (
        open(&server.url_on(proxy.port())).await,
        open(&server.url()).await,
    );
    let held = ann.mutex("a").lock().await.unwrap();
    let next = waiter(&bob, "a");
    until_waiting(&bob, "a", 1).await;
    proxy.lose_reply_then_cut(b"-lock-00");
    // The answer is lost, or the retry finds that it was done.
    let _ = held.release().await;
    assert_eq!(proxy.replies_swallowed(), 1);
    let next = got(next).await;
    ann.settled().await;
    assert_eq!(entry(&bob, "a").await.holders[0].fence, next.fence());
    next.release().await.unwrap();
    until_free(&bob, "a").await;
}

#[tokio::test]
async fn a_session_that_the_servers_do_not_allow_is_refused_with_their_limit() {
    let server = ZooKeeperServer::builder().setting("maxSessionTimeout", "4000");
    let server = server.start().unwrap();
    for (asked, limit) in [
        ("session=60s", "at most 4s"),
        ("session=10ms", "at least 400ms"),
    ] {
        let error = tenure::open(&with(&server.url(), asked)).await.unwrap_err();
        let text = crate::common::chain(&error);
        assert!(text.contains(limit), "{text}");
        assert!(!error.may_pass());
    }
    // Without a wish the session is as long as they allow, and so are the leases.
    let ann = open(&server.url()).await;
    let held = ann.mutex("a").lock().await.unwrap();
    assert!(
        held.time_left().as_secs_f64() <= 2.0,
        "{:?}",
        held.time_left()
    );
    held.release().await.unwrap();
}

#[tokio::test]
async fn a_program_that_ends_frees_its_locks() {
    let server = ZooKeeperServer::start().unwrap();
    let (url, name) = (server.url(), fresh("end"));
    let bob = open(&url).await;
    let at = (url.clone(), name.clone());
    // A runtime of its own, which ends while the lock is held and before anything was released.
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(async {
            let ann = open(&at.0).await;
            let guard = ann.mutex(&at.1).lock().await.unwrap();
            drop(guard);
        });
    });
    thread.join().unwrap();
    // Far less than its session of 40 s.
    let lock = bob.mutex(&name);
    let guard = tokio::time::timeout(std::time::Duration::from_secs(20), lock.lock());
    let guard = guard.await.expect("it is free before the session ends");
    guard.unwrap().release().await.unwrap();
}

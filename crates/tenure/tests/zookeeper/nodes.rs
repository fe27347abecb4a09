//! What is in ZooKeeper: paths, rights, TLS, and what is left behind.

use std::time::Duration;

use tenure::guarded::NodeWrite;
use tenure::{Error, Loss};
use tenure_testkit::{Certificate, ClientCertificate, Fault, Proxy, ZooKeeperServer, shared};

use crate::common::{
    chain, entry, fresh, got, lost, open, open_hasty, open_with, until, until_waiting, waiter, with,
};

#[tokio::test]
async fn hostile_names_are_locks_of_their_own() {
    let locks = open(&shared::zookeeper().unwrap()).await;
    let base = fresh("hostile");
    let names = [
        ".",
        "..",
        "/",
        "//",
        "/zookeeper",
        "a/../b",
        "🔒",
        "\u{e000}",
        "\u{ffff}",
        "%2F",
        "zookeeper",
    ];
    let mut guards = Vec::new();
    for tail in names {
        for name in [format!("{base}{tail}"), format!("{tail}{base}")] {
            let guard = locks.mutex(&name).try_lock().await.unwrap();
            guards.push(guard.expect("nobody has it"));
            assert_eq!(entry(&locks, &name).await.holders.len(), 1, "{name}");
        }
    }
    for name in [".", ".."] {
        let guard = locks.mutex(name).lock().await.unwrap();
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn the_node_of_a_name_that_nobody_uses_is_deleted() {
    let server = ZooKeeperServer::start().unwrap();
    let locks = open(&server.url()).await;
    let guard = locks.mutex("a").lock().await.unwrap();
    let node = guard.node().unwrap();
    let (parent, _) = node.rsplit_once('/').unwrap();
    let probe = locks.mutex("b").lock().await.unwrap();
    let is_there = async || {
        // Deletes nothing: the node has another version.
        let write = [NodeWrite::delete(parent).at_version(77)];
        let error = probe.write_nodes(&write).await.unwrap_err();
        let text = chain(&error);
        assert!(matches!(error, Error::Conflict { .. }), "{text}");
        text.contains("another version")
    };
    assert!(is_there().await);
    guard.release().await.unwrap();
    until("the empty node to be deleted", async || !is_there().await).await;
    // The name works as before.
    locks
        .mutex("a")
        .lock()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
}

#[tokio::test]
async fn a_root_that_somebody_deletes_is_made_again() {
    let server = ZooKeeperServer::start().unwrap();
    let locks = open(&server.url()).await;
    let other = open(&server.url().replace("/tenure", "/other/place")).await;
    let probe = other.mutex("p").lock().await.unwrap();
    until("the root to be empty", async || {
        let gone = probe.write_nodes(&[NodeWrite::delete("/tenure")]).await;
        gone.is_ok()
    })
    .await;
    let guard = locks.mutex("a").lock().await.unwrap();
    assert!(guard.node().unwrap().starts_with("/tenure/a/"));
}

#[tokio::test]
async fn locks_of_a_user_are_closed_to_others() {
    let server = ZooKeeperServer::start().unwrap();
    let ann = open(&server.url_as("ann", "p@ss:word")).await;
    let guard = ann.mutex("a").lock().await.unwrap();
    for url in [
        server.url(),
        server.url_as("ann", "wrong"),
        server.url_as("bob", "x"),
    ] {
        let other = open(&url).await;
        let error = other.mutex("a").try_lock().await.unwrap_err();
        assert!(chain(&error).contains("NoAuth"), "{}", chain(&error));
        assert!(!error.may_pass());
        assert!(other.evict(guard.name()).await.is_err());
    }
    let same = open(&server.url_as("ann", "p@ss:word")).await;
    assert!(same.mutex("a").try_lock().await.unwrap().is_none());
    guard.release().await.unwrap();
    assert!(same.mutex("a").try_lock().await.unwrap().is_some());
}

#[tokio::test]
async fn tls_needs_a_certificate_that_is_trusted() {
    let tls = (Certificate::Valid, ClientCertificate::Required);
    let server = ZooKeeperServer::builder()
        .tls(tls.0, tls.1)
        .start()
        .unwrap();
    let files = server.tls().unwrap();
    let own = format!(
        "ca={}&cert={}&key={}&timeout=20s&connect_timeout=20s",
        files.ca().display(),
        files.client_certificate().display(),
        files.client_key().display()
    );
    let locks = open_with(&server.url(), &own).await;
    let guard = locks.mutex("a").lock().await.unwrap();
    guard.release().await.unwrap();
    let stranger = tenure::open(&with(&server.url(), "connect_timeout=20s")).await;
    let error = stranger.unwrap_err();
    assert!(!error.may_pass(), "{}", chain(&error));
}

#[tokio::test]
async fn an_eviction_by_hand_is_noticed() {
    let server = ZooKeeperServer::start().unwrap();
    let (ann, bob) = (open(&server.url()).await, open(&server.url()).await);
    let held = ann.mutex("a").lock().await.unwrap();
    let waiting = waiter(&bob, "a");
    until_waiting(&ann, "a", 1).await;
    // As `deleteall` of another program would.
    let probe = bob.mutex("p").lock().await.unwrap();
    let node = held.node().unwrap();
    probe
        .write_nodes(&[NodeWrite::delete(&node)])
        .await
        .unwrap();
    assert_eq!(lost(&held).await, Loss::Evicted);
    got(waiting).await.release().await.unwrap();
}

#[tokio::test]
async fn guarded_writes_are_all_or_nothing() {
    let locks = open(&shared::zookeeper().unwrap()).await;
    let guard = locks.mutex(&fresh("guarded")).lock().await.unwrap();
    let path = format!("/{}", fresh("guarded"));
    let make = NodeWrite::create(&path, "1");
    guard
        .write_nodes(std::slice::from_ref(&make))
        .await
        .unwrap();
    let set = NodeWrite::set(&path, "2").at_version(0);
    let conflict = guard.write_nodes(&[set.clone(), make]).await.unwrap_err();
    assert!(matches!(conflict, Error::Conflict { .. }), "{conflict}");
    // Nothing of it was written: the version is still the first.
    guard.write_nodes(&[set]).await.unwrap();
    guard
        .write_nodes(&[NodeWrite::delete(&path).at_version(1)])
        .await
        .unwrap();
    let memory = tenure::open("memory:").await.unwrap();
    let other = memory.mutex("a").lock().await.unwrap();
    assert_eq!(other.node(), None);
    let unsupported = other.write_nodes(&[]).await.unwrap_err();
    assert!(matches!(unsupported, Error::Unsupported { .. }));
}

/// The request of a holder is held up until its lock is over and another one has it: it changes nothing.
#[tokio::test]
async fn a_late_write_of_a_holder_whose_lock_is_over_changes_nothing() {
    let server = ZooKeeperServer::start().unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    let ann = open_hasty(&server.url_on(proxy.port()), "session=2s").await;
    let bob = open(&server.url()).await;
    let old = ann.mutex("a").lock().await.unwrap();
    old.write_nodes(&[NodeWrite::create("/data", "by ann")])
        .await
        .unwrap();
    let waiting = waiter(&bob, "a");
    until_waiting(&bob, "a", 1).await;
    proxy.set(Fault::Freeze);
    let late = [NodeWrite::set("/data", "by ann again")];
    let written = async {
        // It believes that it holds the lock, and its request is under way.
        let written = old.write_nodes(&late).await;
        assert!(written.is_err(), "it cannot have an answer");
    };
    let took_over = async {
        let new = got(waiting).await;
        // Version 0: nobody has written since.
        let write = NodeWrite::set("/data", "by bob").at_version(0);
        new.write_nodes(&[write]).await.unwrap();
        proxy.set(Fault::Pass);
        new
    };
    let ((), new) = tokio::join!(written, took_over);
    // What was held up has arrived by now, or will; the node stays as it is.
    let error = old.write_nodes(&late).await.unwrap_err();
    assert!(matches!(error, Error::Lost { .. }), "{error}");
    tokio::time::timeout(Duration::from_secs(30), async {
        ann.mutex("b")
            .lock()
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
    })
    .await
    .unwrap();
    let unchanged = NodeWrite::set("/data", "by bob").at_version(1);
    new.write_nodes(&[unchanged]).await.unwrap();
}

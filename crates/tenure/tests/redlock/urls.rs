//! What a URL can specify about nodes, and what is refused with an error message.

use tenure::Error;
use tenure_testkit::{Certificate, ClientCertificate, RedisServer};

use crate::nodes::Nodes;
use crate::{chain, millis, open, take_turns};

/// Returns how often a node was asked for its vote.
fn scripts(server: &RedisServer) -> usize {
    let stats = server.cli(&["INFO", "commandstats"]);
    stats.lines().filter(|line| line.contains("eval")).count()
}

#[tokio::test]
async fn each_node_has_its_own_way() {
    let first = RedisServer::builder().password("one,1@:/?%").start();
    let tls = RedisServer::builder()
        .password("two")
        .tls(Certificate::Valid, ClientCertificate::NotAsked)
        .start();
    let socket = RedisServer::builder().unix_socket().start();
    let (first, tls, socket) = (first.unwrap(), tls.unwrap(), socket.unwrap());
    let url = format!(
        "redlock://{},{}?ca={},unix:{}?restart_delay=off",
        first.url().trim_start_matches("redis://"),
        tls.url(),
        tls.tls().unwrap().ca().display(),
        socket.socket().unwrap().display(),
    );
    let (ann, bob) = (open(&url).await, open(&url).await);
    take_turns(&ann, &bob, "a").await;
    for server in [&first, &tls, &socket] {
        assert!(scripts(server) > 0, "it was not asked");
    }
    // A majority needs two of them, so each pair of kinds works for locks.
    for away in [&first, &tls, &socket] {
        away.freeze().unwrap();
        take_turns(&ann, &bob, "a").await;
        away.thaw().unwrap();
    }
    assert!(!format!("{ann:?}").contains("two"));
}

fn secured(count: usize) -> Nodes {
    Nodes::start_as(count, &RedisServer::builder().password("secret"))
}

fn url(nodes: &Nodes, passwords: [&str; 3]) -> String {
    let nodes = nodes.0.iter().zip(passwords);
    let nodes: Vec<_> = nodes
        .map(|(server, password)| format!(":{password}@127.0.0.1:{}", server.port()))
        .collect();
    format!("redlock://{}?restart_delay=off", nodes.join(","))
}

#[tokio::test]
async fn a_wrong_password_at_one_of_three_is_borne() {
    let nodes = secured(3);
    let url = url(&nodes, ["secret", "secret-wrong", "secret"]);
    let (ann, bob) = (open(&url).await, open(&url).await);
    take_turns(&ann, &bob, "a").await;
    assert_eq!(scripts(&nodes.0[1]), 0);
    nodes.until_all_empty().await;
}

#[tokio::test]
async fn a_wrong_password_at_two_of_three_is_told_without_a_password() {
    let nodes = secured(3);
    let url = url(&nodes, ["secret", "secret-wrong", "secret-wrong"]);
    let error = tenure::open(&url).await.unwrap_err();
    let text = chain(&error);
    assert!(matches!(error, Error::Unavailable { .. }), "{text}");
    assert!(
        text.contains("1 of 3 nodes can vote, 2 are needed"),
        "{text}"
    );
    for node in [1, 2] {
        let place = format!("127.0.0.1:{}", nodes.0[node].port());
        assert!(text.contains(&place), "{text}");
    }
    assert!(text.contains("password is wrong"), "{text}");
    assert!(!format!("{text} {error:?}").contains("secret"), "{error:?}");
    assert!(!text.contains('\n'), "{text}");
}

#[tokio::test]
async fn nodes_that_are_down_at_the_start_join_later() {
    let mut nodes = Nodes::start(3);
    nodes.0[0].kill().unwrap();
    nodes.0[1].kill().unwrap();
    let error = tenure::open(&nodes.url()).await.unwrap_err();
    let text = chain(&error);
    assert!(text.contains("1 of 3 nodes can vote"), "{text}");
    nodes.0[1].start_again().unwrap();
    let (ann, bob) = (open(&nodes.url()).await, open(&nodes.url()).await);
    take_turns(&ann, &bob, "a").await;
    nodes.0[0].start_again().unwrap();
    crate::until("the node to be asked", async || {
        take_turns(&ann, &bob, "a").await;
        scripts(&nodes.0[0]) > 0
    })
    .await;
    nodes.0[2].kill().unwrap();
    take_turns(&ann, &bob, "a").await;
}

#[tokio::test]
async fn permits_are_refused_with_a_sentence() {
    let nodes = Nodes::start(3);
    let client = open(&nodes.url()).await;
    let permit = client.semaphore("a", 3).take(1);
    for error in [
        permit.try_lock().await.map(drop).unwrap_err(),
        permit.lock().await.map(drop).unwrap_err(),
    ] {
        let text = chain(&error);
        assert!(
            matches!(
                error,
                Error::Unsupported {
                    driver: "redlock",
                    ..
                }
            ),
            "{text}"
        );
        assert!(text.contains("permits: use a mutex"), "{text}");
    }
    nodes.until_all_empty().await;
}

#[tokio::test]
async fn a_ttl_longer_than_restart_delay_is_refused_with_a_sentence() {
    let nodes = Nodes::start(3);
    let client = open(&nodes.url_with("restart_delay=2s")).await;
    for ttl in [2000, 2001, 60_000] {
        let lock = client.mutex("a").ttl(millis(ttl));
        let error = lock.try_lock().await.map(drop).unwrap_err();
        let text = chain(&error);
        assert!(
            matches!(error, Error::InvalidOption { option: "ttl", .. }),
            "{text}"
        );
        assert!(text.contains("10ms to 1.999s"), "{text}");
    }
    // The default delay is long enough for the default ttl, so the error is a different one.
    let client = open(&nodes.url_with("drift=1%25")).await;
    let error = client.mutex("a").try_lock().await.map(drop).unwrap_err();
    let text = chain(&error);
    assert!(text.contains("restarted recently"), "{text}");
    let lock = client.mutex("a").ttl(millis(60_001));
    let error = lock.try_lock().await.map(drop).unwrap_err();
    assert!(matches!(error, Error::InvalidOption { .. }), "{error}");
    nodes.until_all_empty().await;
}

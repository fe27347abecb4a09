//! Grants that replicas must confirm.

use tenure::{Error, Outcome};
use tenure_testkit::{Fault, Proxy, RedisCluster, RedisServer, slot_of};
use tokio::time::timeout;

use crate::cluster;
use crate::storms::calls;
use crate::{LONG, PATIENCE, chain, open, until, until_free, until_waiting};

/// Waits until both sides know of each other; the master notices it up to a second later.
async fn until_followed(server: &RedisServer, replica: &RedisServer) {
    replica.wait_until_linked().unwrap();
    // A write to confirm; otherwise the replica would report nothing for ten seconds.
    server.cli(&["SET", "probe", "1"]);
    until("the replica to be online", async || {
        let seen = server.cli(&["INFO", "replication"]);
        seen.contains("state=online") && !seen.contains(",offset=0,")
    })
    .await;
}

#[tokio::test]
async fn a_grant_is_in_the_replica_when_it_is_told() {
    let server = RedisServer::start().unwrap();
    let replica = RedisServer::builder()
        .replica_of(server.port())
        .start()
        .unwrap();
    until_followed(&server, &replica).await;
    let client = open(&format!("{}?replicas=1", server.url())).await;
    let other = open(&format!("{}?replicas=1", server.url())).await;
    for round in 0..50 {
        let name = format!("a{round}");
        let guard = client.mutex(&name).ttl(LONG).lock().await.unwrap();
        assert_eq!(replica.cli(&["EXISTS", &format!("tenure:{{{name}}}")]), "1");
        guard.release().await.unwrap();
    }
    let held = client.mutex("a").ttl(LONG).lock().await.unwrap();
    let waiting = other.mutex("a").ttl(LONG);
    let waiting = tokio::spawn(async move { waiting.lock().await });
    until_waiting(&client, "a", 1).await;
    let older = held.fence();
    held.release().await.unwrap();
    let next = timeout(PATIENCE, waiting).await.unwrap().unwrap().unwrap();
    assert!(older < next.fence());
    let left: u128 = replica.cli(&["PTTL", "tenure:{a}"]).parse().unwrap();
    assert!(
        left > LONG.as_millis() / 2,
        "the confirmed lease has its whole ttl: {left}"
    );
    assert_eq!(next.release().await.unwrap(), Outcome::Released);
}

#[tokio::test]
async fn too_few_replicas_are_an_error_and_nothing_stays_held() {
    let server = RedisServer::start().unwrap();
    let replica = RedisServer::builder()
        .replica_of(server.port())
        .start()
        .unwrap();
    until_followed(&server, &replica).await;
    let url = format!("{}?replicas=2&replicas_timeout=100ms", server.url());
    let client = open(&url).await;
    let lock = client.mutex("a").ttl(LONG);
    for tries in [false, true] {
        let error = match tries {
            true => lock.try_lock().await.unwrap_err(),
            false => lock.lock().await.unwrap_err(),
        };
        let text = chain(&error);
        assert!(matches!(error, Error::Indeterminate { .. }), "{text}");
        assert!(text.contains("of 2 replicas confirmed"), "{text}");
        until_free(&client, "a").await;
    }
}

#[tokio::test]
async fn a_replica_that_does_not_follow_confirms_nothing() {
    let (server, proxy, replica) = replicated().await;
    let url = format!("{}?replicas=1&replicas_timeout=100ms", server.url());
    let client = open(&url).await;
    client
        .mutex("a")
        .lock()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    proxy.set(Fault::Freeze);
    let error = client.mutex("b").ttl(LONG).lock().await.unwrap_err();
    assert!(
        chain(&error).contains("0 of 1 replicas"),
        "{}",
        chain(&error)
    );
    assert_eq!(replica.cli(&["EXISTS", "tenure:{b}"]), "0");
    until_free(&client, "b").await;
    proxy.set(Fault::Pass);
    let guard = client.mutex("b").ttl(LONG).lock().await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
}

/// Returns a server whose replica follows it through a proxy.
async fn replicated() -> (RedisServer, Proxy, RedisServer) {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    let replica = RedisServer::builder().replica_of(proxy.port());
    let replica = replica.start().unwrap();
    until_followed(&server, &replica).await;
    (server, proxy, replica)
}

/// The client that hands over may not know that replicas must confirm.
#[tokio::test]
async fn a_grant_that_was_handed_over_by_a_client_without_replicas_is_confirmed_too() {
    let (server, proxy, replica) = replicated().await;
    let plain = open(&server.url()).await;
    let url = format!("{}?replicas=1&replicas_timeout=100ms", server.url());
    let careful = open(&url).await;
    // The server knows the script of the release, so that a single request hands over.
    let warm = plain.mutex("a").lock().await.unwrap();
    warm.release().await.unwrap();
    let held = plain.mutex("a").ttl(LONG).lock().await.unwrap();
    let lock = careful.mutex("a").ttl(LONG);
    let waiting = tokio::spawn(async move { lock.lock().await });
    until_waiting(&plain, "a", 1).await;
    proxy.set(Fault::Freeze);
    let before = calls(&server, "wait");
    assert_eq!(held.release().await.unwrap(), Outcome::Released);
    until("the grant to be told", async || {
        waiting.is_finished() || calls(&server, "wait") > before
    })
    .await;
    let granted = calls(&server, "wait") == before;
    assert!(!granted, "granted although no replica has it");
    proxy.set(Fault::Pass);
    let guard = match timeout(PATIENCE, waiting).await.unwrap().unwrap() {
        Ok(guard) => guard,
        // If the machine stalls, waiting for the replica takes too long.
        Err(error) => {
            assert!(chain(&error).contains("of 1 replicas"), "{}", chain(&error));
            careful.mutex("a").ttl(LONG).lock().await.unwrap()
        }
    };
    assert_eq!(replica.cli(&["EXISTS", "tenure:{a}"]), "1");
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
}

/// The replicas of the master of the name's slot count.
#[tokio::test]
async fn in_a_cluster_the_replicas_of_the_names_own_master_confirm() {
    let cluster = RedisCluster::start(3, 1).unwrap();
    let url = format!(
        "{}?replicas=1&replicas_timeout=300ms",
        cluster::url(&cluster)
    );
    let client = open(&url).await;
    let name_of = |master: usize| {
        let names = (0..100).map(|number| format!("n{number}"));
        let mut own = names.filter(|name| {
            let slot = slot_of(&format!("tenure:{{{name}}}"));
            cluster.master_of(slot).unwrap() == master
        });
        own.next().unwrap()
    };
    let names = [name_of(0), name_of(1), name_of(2)];
    for (master, name) in names.iter().enumerate() {
        let guard = client.mutex(name).ttl(LONG).lock().await.unwrap();
        let key = format!("tenure:{{{name}}}");
        let keys = cluster.server(master + 3).cli(&["KEYS", "*"]);
        assert!(keys.lines().any(|other| other == key), "{keys}");
        assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    }
    cluster.server(3).freeze().unwrap();
    for _ in 0..3 {
        let error = client
            .mutex(&names[0])
            .ttl(LONG)
            .try_lock()
            .await
            .unwrap_err();
        assert!(
            chain(&error).contains("0 of 1 replicas"),
            "{}",
            chain(&error)
        );
        until_free(&client, &names[0]).await;
    }
    let guard = client.mutex(&names[1]).ttl(LONG).lock().await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
}

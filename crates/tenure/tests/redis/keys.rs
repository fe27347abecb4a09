//! What names leave in the server.

use std::time::Instant;

use tenure::driver::{Life, Release, Released};
use tenure::{Client, Name, Owner};
use tenure_testkit::RedisServer;
use tokio::task::JoinSet;

use crate::storms::calls;
use crate::{LONG, open, until, until_waiting};

#[tokio::test]
async fn a_lease_is_a_hash_of_owner_and_depth_that_ends_with_it() {
    let server = RedisServer::start().unwrap();
    let client = open(&server.url()).await;
    let lock = client
        .mutex("inventory:001")
        .ttl(LONG)
        .owner(Owner::current());
    let guard = lock.lock().await.unwrap();
    let inner = [lock.lock().await.unwrap(), lock.lock().await.unwrap()];
    let (key, owner) = ("tenure:{inventory:001}", guard.owner().unwrap().as_str());
    assert_eq!(server.cli(&["HGET", key, owner]), "3");
    let left: u128 = server.cli(&["PTTL", key]).parse().unwrap();
    assert!(
        left <= LONG.as_millis() && left > LONG.as_millis() / 2,
        "{left} ms"
    );
    // A stranger is told so, and changes nothing.
    let before = server.cli(&["HGETALL", key]);
    let stranger = tenure::store::redis::open(&server.url()).await.unwrap();
    let release = Release {
        name: Name::new("inventory:001").unwrap(),
        owner: Owner::unique(),
        fence: Some(guard.fence()),
        life: Life::Client,
        depth: 0,
        stays_taken: std::time::Duration::ZERO,
    };
    let told = stranger.release(&release).await.unwrap();
    assert!(matches!(told, Released::NotHeld(_)), "{told:?}");
    assert_eq!(server.cli(&["HGETALL", key]), before);
    for guard in inner {
        guard.release().await.unwrap();
    }
    assert_eq!(server.cli(&["HGET", key, owner]), "1");
    guard.release().await.unwrap();
    assert_eq!(server.cli(&["KEYS", "*"]), "tenure:{inventory:001}:fence");
    assert_ne!(server.cli(&["TTL", "tenure:{inventory:001}:fence"]), "-1");
}

#[tokio::test]
async fn a_lock_and_its_release_are_two_commands_also_when_others_wait() {
    let server = RedisServer::start().unwrap();
    let clients = [open(&server.url()).await, open(&server.url()).await];
    // The first call of each script is sent once more, in full.
    for client in &clients {
        client
            .mutex("warm")
            .lock()
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
    }
    let sent = || calls(&server, "evalsha");
    let before = sent();
    clients[0]
        .mutex("a")
        .lock()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    assert_eq!(sent() - before, 2, "alone");
    let mut guard = clients[0].mutex("a").lock().await.unwrap();
    for turn in 0..10 {
        let before = sent();
        let next = clients[(turn + 1) % 2].mutex("a");
        let waiting = tokio::spawn(async move { next.lock().await.unwrap() });
        let looked = calls(&server, "lrange");
        until_waiting(&clients[0], "a", 1).await;
        let looks = calls(&server, "lrange") - looked;
        guard.release().await.unwrap();
        guard = waiting.await.unwrap();
        assert_eq!(sent() - before - looks, 2, "turn {turn}, {looks} looks");
    }
}

#[tokio::test]
async fn twenty_thousand_names_used_once_leave_nothing() {
    let server = RedisServer::start().unwrap();
    let client = open(&format!("{}?fence_memory=2s", server.url())).await;
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for part in 0..100 {
        let client = client.clone();
        tasks.spawn(async move { use_once(&client, part).await });
    }
    tasks.join_all().await;
    let (used, keys) = (begun.elapsed(), server.cli(&["DBSIZE"]));
    println!("20,000 names in {used:?}, {keys} keys right after");
    until("all keys to be gone", async || {
        server.cli(&["DBSIZE"]) == "0"
    })
    .await;
    println!("all gone {:?} later", begun.elapsed() - used);
}

async fn use_once(client: &Client, part: u32) {
    for number in 0..200 {
        let lock = client.mutex(&format!("once/{part}/{number}"));
        lock.lock().await.unwrap().release().await.unwrap();
    }
}

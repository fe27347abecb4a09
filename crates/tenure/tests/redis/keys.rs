//! The keys that names leave on the server.

use std::time::Instant;

use tenure::driver::{Answer, Claim, Life, Mode, Release, Released};
use tenure::{ClaimId, Client, Name, Outcome, Owner};
use tenure_testkit::RedisServer;
use tokio::task::JoinSet;

use crate::storms::calls;
use crate::{LONG, entry, open, until, until_waiting};

#[tokio::test]
async fn a_lease_is_a_hash_of_owner_and_depth_that_ends_with_it() {
    let server = RedisServer::start().unwrap();
    let client = open(&server.url()).await;
    let key = "tenure:{inventory:001}";
    let guard = client.mutex("inventory:001").ttl(LONG).lock().await;
    let guard = guard.unwrap();
    let entry = entry(&client, "inventory:001").await;
    let owner = entry.holders[0].owner.as_str();
    assert_eq!(server.cli(&["HGET", key, owner]), "1");
    let left: u128 = server.cli(&["PTTL", key]).parse().unwrap();
    assert!(
        left <= LONG.as_millis() && left > LONG.as_millis() / 2,
        "{left} ms"
    );
    // A request of another client reports this, and changes nothing.
    let before = server.cli(&["HGETALL", key]);
    let stranger = tenure::store::redis::open(&server.url()).await.unwrap();
    let release = Release::new(
        Name::new("inventory:001").unwrap(),
        ClaimId::unique(),
        Life::Client,
    )
    .with_fence(guard.fence());
    let told = stranger.release(&release).await.unwrap();
    assert!(matches!(told, Released::NotHeld(_)), "{told:?}");
    assert_eq!(server.cli(&["HGETALL", key]), before);
    guard.release().await.unwrap();
    assert_eq!(server.cli(&["KEYS", "*"]), "tenure:{inventory:001}:fence");
    assert_ne!(server.cli(&["TTL", "tenure:{inventory:001}:fence"]), "-1");
}

#[tokio::test]
async fn three_leases_by_hand_of_one_owner_are_a_depth_of_three() {
    let server = RedisServer::start().unwrap();
    let (key, owner) = ("tenure:{inventory:001}", Owner::named("job-7").unwrap());
    let mut leases = Vec::new();
    for _ in 0..3 {
        // Each in a separate process, as in a script.
        let client = open(&server.url()).await;
        let lock = client.mutex("inventory:001").ttl(LONG);
        leases.push(lock.owner(owner.clone()).lease().await.unwrap());
    }
    assert_eq!(server.cli(&["HGET", key, "job-7"]), "3");
    let client = open(&server.url()).await;
    let name = Name::new("inventory:001").unwrap();
    let found = client.leases(&name, "job-7").await.unwrap();
    assert_eq!(found.len(), 3);
    // Requested once more, because the first reply was lost.
    let lowered = client.release(&leases[1]).await.unwrap();
    assert_eq!(lowered, Outcome::Lowered { depth: 2 });
    let again = client.release(&leases[1]).await.unwrap();
    assert!(matches!(again, Outcome::NotHeld(_)), "{again:?}");
    assert_eq!(server.cli(&["HGET", key, "job-7"]), "2");
    assert!(client.renew(&leases[0]).await.unwrap().fence().is_some());
    assert!(client.renew(&leases[1]).await.unwrap().fence().is_none());
    let lowered = client.release(&leases[0]).await.unwrap();
    assert_eq!(lowered, Outcome::Lowered { depth: 1 });
    let last = client.release(&leases[2]).await.unwrap();
    assert_eq!(last, Outcome::Released);
    assert_eq!(server.cli(&["EXISTS", key]), "0");
}

#[tokio::test]
async fn a_late_withdrawal_leaves_the_next_claim_of_its_owner_alone() {
    let server = RedisServer::start().unwrap();
    let driver = tenure::store::redis::open(&server.url()).await.unwrap();
    for mode in [Mode::Exclusive, Mode::Shared] {
        let old = claim(mode);
        let new = old.clone().with_id(ClaimId::unique());
        for claim in [&old, &new] {
            let answer = driver.acquire(claim).await.unwrap();
            assert!(matches!(answer, Answer::Granted(_)), "{answer:?}");
        }
        for _ in 0..2 {
            driver.withdraw(&old).await.unwrap();
            let listed = driver.list(Some(&new.name)).await.unwrap();
            let holders: Vec<_> = listed[0].holders.iter().map(|one| &one.claim).collect();
            assert_eq!(holders, [&new.id]);
        }
        driver.withdraw(&new).await.unwrap();
    }
}

fn claim(mode: Mode) -> Claim {
    Claim::new(Name::new("a").unwrap(), LONG)
        .with_owner(Owner::unique())
        .with_mode(mode)
}

#[tokio::test]
async fn a_lock_and_its_release_are_two_commands_also_when_others_wait() {
    let server = RedisServer::start().unwrap();
    let clients = [open(&server.url()).await, open(&server.url()).await];
    // The first call of each script is repeated with its full text.
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

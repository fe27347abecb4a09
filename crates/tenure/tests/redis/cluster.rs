//! A cluster whose slots move and whose masters change.

use std::collections::BTreeSet;
use std::time::Instant;

use tenure::driver::Loss;
use tenure::{Error, Health, Outcome};
use tenure_testkit::{Proxy, RedisCluster, RedisServer, slot_of};
use tokio::time::timeout;

use crate::{
    LONG, PATIENCE, chain, ends_by, entry, millis, open, open_hasty, until, until_longer_than,
    until_waiting,
};

/// Returns a URL that names all nodes.
pub(crate) fn url(cluster: &RedisCluster) -> String {
    let hosts: Vec<String> = cluster
        .servers()
        .iter()
        .map(|server| format!("127.0.0.1:{}", server.port()))
        .collect();
    format!("redis+cluster://{}", hosts.join(","))
}

/// Returns how often the servers replied with this error.
fn answers(cluster: &RedisCluster, code: &str) -> u64 {
    let count = |text: String| {
        let line = format!("errorstat_{code}:count=");
        let count = text
            .lines()
            .find_map(|text| text.strip_prefix(&line)?.parse().ok());
        count.unwrap_or(0u64)
    };
    let running = cluster
        .servers()
        .iter()
        .filter(|server| server.is_running());
    running
        .map(|server| count(server.cli(&["INFO", "errorstats"])))
        .sum()
}

#[tokio::test]
async fn all_keys_of_a_name_live_in_one_slot_and_the_list_sees_every_master() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let client = open(&url(&cluster)).await;
    let other = open(&url(&cluster)).await;
    let mut expected = BTreeSet::new();
    let mut guards = Vec::new();
    for name in ["}", "{", "{}", "a{b}c", "}{", "%7D", "{a}{b}", "a b"] {
        expected.insert(name.to_owned());
        guards.push(client.rwlock(name).read().ttl(LONG).lock().await.unwrap());
        guards.push(other.rwlock(name).read().ttl(LONG).lock().await.unwrap());
        let waiting = client.rwlock(name).write().ttl(LONG);
        tokio::spawn(async move { waiting.lock().await });
        until_waiting(&client, name, 1).await;
        let keys = cluster
            .servers()
            .iter()
            .map(|server| server.cli(&["KEYS", "*"]));
        let keys: Vec<String> = keys.filter(|keys| !keys.is_empty()).collect();
        let all: Vec<&str> = keys.iter().flat_map(|keys| keys.lines()).collect();
        assert_eq!(all.len(), 5 * expected.len(), "{all:?}");
        let slots: BTreeSet<u16> = all.iter().map(|key| slot_of(key)).collect();
        assert!(slots.len() <= expected.len(), "{all:?}");
    }
    for number in 0..30 {
        let name = format!("n{number}");
        guards.push(client.mutex(&name).ttl(LONG).lock().await.unwrap());
        expected.insert(name);
    }
    for server in cluster.servers() {
        assert_ne!(server.cli(&["DBSIZE"]), "0", "each master has some");
    }
    let listed = other.list(None).await.unwrap();
    let listed: BTreeSet<String> = listed.iter().map(|entry| entry.name.to_string()).collect();
    assert_eq!(listed, expected);
}

/// The node has released the lock, so the same request again would find nothing to release.
#[tokio::test]
async fn a_release_whose_answer_is_lost_is_not_taken_for_a_lost_lock() {
    for options in ["", "?layout=string", "?layout=string&fences=off"] {
        let cluster = RedisCluster::start(1, 0).unwrap();
        let node = cluster.server(0);
        let proxy = Proxy::start(node.port()).unwrap();
        let port = proxy.port().to_string();
        node.cli(&["CONFIG", "SET", "cluster-announce-port", &port]);
        let client = open(&format!("redis+cluster://127.0.0.1:{port}/{options}")).await;
        // Afterwards the node knows the scripts, so that a release is one request.
        let warm = client.mutex("b").lock().await.unwrap();
        assert_eq!(warm.release().await.unwrap(), Outcome::Released);
        let guard = client.mutex("a").ttl(LONG).lock().await.unwrap();
        proxy.lose_reply_then_cut(b"EVALSHA");
        let released = guard.release().await;
        assert!(
            matches!(released, Err(Error::Indeterminate { .. })),
            "{options}: {released:?}"
        );
        proxy.wait_for_swallowed(1).unwrap();
        let next = timeout(PATIENCE, client.mutex("a").lock()).await.unwrap();
        assert_eq!(next.unwrap().release().await.unwrap(), Outcome::Released);
    }
}

/// While a slot moves, its scripts get a TRYAGAIN: they need five keys, and the keys are never all
/// on one node.
#[tokio::test]
async fn a_slot_that_moves_loses_neither_holder_nor_waiters() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let (ann, bob) = (open(&url(&cluster)).await, open(&url(&cluster)).await);
    let slot = slot_of("tenure:{a}");
    let from = cluster.master_of(slot).unwrap();
    let to = (from + 1) % 3;
    let guard = ann.mutex("a").ttl(LONG).lock().await.unwrap();
    let mut line = Vec::new();
    for count in 1..=2 {
        let waiting = bob.rwlock("a").read().ttl(LONG);
        let waiting = if count == 1 {
            waiting
        } else {
            ann.rwlock("a").read().ttl(LONG)
        };
        line.push(tokio::spawn(async move { waiting.lock().await }));
        until_waiting(&ann, "a", count).await;
    }
    let moving = cluster.begin_move(slot, to).unwrap();
    let older = guard.fence();
    let release = tokio::spawn(guard.release());
    until("the release to be put off", async || {
        answers(&cluster, "TRYAGAIN") > 0
    })
    .await;
    cluster.move_keys(moving).unwrap();
    let asking = bob.mutex("a").ttl(LONG);
    let asking = tokio::spawn(async move { asking.try_lock().await });
    until("a request to be sent on", async || {
        answers(&cluster, "ASK") > 0
    })
    .await;
    cluster.finish_move(moving).unwrap();
    let moved = Instant::now();
    let released = timeout(PATIENCE, release).await.unwrap().unwrap();
    let asked = timeout(PATIENCE, asking).await.unwrap().unwrap();
    assert!(!matches!(asked, Ok(Some(_))), "others stand in line");
    println!(
        "released {:?} after the move: {released:?}",
        moved.elapsed()
    );
    for waiting in line {
        let next = timeout(PATIENCE, waiting).await.unwrap().unwrap().unwrap();
        assert!(older < next.fence());
        assert_eq!(next.health(), Health::Held);
        assert_eq!(next.release().await.unwrap(), Outcome::Released);
    }
    println!("all had their turn {:?} after the move", moved.elapsed());
    assert!(
        answers(&cluster, "MOVED") > 0,
        "the clients had to learn the new place"
    );
}

#[tokio::test]
async fn a_failover_on_order_loses_neither_holder_nor_waiter() {
    let cluster = RedisCluster::start(3, 1).unwrap();
    let (ann, bob) = (open(&url(&cluster)).await, open(&url(&cluster)).await);
    let slot = slot_of("tenure:{a}");
    let old = cluster.master_of(slot).unwrap();
    let guard = ann.mutex("a").ttl(LONG).lock().await.unwrap();
    let waiting = bob.mutex("a").ttl(LONG);
    let waiting = tokio::spawn(async move { waiting.lock().await });
    until_waiting(&ann, "a", 1).await;
    let begun = Instant::now();
    cluster.failover(old + 3).unwrap();
    assert_eq!(cluster.master_of(slot).unwrap(), old + 3);
    let done = begun.elapsed();
    assert_eq!(
        entry(&ann, "a").await.holders.len(),
        1,
        "the new master knows"
    );
    let older = guard.fence();
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    let next = timeout(PATIENCE, waiting).await.unwrap().unwrap().unwrap();
    println!(
        "failover took {done:?}, all went on after {:?}",
        begun.elapsed()
    );
    assert!(older < next.fence());
}

/// A killed master loses what its replica has not received yet: a second holder is possible, so
/// only the fences are checked.
#[tokio::test]
async fn clients_go_on_after_a_master_was_killed() {
    let mut cluster = RedisCluster::start(3, 1).unwrap();
    let (ann, bob) = (open(&url(&cluster)).await, open(&url(&cluster)).await);
    let slot = slot_of("tenure:{a}");
    let old = cluster.master_of(slot).unwrap();
    let guard = ann.mutex("a").ttl(LONG).lock().await.unwrap();
    let waiting = bob.mutex("a").ttl(LONG);
    let waiting = tokio::spawn(async move { waiting.lock().await });
    until_waiting(&ann, "a", 1).await;
    cluster.server_mut(old).kill().unwrap();
    let killed = Instant::now();
    let older = guard.fence();
    let release = tokio::spawn(guard.release());
    assert_eq!(cluster.wait_for_new_master(slot, old).unwrap(), old + 3);
    println!("a new master after {:?}", killed.elapsed());
    let released = timeout(PATIENCE, release).await.unwrap().unwrap();
    println!("released after {:?}: {released:?}", killed.elapsed());
    let next = timeout(PATIENCE, waiting).await.unwrap().unwrap();
    let next = next.unwrap_or_else(|error| panic!("{}", chain(&error)));
    println!("the waiter went on after {:?}", killed.elapsed());
    assert!(older < next.fence());
    assert_eq!(next.release().await.unwrap(), Outcome::Released);
}

/// Its own leases end, because nobody takes its place here.
#[tokio::test]
async fn a_master_that_is_gone_does_not_end_the_leases_of_the_others() {
    let options = RedisServer::builder().config("cluster-require-full-coverage no");
    let mut cluster = RedisCluster::start_with(3, 0, &options).unwrap();
    let client = open_hasty(&url(&cluster)).await;
    let mut guards = [const { Vec::new() }; 3];
    for number in 0..30 {
        let name = format!("n{number}");
        let master = cluster
            .master_of(slot_of(&format!("tenure:{{{name}}}")))
            .unwrap();
        // The leases of the others are renewed before long, and survive a machine that stalls.
        let ttl = if master == 0 { 2000 } else { 12_000 };
        let guard = client.mutex(&name).ttl(millis(ttl)).lock().await.unwrap();
        guards[master].push(guard);
    }
    cluster.server_mut(0).kill().unwrap();
    let killed = Instant::now();
    let ends: Vec<_> = guards[1..].iter().flatten().map(ends_by).collect();
    for guard in &guards[0] {
        let loss = timeout(PATIENCE, guard.lost()).await.unwrap();
        assert!(matches!(loss, Loss::Unreachable | Loss::Expired), "{loss}");
    }
    println!("its leases were lost after {:?}", killed.elapsed());
    for (guard, end) in guards[1..].iter().flatten().zip(ends) {
        until_longer_than(end, guard).await;
    }
    println!("the others were renewed after {:?}", killed.elapsed());
    for guard in guards.into_iter().skip(1).flatten() {
        assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    }
}

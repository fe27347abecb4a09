//! Sentinels that name another master.

use std::time::Instant;

use tenure::{Health, Outcome};
use tenure_testkit::{Fault, Proxy, RedisSentinel, RedisServer};
use tokio::time::timeout;

use crate::{LONG, PATIENCE, chain, millis, open, until, until_waiting};

/// Returns a URL that names all sentinels.
pub(crate) fn url(group: &RedisSentinel) -> String {
    let hosts: Vec<String> = group
        .sentinel_ports()
        .iter()
        .map(|port| format!("127.0.0.1:{port}"))
        .collect();
    format!(
        "redis+sentinel://{}/{}",
        hosts.join(","),
        RedisSentinel::MASTER
    )
}

#[tokio::test]
async fn clients_find_the_next_master_after_the_last_was_killed() {
    let mut group = RedisSentinel::start().unwrap();
    let (ann, bob) = (open(&url(&group)).await, open(&url(&group)).await);
    let guard = ann.mutex("a").ttl(LONG).lock().await.unwrap();
    let waiting = bob.mutex("a").ttl(LONG);
    let waiting = tokio::spawn(async move { waiting.lock().await });
    until_waiting(&ann, "a", 1).await;
    for server in &group.servers()[1..] {
        until("the replicas to have it all", async || {
            server.cli(&["EXISTS", "tenure:{a}", "tenure:{a}:line"]) == "2"
        })
        .await;
    }
    let old = group.kill_master().unwrap();
    let killed = Instant::now();
    group.wait_for_new_master(old).unwrap();
    println!("a new master after {:?}", killed.elapsed());
    until("the holder to be back", async || {
        let listed = ann.list(None).await;
        listed.is_ok_and(|listed| listed.len() == 1 && listed[0].waiters.len() == 1)
    })
    .await;
    println!("the holder was back after {:?}", killed.elapsed());
    assert_eq!(guard.health(), Health::Held);
    let older = guard.fence();
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    let next = timeout(PATIENCE, waiting).await.unwrap().unwrap().unwrap();
    println!("the waiter went on after {:?}", killed.elapsed());
    assert!(older < next.fence());
    assert_eq!(next.release().await.unwrap(), Outcome::Released);
}

/// The old master continues as a replica, which refuses writes.
#[tokio::test]
async fn clients_leave_a_master_that_was_made_a_replica() {
    let group = RedisSentinel::start().unwrap();
    let client = open(&url(&group)).await;
    let guard = client.mutex("a").ttl(LONG).lock().await.unwrap();
    let old = group.master_port().unwrap();
    group.sentinels()[0].cli(&["SENTINEL", "FAILOVER", RedisSentinel::MASTER]);
    let begun = Instant::now();
    group.wait_for_new_master(old).unwrap();
    let demoted = server_on(&group, old);
    until("the old master to be a replica", async || {
        demoted.info("role").is_ok_and(|role| role == "slave")
    })
    .await;
    let refused = demoted.command(&["SET", "x", "y"]).unwrap_err();
    assert!(format!("{refused:?}").contains("READONLY"), "{refused:?}");
    println!("the roles changed after {:?}", begun.elapsed());
    let older = guard.fence();
    // The reply may be lost with the connection; then the release continues in the background.
    println!("the release says {:?}", guard.release().await);
    let next = timeout(PATIENCE, client.mutex("a").lock()).await.unwrap();
    let next = next.unwrap_or_else(|error| panic!("{}", chain(&error)));
    println!("the client went on after {:?}", begun.elapsed());
    assert!(older < next.fence());
}

#[tokio::test]
async fn sentinels_that_stand_still_or_are_gone_are_passed_over() {
    let mut group = RedisSentinel::start().unwrap();
    group.sentinels()[0].freeze().unwrap();
    group.sentinels_mut()[1].kill().unwrap();
    let client = open(&url(&group)).await;
    let guard = client.mutex("a").lock().await.unwrap();
    let master = group.master_port().unwrap();
    let killed = server_on(&group, master).cli(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    assert_ne!(killed, "0");
    until("the client to be back", async || {
        client
            .list(None)
            .await
            .is_ok_and(|listed| listed.len() == 1)
    })
    .await;
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
}

/// A frozen process still accepts connections, because its kernel does that for it.
#[tokio::test]
async fn sentinels_that_accept_and_say_nothing_are_not_waited_for() {
    let group = RedisSentinel::start().unwrap();
    for sentinel in &group.sentinels()[1..] {
        sentinel.freeze().unwrap();
    }
    let url = format!("{}?connect_timeout=1h", url(&group));
    let client = timeout(PATIENCE, open(&url)).await.unwrap();
    let guard = client.mutex("a").lock().await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
}

/// A machine with the master and a sentinel freezes, and continues after the others have chosen the
/// next master.
#[tokio::test]
async fn a_master_that_was_replaced_while_it_stood_still_grants_nothing() {
    let group = RedisSentinel::start().unwrap();
    let early = open(&url(&group)).await;
    let old = group.master_port().unwrap();
    let master = server_on(&group, old);
    master.freeze().unwrap();
    group.sentinels()[0].freeze().unwrap();
    let new = group.wait_for_new_master(old).unwrap();
    let late = open(&url(&group)).await;
    let guard = late.mutex("a").ttl(LONG).lock().await.unwrap();
    until_listening(server_on(&group, new), 2).await;
    master.thaw().unwrap();
    group.sentinels()[0].thaw().unwrap();
    assert!(early.mutex("a").try_lock().await.unwrap().is_none());
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
}

/// The request reaches a frozen master, which carries it out when it continues.
#[tokio::test]
async fn an_answer_of_a_master_that_was_replaced_is_not_believed() {
    let group = RedisSentinel::start().unwrap();
    let early = open(&url(&group)).await;
    let old = group.master_port().unwrap();
    let master = server_on(&group, old);
    // The server knows the script, so that a single request is enough.
    let warm = early.mutex("warm").try_lock().await.unwrap().unwrap();
    assert_eq!(warm.release().await.unwrap(), Outcome::Released);
    master.freeze().unwrap();
    let asking = early.mutex("a").ttl(LONG);
    let asking = tokio::spawn(async move { asking.try_lock().await });
    // Sent before anything is known of the next master: nothing here waits for a socket.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let new = group.wait_for_new_master(old).unwrap();
    let late = open(&url(&group)).await;
    let guard = late.mutex("a").ttl(LONG).lock().await.unwrap();
    until_listening(server_on(&group, new), 2).await;
    master.thaw().unwrap();
    let asked = timeout(PATIENCE, asking).await.unwrap().unwrap();
    assert!(asked.unwrap().is_none());
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
}

/// It is listed first, and knows only what was true before the failover.
#[tokio::test]
async fn a_sentinel_that_knows_less_than_the_others_is_not_believed() {
    let mut group = RedisSentinel::start().unwrap();
    let old = group.kill_master().unwrap();
    let new = group.wait_for_new_master(old).unwrap();
    let replaced = RedisServer::start().unwrap();
    let stale = RedisSentinel::start_alone(replaced.port()).unwrap();
    let url = url(&group).replace("://", &format!("://127.0.0.1:{},", stale.port()));
    let client = open(&url).await;
    let guard = client.mutex("a").ttl(LONG).lock().await.unwrap();
    assert_eq!(replaced.cli(&["EXISTS", "tenure:{a}"]), "0");
    assert_eq!(server_on(&group, new).cli(&["EXISTS", "tenure:{a}"]), "1");
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
}

/// The others are dead, or slow to reply: what an outdated sentinel says must not be trusted
/// meanwhile.
#[tokio::test]
async fn a_slow_sentinel_that_knows_more_is_waited_for() {
    let mut group = RedisSentinel::start().unwrap();
    let old = group.kill_master().unwrap();
    group.wait_for_new_master(old).unwrap();
    let replaced = RedisServer::start().unwrap();
    let stale = RedisSentinel::start_alone(replaced.port()).unwrap();
    let slow = Proxy::start(group.sentinel_ports()[0]).unwrap();
    slow.set(Fault::Delay(millis(250)));
    let dead = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let ports = [stale.port(), dead.local_addr().unwrap().port(), slow.port()];
    drop(dead);
    let hosts = ports.map(|port| format!("127.0.0.1:{port}")).join(",");
    let master = RedisSentinel::MASTER;
    let client = open(&format!(
        "redis+sentinel://{hosts}/{master}?connect_timeout=20s"
    ))
    .await;
    let guard = client.mutex("a").ttl(LONG).lock().await;
    assert_eq!(replaced.cli(&["EXISTS", "tenure:{a}"]), "0");
    assert_eq!(guard.unwrap().release().await.unwrap(), Outcome::Released);
}

/// Without the permission to see epochs, the client trusts what a sentinel says.
#[tokio::test]
async fn a_user_of_the_sentinels_needs_few_rights() {
    for epochs in ["+sentinel|master", "-sentinel|master"] {
        let group = RedisSentinel::start().unwrap();
        for sentinel in group.sentinels() {
            sentinel.cli(&[
                "ACL",
                "SETUSER",
                "ann",
                "on",
                ">secret",
                "resetchannels",
                "&+switch-master",
                "-@all",
                "+subscribe",
                "+sentinel|get-master-addr-by-name",
                epochs,
            ]);
        }
        let url = url(&group) + "?sentinel_user=ann&sentinel_password=secret";
        let client = open(&url).await;
        let old = group.master_port().unwrap();
        group.sentinels()[0].cli(&["SENTINEL", "FAILOVER", RedisSentinel::MASTER]);
        let new = group.wait_for_new_master(old).unwrap();
        // No request tells it that the old master is no longer the master.
        until_listening(server_on(&group, new), 1).await;
        let guard = client.mutex("a").lock().await.unwrap();
        assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    }
}

/// Waits until this many clients listen at a server, and therefore use it.
async fn until_listening(server: &RedisServer, count: usize) {
    until(&format!("{count} clients at the server"), async || {
        let inboxes = server.cli(&["PUBSUB", "CHANNELS", "tenure:inbox:*"]);
        inboxes.lines().count() == count
    })
    .await;
}

fn server_on(group: &RedisSentinel, port: u16) -> &RedisServer {
    let mut servers = group.servers().iter();
    servers.find(|server| server.port() == port).unwrap()
}

/// What the replica did not receive is lost: a second holder is possible, with a larger fence.
#[tokio::test]
async fn fences_grow_although_the_new_master_never_saw_the_last_grant() {
    let mut master = RedisServer::start().unwrap();
    let proxy = Proxy::start(master.port()).unwrap();
    let replica = RedisServer::builder()
        .replica_of(proxy.port())
        .start()
        .unwrap();
    replica.wait_until_linked().unwrap();
    let client = open(&master.url()).await;
    let first = client.mutex("a").lock().await.unwrap();
    until("the replica to see the first grant", async || {
        replica.cli(&["EXISTS", "tenure:{a}:fence"]) == "1"
    })
    .await;
    first.release().await.unwrap();
    until("the replica to see the release", async || {
        replica.cli(&["EXISTS", "tenure:{a}"]) == "0"
    })
    .await;
    proxy.set(Fault::Freeze);
    let mut older = Vec::new();
    for _ in 0..3 {
        let guard = client.mutex("a").ttl(LONG).lock().await.unwrap();
        older.push(guard.fence());
        guard.release().await.unwrap();
    }
    let held = client.mutex("a").ttl(LONG).lock().await.unwrap();
    older.push(held.fence());
    master.kill().unwrap();
    replica.cli(&["REPLICAOF", "NO", "ONE"]);
    assert_eq!(
        replica.cli(&["EXISTS", "tenure:{a}"]),
        "0",
        "it never saw the grant"
    );
    let second = open(&replica.url()).await.mutex("a").lock().await.unwrap();
    assert!(older.iter().all(|fence| *fence < second.fence()));
}

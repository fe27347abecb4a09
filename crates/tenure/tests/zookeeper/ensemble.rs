//! Three servers: killed, stopped, without a quorum. A lock is held on, and there is never a second holder.

use tenure::{Client, Health, Loss};
use tenure_testkit::{ZooKeeperEnsemble, ZooKeeperServer};
use tokio::sync::{Mutex, MutexGuard};

use crate::common::{
    PATIENCE, entry, got, lost, open_hasty, until, until_held, until_waiting, waiter,
};

/// Three servers, which notice within 2 s that one of them stands still. One ensemble at a time has enough to run on.
async fn start() -> (ZooKeeperEnsemble, MutexGuard<'static, ()>) {
    static ONE: Mutex<()> = Mutex::const_new(());
    let turn = ONE.lock().await;
    (ZooKeeperEnsemble::start().unwrap(), turn)
}

/// Takes and releases a name until the servers do it.
async fn until_working(client: &Client, name: &str) {
    until("the servers to decide again", async || {
        match client.mutex(name).try_lock().await {
            Ok(Some(guard)) => guard.release().await.is_ok(),
            _ => false,
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_leader_costs_no_lock_and_no_place_in_line() {
    let (mut servers, _turn) = start().await;
    let ann = open_hasty(&servers.url(), "session=60s").await;
    let bob = open_hasty(&servers.url(), "session=60s").await;
    let held = ann.mutex("a").lock().await.unwrap();
    let fence = held.fence();
    let waiting = waiter(&bob, "a");
    until_waiting(&ann, "a", 1).await;
    let leader = servers.leader().unwrap();
    servers.servers_mut()[leader].kill().unwrap();
    servers.leader().unwrap();
    until_working(&ann, "b").await;
    until_held(&held).await;
    assert!(!waiting.is_finished(), "let in although the lock is held");
    assert_eq!(entry(&ann, "a").await.holders[0].fence, fence);
    held.release().await.unwrap();
    let next = got(waiting).await;
    assert!(next.fence() > fence);
    next.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_stands_still_is_replaced_and_the_lock_held_on() {
    let (servers, _turn) = start().await;
    let ann = open_hasty(&servers.url(), "session=60s").await;
    let held = ann.mutex("a").lock().await.unwrap();
    let leader = servers.leader().unwrap();
    servers.servers()[leader].freeze().unwrap();
    let new = servers.leader().unwrap();
    assert_ne!(leader, new);
    until_working(&ann, "b").await;
    until_held(&held).await;
    let bob = open_hasty(&servers.url(), "session=60s").await;
    assert!(bob.mutex("a").try_lock().await.unwrap().is_none());
    servers.servers()[leader].thaw().unwrap();
    until_held(&held).await;
    assert!(bob.mutex("a").try_lock().await.unwrap().is_none());
    held.release().await.unwrap();
    assert!(bob.mutex("a").try_lock().await.unwrap().is_some());
}

/// A follower answers reads and pings for a while after it has lost its leader; a lease must not live on by that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_follower_without_a_leader_says_prolongs_no_lease() {
    let (servers, _turn) = start().await;
    let follower = servers.follower().unwrap();
    let url = ZooKeeperEnsemble::url_on(&[servers.servers()[follower].port()]);
    let ann = open_hasty(&url, "session=4s").await;
    let held = ann.mutex("a").ttl(PATIENCE).lock().await.unwrap();
    let left = held.time_left();
    assert!(
        left.as_secs() < 3,
        "more than half of the session: {left:?}"
    );
    // No quorum: the follower that is left cannot know whether the session lives.
    for (index, server) in servers.servers().iter().enumerate() {
        if index != follower {
            server.freeze().unwrap();
        }
    }
    assert_eq!(lost(&held).await, Loss::Unreachable);
    assert_eq!(held.health(), Health::Lost(Loss::Unreachable));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_a_follower_that_stands_still_is_at_risk_until_it_goes_on() {
    let (servers, _turn) = start().await;
    let follower = servers.follower().unwrap();
    let ports: Vec<_> = servers
        .servers()
        .iter()
        .map(ZooKeeperServer::port)
        .collect();
    let alone = ZooKeeperEnsemble::url_on(&[ports[follower]]);
    // It knows no other server.
    let ann = open_hasty(&alone, "session=60s").await;
    let bob = open_hasty(&servers.url(), "session=60s").await;
    let held = ann.mutex("a").lock().await.unwrap();
    servers.servers()[follower].freeze().unwrap();
    until_working(&bob, "b").await;
    assert!(bob.mutex("a").try_lock().await.unwrap().is_none());
    until("the holder to be at risk", async || {
        // Only the answer that does not come can tell.
        ann.list(None).await.is_err() && held.health() != Health::Held
    })
    .await;
    servers.servers()[follower].thaw().unwrap();
    until_held(&held).await;
    held.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_stop_without_a_quorum_and_go_on_with_one() {
    let (mut servers, _turn) = start().await;
    let ann = open_hasty(&servers.url(), "session=60s").await;
    let held = ann.mutex("a").lock().await.unwrap();
    let fence = held.fence();
    for server in &mut servers.servers_mut()[..2] {
        server.kill().unwrap();
    }
    until("requests to fail", async || {
        ann.mutex("b").try_lock().await.is_err()
    })
    .await;
    until("the holder to be at risk", async || {
        held.health() != Health::Held
    })
    .await;
    assert_eq!(held.health(), Health::AtRisk);
    // Together, because one alone has no quorum and is not ready.
    for server in &mut servers.servers_mut()[..1] {
        server.start_again().unwrap();
    }
    until_working(&ann, "b").await;
    until_held(&held).await;
    assert_eq!(held.fence(), fence);
    held.release().await.unwrap();
    assert!(ann.mutex("a").try_lock().await.unwrap().unwrap().fence() > fence);
}

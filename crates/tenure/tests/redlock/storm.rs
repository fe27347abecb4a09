//! Nodes that are killed and forget, one after the other, with different clocks, while clients
//! compete.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tenure::{Client, Guard};
use tenure_testkit::RedisServer;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::nodes::Nodes;
use crate::votes::Room;
use crate::{PATIENCE, chain, is_held, millis, open, until};

/// Decides when the storm is over.
#[derive(Debug, Default)]
struct Storm {
    room: Room,
    over: AtomicBool,
}

/// Retries until the name is granted, or the storm is over.
async fn grant(client: &Client, storm: &Storm) -> Option<Guard> {
    let lock = client.mutex("a").ttl(millis(1500));
    while !storm.over.load(Ordering::SeqCst) {
        match lock.lock_timeout(PATIENCE).await {
            Ok(guard) => return Some(guard),
            // What a program would do: retry.
            Err(error) => assert!(chain(&error).contains("redlock"), "{}", chain(&error)),
        }
    }
    None
}

async fn fight(client: Client, storm: Arc<Storm>) {
    while let Some(guard) = grant(&client, &storm).await {
        if is_held(&guard) {
            storm.room.visit(&guard).await;
        }
        // A release whose reply is lost continues in the background.
        drop(guard.release().await);
        sleep(millis(fastrand::u64(0..10))).await;
    }
}

/// Waits until a node votes again: the other two vote as well, but one of them is frozen, so that a
/// majority needs this node.
async fn until_counted(nodes: &Nodes, url: &str, node: usize) {
    let other = (node + 1) % 3;
    nodes.0[other].freeze().unwrap();
    let client = open(url).await;
    until("the node to count", async || {
        let tried = client.mutex("probe").ttl(millis(1500)).try_lock().await;
        matches!(tried, Ok(Some(_)))
    })
    .await;
    nodes.0[other].thaw().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fences_grow_while_nodes_forget_one_after_the_other() {
    let mut nodes = Nodes::start_as(3, &RedisServer::builder().movable_clock());
    for server in &nodes.0 {
        server.move_clock(fastrand::i64(-450..450)).unwrap();
    }
    let url = nodes.url_with("restart_delay=2s&timeout=500ms&connect_timeout=5s");
    let storm = Arc::new(Storm::default());
    let mut fighters = JoinSet::new();
    for _ in 0..4 {
        fighters.spawn(fight(open(&url).await, Arc::clone(&storm)));
    }
    let mut seen = 0;
    for hit in 0..4 {
        until("some grants", async || storm.room.visits() > seen + 5).await;
        let node = fastrand::usize(0..3);
        nodes.0[node].kill().unwrap();
        sleep(millis(fastrand::u64(0..300))).await;
        nodes.0[node].leave_clock(fastrand::i64(-450..450)).unwrap();
        nodes.0[node].start_again().unwrap();
        seen = storm.room.visits();
        println!("hit {hit}: node {node} after {seen} grants");
        until_counted(&nodes, &url, node).await;
    }
    until("some more grants", async || storm.room.visits() > seen + 20).await;
    storm.over.store(true, Ordering::SeqCst);
    while let Some(fighter) = fighters.join_next().await {
        fighter.unwrap();
    }
    println!("{} grants", storm.room.visits());
    nodes.until_all_free().await;
}

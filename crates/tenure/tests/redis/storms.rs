//! Repeated faults while clients compete for one name.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use tenure::Client;
use tenure_testkit::RedisServer;

use crate::resource::fight;
use crate::{millis, open, until_free};

#[tokio::test]
async fn connections_that_are_killed_again_and_again_lose_no_wake_up() {
    fight_in_a_storm("", |server| {
        let killed = |kind: &str| -> u64 {
            let killed = server.cli(&["CLIENT", "KILL", "TYPE", kind]);
            killed.parse().unwrap()
        };
        killed("normal") + killed("pubsub")
    })
    .await;
}

#[tokio::test]
async fn scripts_that_are_forgotten_again_and_again_are_sent_again() {
    let server = fight_in_a_storm("", |server| {
        server.cli(&["SCRIPT", "FLUSH", "SYNC"]);
        1
    })
    .await;
    assert!(calls(&server, "eval") > 5, "no script was missed");
}

#[tokio::test]
async fn string_locks_outlive_connections_that_are_killed() {
    fight_in_a_storm("?layout=string", |server| {
        let killed = server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
        killed.parse().unwrap()
    })
    .await;
}

/// Returns how often a command was called.
pub(crate) fn calls(server: &RedisServer, command: &str) -> u64 {
    let stats = server.cli(&["INFO", "commandstats"]);
    let line = format!("cmdstat_{command}:calls=");
    let mut lines = stats.lines().filter_map(|text| text.strip_prefix(&line));
    let calls = lines.next().and_then(|rest| rest.split(',').next());
    calls.map_or(0, |calls| calls.parse().unwrap())
}

/// Lets clients compete while `hit` injects a fault every few milliseconds and returns how many it
/// hit.
async fn fight_in_a_storm(
    options: &str,
    hit: impl Fn(&RedisServer) -> u64 + Send + 'static,
) -> RedisServer {
    let server = RedisServer::start().unwrap();
    let url = format!("{}{options}", server.url());
    let mut clients: Vec<Client> = Vec::new();
    for _ in 0..4 {
        clients.push(open(&url).await);
    }
    let (over, hits) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let (seen, count) = (Arc::clone(&over), Arc::clone(&hits));
    let storm = thread::spawn(move || {
        while !seen.load(Ordering::SeqCst) {
            count.fetch_add(hit(&server), Ordering::SeqCst);
            thread::sleep(millis(20));
        }
        server
    });
    let mut faults = fight("a", clients.clone(), 150).await;
    // Fewer hits are not enough.
    while hits.load(Ordering::SeqCst) <= 10 {
        faults += fight("a", clients.clone(), 10).await;
    }
    over.store(true, Ordering::SeqCst);
    let server = storm.join().unwrap();
    println!("{hits:?} hits, {faults} faults told");
    until_free(&open(&url).await, "a").await;
    server
}

//! What names leave in the server.

use std::time::Instant;

use tenure::Client;
use tenure_testkit::RedisServer;
use tokio::task::JoinSet;

use crate::{open, until};

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
    assert_ne!(keys, "0", "fences are remembered for a while");
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

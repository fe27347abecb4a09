//! Two processes of one job, which share an owner and so a lock.

use crate::worker::Worker;
use crate::{LONG_MS, entry, folder, open, until, until_waiting};

#[tokio::test]
async fn processes_with_one_owner_hold_a_lock_together() {
    let folder = folder();
    let client = open(folder.path()).await;
    let (mut ann, mut bob) = (
        Worker::hand(folder.path()).await,
        Worker::hand(folder.path()).await,
    );
    let hers = ann.granted(&lock("job")).await;
    let his = bob.granted(&lock("job")).await;
    assert_eq!(hers, his, "one grant, two processes");
    assert!(client.mutex("a").try_lock().await.unwrap().is_none());
    assert_eq!(ann.ask("release a").await, "Released");
    assert_eq!(bob.ask("health a").await, "Held");
    assert!(client.mutex("a").try_lock().await.unwrap().is_none());
    assert_eq!(bob.ask("release a").await, "Released");
    assert!(client.mutex("a").try_lock().await.unwrap().is_some());
}

#[tokio::test]
async fn the_death_of_one_of_them_leaves_the_lock_to_the_other() {
    let folder = folder();
    let client = open(folder.path()).await;
    let (mut ann, mut bob, mut cid) = (
        Worker::hand(folder.path()).await,
        Worker::hand(folder.path()).await,
        Worker::hand(folder.path()).await,
    );
    ann.granted(&lock("job")).await;
    bob.granted(&lock("job")).await;
    cid.tell(&lock("other"));
    until_waiting(&client, "a", 1).await;
    ann.kill();
    until("the death is noticed", async || {
        entry(&client, "a").await.unwrap().holders.len() == 1
    })
    .await;
    assert_eq!(entry(&client, "a").await.unwrap().waiters.len(), 1);
    assert_eq!(bob.ask("health a").await, "Held");
    bob.kill();
    cid.told_granted().await;
}

/// The waiter has asked when only the first of them was there.
#[tokio::test]
async fn a_killed_process_that_entered_past_a_waiter_frees_the_lock_at_once() {
    let folder = folder();
    let client = open(folder.path()).await;
    let (mut ann, mut bob, mut cid) = (
        Worker::hand(folder.path()).await,
        Worker::hand(folder.path()).await,
        Worker::hand(folder.path()).await,
    );
    ann.granted(&lock("job")).await;
    cid.tell(&lock("other"));
    until_waiting(&client, "a", 1).await;
    bob.granted(&lock("job")).await;
    assert_eq!(ann.ask("release a").await, "Released");
    bob.kill();
    cid.told_granted().await;
}

fn lock(owner: &str) -> String {
    format!("lock a ttl={LONG_MS} owner={owner}")
}

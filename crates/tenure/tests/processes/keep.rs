//! A lease that a process keeps is given back when another process wants it.

use crate::worker::Worker;
use crate::{LONG_MS, PATIENCE, entry, folder, open, until};

/// More than fit into a socket's queue.
const MANY: usize = 60;

#[tokio::test]
async fn a_kept_lease_comes_back_on_call() {
    let folder = folder();
    let client = open(folder.path()).await;
    let mut ann = Worker::hand(folder.path()).await;
    let lock = format!("lock a ttl={LONG_MS} keep={LONG_MS}");
    let mut last = 0;
    for _ in 0..20 {
        for _ in 0..3 {
            let hers = ann.granted(&lock).await;
            assert!(last < hers, "{hers} after {last}");
            assert_eq!(ann.ask("release a").await, "Released");
            last = hers;
        }
        assert!(entry(&client, "a").await.is_some(), "she keeps it");
        let guard = client.mutex("a").lock_timeout(PATIENCE).await.unwrap();
        let ours = guard.fence().get();
        assert!(last < ours, "{ours} after {last}");
        last = ours;
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_refused_try_calls_a_kept_lease_back() {
    let folder = folder();
    let client = open(folder.path()).await;
    let mut ann = Worker::hand(folder.path()).await;
    ann.granted(&format!("lock a ttl={LONG_MS} keep={LONG_MS}"))
        .await;
    assert_eq!(ann.ask("release a").await, "Released");
    let lock = client.mutex("a");
    assert!(lock.try_lock().await.unwrap().is_none(), "she keeps it");
    until("the lease to come back", async || {
        lock.try_lock().await.unwrap().is_some()
    })
    .await;
}

#[tokio::test]
async fn a_kept_lease_ends_with_its_process() {
    let folder = folder();
    let client = open(folder.path()).await;
    for ending in ["kill", "end"] {
        let mut ann = Worker::hand(folder.path()).await;
        ann.granted(&format!("lock a ttl={LONG_MS} keep={LONG_MS}"))
            .await;
        assert_eq!(ann.ask("release a").await, "Released");
        match ending {
            "kill" => drop(ann.kill()),
            _ => ann.ended().await,
        }
        drop(client.mutex("a").lock_timeout(PATIENCE).await.unwrap());
        client.settled().await;
    }
}

/// The recalls do not fit into its inbox, so it has to give back everything.
#[tokio::test]
async fn a_process_that_was_stopped_gives_back_whatever_was_called_for() {
    let folder = folder();
    let client = open(folder.path()).await;
    let mut ann = Worker::hand(folder.path()).await;
    let order = format!("lock-many n count={MANY} ttl={LONG_MS} keep={LONG_MS}");
    assert_eq!(ann.ask(&order).await, format!("granted {MANY}"));
    assert_eq!(ann.ask("release-all").await, "done");
    assert_eq!(client.list(None).await.unwrap().len(), MANY);
    ann.stop();
    for count in 0..MANY {
        let refused = client.mutex(&format!("n{count}")).try_lock().await.unwrap();
        assert!(refused.is_none(), "she keeps it");
    }
    ann.go_on();
    until("all leases to come back", async || {
        client.list(None).await.unwrap().is_empty()
    })
    .await;
}

//! A process that was stopped while much happened catches up.

use crate::worker::Worker;
use crate::{LONG_MS, folder, open, until_waiting};

/// More than fit into a socket's queue.
const MANY: usize = 60;

#[tokio::test]
async fn a_stopped_waiter_finds_all_its_grants() {
    let folder = folder();
    let client = open(folder.path()).await;
    let mut guards = Vec::new();
    for count in 0..MANY {
        let lock = client.mutex(&format!("n{count}"));
        guards.push(lock.lock().await.unwrap());
    }
    let mut ann = Worker::hand(folder.path()).await;
    ann.tell(&format!("lock-many n count={MANY} ttl={LONG_MS}"));
    for count in 0..MANY {
        until_waiting(&client, &format!("n{count}"), 1).await;
    }
    ann.stop();
    for guard in guards {
        guard.release().await.unwrap();
    }
    ann.go_on();
    assert_eq!(ann.answer().await, format!("granted {MANY}"));
}

#[tokio::test]
async fn a_stopped_holder_finds_out_about_all_its_losses() {
    let folder = folder();
    let client = open(folder.path()).await;
    let mut ann = Worker::hand(folder.path()).await;
    ann.tell(&format!("lock-many n count={MANY} ttl={LONG_MS}"));
    assert_eq!(ann.answer().await, format!("granted {MANY}"));
    ann.stop();
    for count in 0..MANY {
        let name = format!("n{count}");
        assert_eq!(client.evict(name).await.unwrap().len(), 1);
    }
    ann.go_on();
    assert_eq!(ann.ask("all-lost").await, format!("lost {MANY}"));
}

/// News that nobody reads must not block those who send it.
#[tokio::test]
async fn a_process_stopped_for_good_holds_up_nobody_elses_news() {
    let folder = folder();
    let client = open(folder.path()).await;
    let (mut ann, mut bob) = (
        Worker::hand(folder.path()).await,
        Worker::hand(folder.path()).await,
    );
    ann.tell(&format!("lock-many n count={MANY} ttl={LONG_MS}"));
    assert_eq!(ann.answer().await, format!("granted {MANY}"));
    ann.stop();
    for count in 0..MANY {
        let name = format!("n{count}");
        client.evict(name).await.unwrap();
    }
    for _ in 0..20 {
        let guard = client.mutex("a").lock().await.unwrap();
        bob.tell(&format!("lock a ttl={LONG_MS}"));
        until_waiting(&client, "a", 1).await;
        guard.release().await.unwrap();
        bob.told_granted().await;
        assert_eq!(bob.ask("release a").await, "Released");
    }
}

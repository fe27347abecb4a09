//! Two processes of one job, which share an owner and therefore a lock.

use tenure::Client;
use tokio::time::sleep;

use crate::worker::Worker;
use crate::{LONG_MS, entry, folder, millis, open, until, until_waiting};

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
    assert_eq!(ann.ask("release a").await, STILL_HELD);
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

/// The waiter asked when only the first of them was there.
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
    assert_eq!(ann.ask("release a").await, STILL_HELD);
    bob.kill();
    cid.told_granted().await;
}

/// Giving up a call must not undo the next one, although both have the same owner.
#[tokio::test]
async fn a_process_that_gives_up_and_asks_again_holds_what_it_gets() {
    let folder = folder();
    let client = open(folder.path()).await;
    let (mut ann, mut bob) = (
        Worker::hand(folder.path()).await,
        Worker::hand(folder.path()).await,
    );
    let mut last = 0;
    for patience in [200, 200, 50, 20, 5, 2, 1, 1, 1, 1] {
        let his = bob.granted(&lock("other")).await;
        ann.tell(&insist("job", patience));
        ann.gives_up(2).await;
        assert_eq!(bob.ask("release a").await, "Released");
        let hers = ann.insists().await;
        assert!(last < his && his < hers, "{last}, {his}, {hers}");
        last = hers;
        // Long enough for every request that was still in flight.
        for _ in 0..10 {
            assert_eq!(bob.ask(&format!("try a ttl={LONG_MS}")).await, "busy");
            assert_eq!(bob.ask("try a owner=other").await, "busy");
            sleep(millis(3)).await;
        }
        assert_eq!(ann.ask("health a").await, "Held");
        until_held_by(&client, 1).await;
        let holders = entry(&client, "a").await.unwrap().holders;
        assert_eq!((holders[0].about.pid, holders[0].depth), (ann.pid(), 1));
        assert_eq!(holders[0].fence.get(), hers);
        assert_eq!(ann.ask("release a").await, "Released");
        assert_eq!(client.list(None).await.unwrap(), [], "nothing is left");
    }
}

#[tokio::test]
async fn processes_of_one_owner_that_give_up_and_ask_again_get_in_together() {
    let folder = folder();
    let client = open(folder.path()).await;
    let (mut ann, mut bob, mut cid) = (
        Worker::hand(folder.path()).await,
        Worker::hand(folder.path()).await,
        Worker::hand(folder.path()).await,
    );
    for patience in [200, 20, 5, 2, 1, 1, 1] {
        cid.granted(&lock("other")).await;
        ann.tell(&insist("job", patience));
        bob.tell(&insist("job", patience));
        ann.gives_up(2).await;
        bob.gives_up(2).await;
        assert_eq!(cid.ask("release a").await, "Released");
        let (hers, his) = (ann.insists().await, bob.insists().await);
        assert_eq!(hers, his, "one grant, two processes");
        until_held_by(&client, 2).await;
        let holders = entry(&client, "a").await.unwrap().holders;
        assert!(holders.iter().all(|holder| holder.depth == 2));
        // The first to leave, in turns, takes nothing away from the other.
        let (first, other) = match patience % 2 {
            0 => (&mut ann, &mut bob),
            _ => (&mut bob, &mut ann),
        };
        assert_eq!(first.ask("release a").await, STILL_HELD);
        assert_eq!(other.ask("health a").await, "Held");
        assert_eq!(cid.ask("try a owner=other").await, "busy");
        assert_eq!(other.ask("release a").await, "Released");
        assert_eq!(client.list(None).await.unwrap(), [], "nothing is left");
    }
}

/// One of them holds the lock, and the other joins and leaves it repeatedly.
#[tokio::test]
async fn a_process_that_joins_and_leaves_takes_nothing_from_its_owner() {
    let folder = folder();
    let client = open(folder.path()).await;
    let (mut ann, mut bob, mut cid) = (
        Worker::hand(folder.path()).await,
        Worker::hand(folder.path()).await,
        Worker::hand(folder.path()).await,
    );
    let hers = ann.granted(&lock("job")).await;
    cid.tell(&lock("other"));
    until_waiting(&client, "a", 1).await;
    for _ in 0..20 {
        assert_eq!(bob.granted(&insist("job", 200)).await, hers);
        assert_eq!(bob.ask("release a").await, STILL_HELD);
        assert_eq!(ann.ask("health a").await, "Held");
        let entry = entry(&client, "a").await.unwrap();
        assert_eq!((entry.holders.len(), entry.waiters.len()), (1, 1));
    }
    assert_eq!(ann.ask("release a").await, "Released");
    let other = cid.told_granted().await;
    assert!(hers < other);
    assert_eq!(bob.ask("try a owner=job").await, "busy");
}

/// Waits until this many claims hold the lock: one that was given up may have been granted before.
async fn until_held_by(client: &Client, claims: usize) {
    until(&format!("{claims} holders"), async || {
        let entry = entry(client, "a").await;
        entry.map_or(0, |entry| entry.holders.len()) == claims
    })
    .await;
}

/// The outcome of a release while the other process still holds the lock.
const STILL_HELD: &str = "Lowered { depth: 1 }";

fn insist(owner: &str, patience_ms: u64) -> String {
    format!("insist a ttl={LONG_MS} owner={owner} patience={patience_ms}")
}

fn lock(owner: &str) -> String {
    format!("lock a ttl={LONG_MS} owner={owner}")
}

//! What the end of a process ends, and what it does not.

use std::time::Instant;

use tenure::Outcome;
use tokio::time::timeout;

use crate::worker::Worker;
use crate::{
    LONG_MS, PATIENCE, assert_nothing_left, entry, folder, millis, open, until, until_waiting,
};

#[tokio::test]
async fn a_killed_holder_frees_its_lock_for_another_process_at_once() {
    let folder = folder();
    let client = open(folder.path()).await;
    let mut longest = millis(0);
    for _ in 0..10 {
        let mut ann = Worker::hand(folder.path()).await;
        let mut bob = Worker::hand(folder.path()).await;
        let hers = ann.granted(&lock("a")).await;
        bob.tell(&lock("a"));
        until_waiting(&client, "a", 1).await;
        let killed = Instant::now();
        ann.kill_without_waiting();
        let his = bob.told_granted().await;
        longest = longest.max(killed.elapsed());
        assert!(hers < his, "{hers} was granted before {his}");
    }
    println!("free after {longest:?} at the latest");
}

#[tokio::test]
async fn a_killed_holder_of_many_names_frees_them_all() {
    let folder = folder();
    let client = open(folder.path()).await;
    let mut ann = Worker::hand(folder.path()).await;
    let mut bob = Worker::hand(folder.path()).await;
    ann.granted(&format!("lock-many n count=50 ttl={LONG_MS}"))
        .await;
    bob.tell(&format!("lock-many n count=50 ttl={LONG_MS}"));
    for count in 0..50 {
        until_waiting(&client, &format!("n{count}"), 1).await;
    }
    ann.kill_without_waiting();
    assert_eq!(bob.told_granted().await, 50);
}

#[tokio::test]
async fn a_killed_waiter_is_passed_over() {
    let folder = folder();
    let client = open(folder.path()).await;
    let guard = client.mutex("a").lock().await.unwrap();
    let mut line = Vec::new();
    for count in 1..=5 {
        let mut waiter = Worker::hand(folder.path()).await;
        waiter.tell(&lock("a"));
        until_waiting(&client, "a", count).await;
        line.push(waiter);
    }
    for killed in [0, 1, 3] {
        line[killed].kill();
    }
    guard.release().await.unwrap();
    let first = line[2].told_granted().await;
    assert_eq!(line[2].ask("release a").await, "Released");
    let second = line[4].told_granted().await;
    assert!(first < second, "{first} was granted before {second}");
}

/// The grant reaches a stopped process, which is then killed before it could read it.
#[tokio::test]
async fn a_waiter_killed_right_after_its_grant_holds_nobody_up() {
    let folder = folder();
    let client = open(folder.path()).await;
    for _ in 0..10 {
        let guard = client.mutex("a").lock().await.unwrap();
        let (mut ann, mut bob) = (
            Worker::hand(folder.path()).await,
            Worker::hand(folder.path()).await,
        );
        ann.tell(&lock("a"));
        until_waiting(&client, "a", 1).await;
        bob.tell(&lock("a"));
        until_waiting(&client, "a", 2).await;
        ann.stop();
        guard.release().await.unwrap();
        let holders = entry(&client, "a").await.unwrap().holders;
        assert_eq!(holders[0].about.pid, ann.pid());
        ann.kill_without_waiting();
        bob.told_granted().await;
        assert_eq!(bob.ask("release a").await, "Released");
    }
}

/// As before, but the order of the release, the grant and the kill is random.
#[tokio::test]
async fn a_waiter_killed_while_it_is_granted_holds_nobody_up() {
    let folder = folder();
    let client = open(folder.path()).await;
    let mut bob = Worker::hand(folder.path()).await;
    for round in 0..40 {
        let mut ann = Worker::hand(folder.path()).await;
        let guard = client.mutex("a").lock().await.unwrap();
        ann.tell(&lock("a"));
        until_waiting(&client, "a", 1).await;
        bob.tell(&lock("a"));
        until_waiting(&client, "a", 2).await;
        if round % 2 == 0 {
            ann.kill_without_waiting();
            guard.release().await.unwrap();
        } else {
            guard.release().await.unwrap();
            ann.kill_without_waiting();
        }
        bob.told_granted().await;
        assert_eq!(bob.ask("release a").await, "Released");
    }
    drop(bob);
    assert_nothing_left(client, folder.path()).await;
}

/// The waiter learns of the second holder only from news: that holder was not there when it asked.
#[tokio::test]
async fn a_chain_of_killed_holders_holds_nobody_up() {
    let folder = folder();
    let client = open(folder.path()).await;
    let mut line = Vec::new();
    for count in 0..6 {
        let mut waiter = Worker::hand(folder.path()).await;
        waiter.tell(&lock("a"));
        if count > 0 {
            until_waiting(&client, "a", count).await;
        } else {
            waiter.told_granted().await;
        }
        line.push(waiter);
    }
    for mut waiter in line.split_off(1) {
        line.pop().unwrap().kill_without_waiting();
        waiter.told_granted().await;
        line.push(waiter);
    }
}

#[tokio::test]
async fn a_process_that_ends_by_itself_frees_its_locks() {
    let folder = folder();
    let client = open(folder.path()).await;
    let mut ann = Worker::hand(folder.path()).await;
    ann.granted(&lock("a")).await;
    let waiting = client.mutex("a");
    let (guard, ()) = tokio::join!(timeout(PATIENCE, waiting.lock()), async {
        until_waiting(&client, "a", 1).await;
        ann.ended().await;
    });
    guard.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_lease_by_hand_survives_its_process_and_ends_by_its_ttl() {
    let folder = folder();
    let client = open(folder.path()).await;
    let mut ann = Worker::hand(folder.path()).await;
    let begun = Instant::now();
    let hers = ann.granted("lease a ttl=1500").await;
    ann.kill();
    let asked = Instant::now();
    let busy = client.mutex("a").try_lock().await.unwrap().is_none();
    // A machine that stalled for this long proves nothing.
    if asked.elapsed() + (asked - begun) < millis(1400) {
        assert!(busy);
    }
    let guard = client.mutex("a").lock_timeout(PATIENCE).await.unwrap();
    assert!(begun.elapsed() >= millis(1500), "{:?}", begun.elapsed());
    assert!(hers < guard.fence().get());
}

#[tokio::test]
async fn a_lease_by_hand_is_taken_up_by_another_process() {
    let folder = folder();
    let client = open(folder.path()).await;
    let mut ann = Worker::hand(folder.path()).await;
    ann.granted(&format!("lease a ttl={LONG_MS} owner=job"))
        .await;
    ann.kill();
    let mut leases = client.leases("a", "job").await.unwrap();
    let lease = leases.pop().expect("it outlives its process");
    assert_eq!(leases, []);
    assert!(client.renew(&lease).await.unwrap().fence().is_some());
    assert_eq!(client.release(&lease).await.unwrap(), Outcome::Released);
    assert!(client.mutex("a").try_lock().await.unwrap().is_some());
}

#[tokio::test]
async fn at_least_keeps_the_name_after_the_process_has_ended() {
    let folder = folder();
    let client = open(folder.path()).await;
    let mut ann = Worker::hand(folder.path()).await;
    let begun = Instant::now();
    ann.granted(&format!("lock a ttl={LONG_MS} at_least=1500"))
        .await;
    assert_eq!(ann.ask("release a").await, "Released");
    ann.ended().await;
    let guard = client.mutex("a").lock_timeout(PATIENCE).await.unwrap();
    let kept = begun.elapsed();
    assert!(kept >= millis(1490), "{kept:?}");
    guard.release().await.unwrap();
    until("the end of the guard", async || {
        entry(&client, "a").await.is_none()
    })
    .await;
}

fn lock(name: &str) -> String {
    format!("lock {name} ttl={LONG_MS}")
}

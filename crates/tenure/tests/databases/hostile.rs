//! Attacks on both databases that succeed.

use std::time::{Duration, Instant};

use tenure::Health;

use crate::databases::hold_ups::{hold_up, impatient, locked};
use crate::databases::{LONG, chain, millis, open, until};
use crate::{Server, dialect};

/// A claim that could not be written must not leave a listener and an interest behind for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_a_claim_that_is_refused_in_line_does_not_keep_the_mailbox_open() {
    let server = Server::start().unwrap();
    let (ann, bob) = (open(&server.url()).await, impatient(&server).await);
    let held = ann.mutex("a").ttl(LONG).lock().await.unwrap();
    let other = hold_up(&server, "a");
    let error = bob.mutex("a").ttl(LONG).lock().await.unwrap_err();
    println!("{}", chain(&error));
    assert!(error.nothing_changed(), "{error:?}");
    drop(other);
    bob.settled().await;
    assert!(crate::databases::entry(&ann, "a").await.waiters.is_empty());
    held.release().await.unwrap();
    // Closed 5 s after the client last waited; here it is given 15.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(15) {
        tokio::time::sleep(millis(500)).await;
    }
    assert_eq!(dialect::mailboxes(&server), 0, "nobody waits for anything");
}

/// Renewals of leases that are shared or waited for are done one after the other: each that is held up takes
/// `timeout=`, and the others of the batch wait for it, also those that the database has renewed long ago.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_shared_leases_that_are_held_up_do_not_hold_up_the_others() {
    let server = Server::start().unwrap();
    let client = impatient(&server).await;
    let ttl = millis(12_000);
    let mut shared = Vec::new();
    for number in 0..6 {
        let lock = client.rwlock(&format!("a {number}")).read().ttl(ttl);
        shared.push(lock.lock().await.unwrap());
    }
    let innocent = locked(&client, "innocent", ttl).await;
    let others: Vec<_> = shared
        .iter()
        .map(|guard| hold_up(&server, guard.name().as_str()))
        .collect();
    let begun = Instant::now();
    while begun.elapsed() < 2 * ttl {
        tokio::time::sleep(millis(100)).await;
        let health = innocent.health();
        assert!(
            !matches!(health, Health::Lost(_)),
            "{health:?} after {:?}",
            begun.elapsed()
        );
    }
    drop(others);
}

/// The same with many more names than that: what a healthy client needs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_a_line_for_one_held_up_name_does_not_hold_up_other_leases() {
    let server = Server::start().unwrap();
    let (client, bob) = (impatient(&server).await, open(&server.url()).await);
    let ttl = millis(9_000);
    let mut waited_for = Vec::new();
    for number in 0..4 {
        let name = format!("a {number}");
        waited_for.push(locked(&client, &name, ttl).await);
        let waiting = crate::databases::waiter(&bob, &name, LONG);
        until("a waiter", async || {
            let entry = crate::databases::entry(&bob, &name).await;
            entry.waiters.len() == 1
        })
        .await;
        drop(waiting);
    }
    let innocent = locked(&client, "innocent", ttl).await;
    let others: Vec<_> = waited_for
        .iter()
        .map(|guard| hold_up(&server, guard.name().as_str()))
        .collect();
    let begun = Instant::now();
    while begun.elapsed() < 2 * ttl {
        tokio::time::sleep(millis(100)).await;
        let health = innocent.health();
        assert!(
            !matches!(health, Health::Lost(_)),
            "{health:?} after {:?}",
            begun.elapsed()
        );
    }
    drop(others);
}

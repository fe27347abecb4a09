//! Votes that are split between concurrent claims: they settle, and only one holds the lock at a
//! time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tenure::{Client, Guard, Outcome};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::nodes::{Nodes, Wires};
use crate::{
    LONG, PATIENCE, STEADY, chain, is_held, millis, open, take_turns, until, until_renewed,
};

/// A room that only one may be in, and the fences of its visitors.
#[derive(Debug, Default)]
pub(crate) struct Room {
    inside: AtomicUsize,
    fences: Mutex<Vec<u64>>,
}

impl Room {
    /// Enters with a guard, stays for a moment, and leaves.
    pub(crate) async fn visit(&self, guard: &Guard) {
        let fence = guard.fence().get();
        assert_eq!(self.inside.fetch_add(1, Ordering::SeqCst), 0, "two inside");
        let before = self.fences.lock().unwrap().last().copied();
        assert!(before < Some(fence), "{fence} after {before:?}");
        self.fences.lock().unwrap().push(fence);
        tokio::task::yield_now().await;
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }

    pub(crate) fn visits(&self) -> usize {
        self.fences.lock().unwrap().len()
    }
}

/// How a client asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// Waits in line.
    Lock,
    /// Retries without waiting.
    Try,
}

pub(crate) async fn ask(client: &Client, how: How) -> Guard {
    let lock = client.mutex("a").ttl(LONG);
    let begun = Instant::now();
    loop {
        let granted = match how {
            How::Lock => lock.lock().await.map(Some),
            How::Try => lock.try_lock().await,
        };
        match granted {
            Ok(Some(guard)) => return guard,
            Ok(None) => sleep(millis(1).mul_f64(5.0 * fastrand::f64())).await,
            Err(error) => panic!("{how:?}: {}", chain(&error)),
        }
        assert!(begun.elapsed() < 2 * PATIENCE, "{how:?} starves");
    }
}

/// Lets four clients compete for one name, each in its own way.
async fn fight(nodes: &Nodes, hows: [How; 4], rounds: usize) {
    let room = Arc::new(Room::default());
    let mut fighters = JoinSet::new();
    for how in hows {
        let (client, room) = (open(&nodes.url()).await, Arc::clone(&room));
        fighters.spawn(async move {
            for _ in 0..rounds {
                let guard = ask(&client, how).await;
                room.visit(&guard).await;
                assert_eq!(guard.release().await.unwrap(), Outcome::Released);
            }
        });
    }
    while let Some(fighter) = fighters.join_next().await {
        fighter.unwrap();
    }
    assert_eq!(room.visits(), 4 * rounds);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_gets_its_turn_at_three_nodes() {
    let nodes = Nodes::start(3);
    fight(&nodes, [How::Lock; 4], 30).await;
    nodes.until_all_empty().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_gets_its_turn_at_five_nodes() {
    let nodes = Nodes::start(5);
    fight(&nodes, [How::Lock; 4], 30).await;
    nodes.until_all_empty().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_tries_gets_its_turn_at_three_nodes() {
    let nodes = Nodes::start(3);
    fight(&nodes, [How::Try; 4], 30).await;
    nodes.until_all_empty().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_tries_gets_its_turn_at_five_nodes() {
    let nodes = Nodes::start(5);
    fight(&nodes, [How::Try; 4], 30).await;
    nodes.until_all_empty().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_gets_its_turn_with_one_of_three_dead() {
    let mut nodes = Nodes::start(3);
    nodes.0[1].kill().unwrap();
    fight(&nodes, [How::Lock; 4], 15).await;
    nodes.until_empty_but([0, 2], "").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_tries_gets_its_turn_with_one_of_three_dead() {
    let mut nodes = Nodes::start(3);
    nodes.0[1].kill().unwrap();
    fight(&nodes, [How::Try; 4], 15).await;
    nodes.until_empty_but([0, 2], "").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_and_who_tries_get_their_turns_with_two_of_five_dead() {
    let mut nodes = Nodes::start(5);
    nodes.0[0].kill().unwrap();
    nodes.0[3].kill().unwrap();
    fight(&nodes, [How::Lock, How::Try, How::Lock, How::Lock], 10).await;
    nodes.until_empty_but([1, 2, 4], "").await;
}

/// B4: another client has one of three nodes.
#[tokio::test]
async fn a_name_that_one_of_three_gave_away_is_granted_by_the_others() {
    let nodes = Nodes::start(3);
    let stranger = open(&nodes.0[0].url()).await;
    let theirs = stranger.mutex("a").ttl(LONG).lock().await.unwrap();
    let (ann, bob) = (open(&nodes.url()).await, open(&nodes.url()).await);
    take_turns(&ann, &bob, "a").await;
    let guard = ann
        .mutex("a")
        .ttl(STEADY)
        .try_lock()
        .await
        .unwrap()
        .unwrap();
    until_renewed(&guard).await;
    assert!(is_held(&guard) && !guard.time_left().is_zero());
    assert!(bob.mutex("a").try_lock().await.unwrap().is_none());
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    nodes.until_empty_but([1, 2], "").await;
    assert_eq!(nodes.fence(0, "a"), Some(theirs.fence().get()));
    assert!(is_held(&theirs));
    assert_eq!(theirs.release().await.unwrap(), Outcome::Released);
    nodes.until_all_empty().await;
}

/// B4: another client has two of three nodes, and the wait is longer than the lease.
#[tokio::test]
async fn a_name_that_two_of_three_gave_away_is_not_granted() {
    let nodes = Nodes::start(3);
    let mut theirs = Vec::new();
    for node in [0, 1] {
        let stranger = open(&nodes.0[node].url()).await;
        theirs.push(stranger.mutex("a").ttl(LONG).lock().await.unwrap());
    }
    let client = open(&nodes.url()).await;
    let lock = client.mutex("a").ttl(millis(200));
    assert!(lock.try_lock().await.unwrap().is_none());
    nodes.until_empty_but([2], "").await;
    let waited = lock.lock_timeout(millis(1000)).await;
    assert!(waited.is_err(), "{waited:?}");
    nodes.until_empty_but([0, 1], "a").await;
    nodes.until_empty_but([2], "").await;
    assert!(theirs.iter().all(is_held));
}

/// B5: the vote is lost, and the reply of one node that granted is lost.
#[tokio::test]
async fn a_lost_vote_is_taken_back_also_where_its_answer_was_lost() {
    let nodes = Nodes::start(3);
    let wires = Wires::to(&nodes);
    let client = open(&wires.url()).await;
    let mut theirs = Vec::new();
    for node in [1, 2] {
        let stranger = open(&nodes.0[node].url()).await;
        theirs.push(stranger.mutex("a").ttl(LONG).lock().await.unwrap());
    }
    for round in 1..=10 {
        wires.0[0].lose_reply_then_cut(b"EVALSHA");
        let tried = client.mutex("a").ttl(LONG).try_lock().await;
        assert!(!matches!(tried, Ok(Some(_))), "{tried:?}");
        until("the answer to be lost", async || {
            wires.0[0].replies_swallowed() == round
        })
        .await;
        nodes.until_empty_but([0], "").await;
    }
    assert!(theirs.iter().all(is_held));
}

/// B5 for a claim that wins anyway, and releases a lease that it does not know of.
#[tokio::test]
async fn a_release_reaches_the_node_whose_answer_was_lost() {
    let nodes = Nodes::start(3);
    let wires = Wires::to(&nodes);
    let client = open(&wires.url()).await;
    for round in 1..=10 {
        wires.0[1].lose_reply_then_cut(b"EVALSHA");
        let guard = client.mutex("a").ttl(LONG).lock().await.unwrap();
        until("the answer to be lost", async || {
            wires.0[1].replies_swallowed() == round
        })
        .await;
        assert_eq!(guard.release().await.unwrap(), Outcome::Released);
        nodes.until_all_empty().await;
    }
}

/// Replies to the vote still arrive while the lock is already being released, and the script of the
/// release must first be sent to the servers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_right_after_the_grant_finds_what_it_frees() {
    let nodes = Nodes::start(5);
    for round in 0..15 {
        let mut clients = Vec::new();
        for _ in 0..8 {
            // A new client does not know the clocks of the nodes, so it has to ask twice.
            clients.push(open(&nodes.url()).await);
        }
        for server in &nodes.0 {
            server.cli(&["SCRIPT", "FLUSH", "SYNC"]);
        }
        let mut tasks = JoinSet::new();
        for (name, client) in clients.into_iter().enumerate() {
            tasks.spawn(async move {
                let lock = client.mutex(&format!("a{name}")).ttl(LONG);
                lock.lock().await.unwrap().release().await.unwrap()
            });
        }
        for released in tasks.join_all().await {
            assert_eq!(released, Outcome::Released, "round {round}");
        }
        nodes.until_all_empty().await;
    }
}

//! Late replies: a lease that has expired when they arrive is not a grant, and no guard claims
//! otherwise.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure::{Error, Guard, Health, Loss, Outcome};
use tenure_testkit::Fault;
use tokio::time::timeout;

use crate::nodes::{Nodes, Wires};
use crate::{LONG, PATIENCE, chain, is_held, lock, millis, open, until};

/// K5: all nodes grant at once, and their replies are in flight for longer than the lease lasts.
#[tokio::test]
async fn answers_that_come_after_the_lease_are_no_grant() {
    let nodes = Nodes::start(3);
    let wires = Wires::to(&nodes);
    // The timeout of replies is far longer than they take.
    let url = wires.url_with("restart_delay=off&timeout=1h&connect_timeout=1h");
    let (ann, bob) = (open(&url).await, open(&nodes.url()).await);
    lock(&ann, "a").await.release().await.unwrap();
    for wire in &wires.0 {
        wire.set(Fault::Delay(millis(300)));
    }
    let late = ann.mutex("a").ttl(millis(200));
    let tried = late.try_lock().await;
    let waited = late.lock_timeout(PATIENCE).await;
    for error in [tried.map(drop).unwrap_err(), waited.map(drop).unwrap_err()] {
        let text = chain(&error);
        assert!(text.contains("longer than the lease lasts"), "{text}");
        assert!(matches!(error, Error::Unavailable { .. }), "{text}");
    }
    nodes.until_all_empty().await;
    lock(&bob, "a").await.release().await.unwrap();
    for wire in &wires.0 {
        wire.set(Fault::Pass);
    }
    lock(&ann, "a").await.release().await.unwrap();
    nodes.until_all_empty().await;
}

/// B7: the majority needs the slow node.
#[tokio::test]
async fn a_slow_node_that_is_needed_makes_no_grant_that_is_over() {
    let mut nodes = Nodes::start(3);
    let wires = Wires::to(&nodes);
    let client = open(&wires.url()).await;
    lock(&client, "a").await.release().await.unwrap();
    nodes.0[2].kill().unwrap();
    wires.0[1].set(Fault::Delay(millis(300)));
    for _ in 0..3 {
        match client.mutex("a").ttl(millis(400)).try_lock().await {
            Ok(granted) => assert!(granted.is_none(), "{:?}", granted.map(|g| g.health())),
            Err(error) => assert!(chain(&error).contains("redlock"), "{error}"),
        }
    }
    nodes.until_empty_but([0], "").await;
    wires.0[1].set(Fault::Pass);
    nodes.until_empty_but([1], "").await;
}

/// B7 for a guard: the slow node cannot renew it.
#[tokio::test]
async fn a_guard_that_a_slow_node_cannot_renew_is_lost_in_time() {
    let mut nodes = Nodes::start(3);
    let wires = Wires::to(&nodes);
    let (ann, bob) = (open(&wires.url()).await, open(&nodes.url()).await);
    let hers = ann.mutex("a").ttl(millis(1000)).lock().await.unwrap();
    let hers = Arc::new(hers);
    nodes.0[2].kill().unwrap();
    wires.0[1].set(Fault::Delay(millis(1500)));
    let (waiting, older) = (bob.mutex("a").ttl(LONG), Arc::clone(&hers));
    let waiting = tokio::spawn(async move {
        // With a dead node the first attempt may fail.
        loop {
            if let Ok(guard) = waiting.lock().await {
                return (guard, older.health());
            }
        }
    });
    let loss = timeout(PATIENCE, hers.lost()).await.unwrap();
    assert!(matches!(loss, Loss::Expired | Loss::Unreachable), "{loss}");
    assert!(hers.time_left().is_zero());
    wires.0[1].set(Fault::Pass);
    let (his, known) = timeout(PATIENCE, waiting).await.unwrap().unwrap();
    assert!(
        matches!(known, Health::Lost(_)),
        "when he has it: {known:?}"
    );
    let hers = Arc::into_inner(hers).unwrap();
    assert!(hers.fence() < his.fence());
    assert!(matches!(hers.health(), Health::Lost(_)));
    assert!(matches!(hers.release().await, Ok(Outcome::NotHeld(_))));
    assert!(is_held(&his));
}

/// B8: a lease is renewed repeatedly over slow connections, and its holder never counts on more
/// time than a majority of the servers grants.
#[tokio::test]
async fn a_guard_never_ends_later_than_its_lease_at_a_majority() {
    let nodes = Nodes::start(3);
    let wires = Wires::to(&nodes);
    let client = open(&wires.url()).await;
    for wire in &wires.0 {
        wire.set(Fault::Delay(millis(25)));
    }
    let ttl = millis(4500);
    let guard = client.mutex("a").ttl(ttl).lock().await.unwrap();
    let (mut renewals, mut last) = (0, Duration::ZERO);
    let begun = Instant::now();
    until("6 renewals", async || {
        let left = ends_in_time(&nodes, &guard);
        renewals += u32::from(left > last);
        last = left;
        renewals >= 6
    })
    .await;
    println!("{renewals} renewals in {:?}", begun.elapsed());
    // A renewal in each third of the ttl and no more.
    assert!(begun.elapsed() > ttl, "{:?}", begun.elapsed());
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    nodes.until_all_empty().await;
}

/// Compares the guard's end with those at the servers; returns the guard's remaining time.
fn ends_in_time(nodes: &Nodes, guard: &Guard) -> Duration {
    let asked = Instant::now();
    let left = guard.time_left();
    let mut kept = 0;
    for server in &nodes.0 {
        let pttl = server.cli(&["PTTL", &Nodes::key("a")]);
        let pttl = pttl.parse().unwrap_or(0);
        // Renewed meanwhile or not, the server's end only moves forward.
        let ends = Instant::now() + millis(pttl + 1);
        kept += usize::from(ends >= asked + left);
    }
    assert!(is_held(guard), "{:?} with {left:?} left", guard.health());
    assert!(kept >= 2, "{kept} of 3 keep it for {left:?}");
    left
}

//! K3: clocks of nodes that jump. Below a majority there is no effect; otherwise the fence still
//! reveals it.

use tenure::{Client, Guard, Lease, LeaseRenewal, Outcome};
use tenure_testkit::{Fault, RedisServer};

use crate::nodes::{Nodes, Wires};
use crate::{LONG, lock, open, take_turns, until};

fn start() -> Nodes {
    let nodes = Nodes::start_as(3, &RedisServer::builder().movable_clock());
    for server in &nodes.0 {
        server.move_clock(0).unwrap();
    }
    nodes
}

async fn lease(client: &Client) -> Lease {
    client.mutex("a").ttl(LONG).lease().await.unwrap()
}

async fn try_lock(client: &Client) -> Option<Guard> {
    let tried = client.mutex("a").ttl(LONG).try_lock().await;
    tried.unwrap_or_else(|error| panic!("{}", crate::chain(&error)))
}

/// Retries until the name is granted: what is left of one attempt may block the next for a moment.
async fn until_granted(client: &Client) -> Guard {
    let mut granted = None;
    until("a grant", async || {
        granted = try_lock(client).await;
        granted.is_some()
    })
    .await;
    granted.unwrap()
}

/// Later than any lease of these tests.
const FAR_MS: i64 = 10_000_000;

#[tokio::test]
async fn a_clock_that_jumps_ahead_at_one_of_three_frees_nothing() {
    let nodes = start();
    let (ann, bob) = (open(&nodes.url()).await, open(&nodes.url()).await);
    let hers = lease(&ann).await;
    let fence = hers.fence.unwrap();
    nodes.until_all_have("a", fence.get()).await;
    nodes.0[1].move_clock(FAR_MS).unwrap();
    assert!(!nodes.is_taken(1, "a"), "its lease is over there");
    for _ in 0..20 {
        assert!(try_lock(&bob).await.is_none());
    }
    assert_eq!(
        ann.renew(&hers).await.unwrap(),
        LeaseRenewal::Renewed(fence)
    );
    assert!(try_lock(&bob).await.is_none());
    ann.release(&hers).await.unwrap();
    let his = until_granted(&bob).await;
    assert!(fence < his.fence());
}

/// The known weakness of Redlock: two hold the name, and the resource detects it by the fence.
#[tokio::test]
async fn a_clock_that_jumps_ahead_at_one_of_just_two_lets_another_in_with_a_larger_fence() {
    let nodes = start();
    let wires = Wires::to(&nodes);
    let (ann, bob) = (open(&wires.url()).await, open(&nodes.url()).await);
    wires.cut_off(2);
    let hers = lease(&ann).await;
    assert!(!nodes.is_taken(2, "a"), "she holds just two");
    assert!(try_lock(&bob).await.is_none());
    nodes.0[1].move_clock(FAR_MS).unwrap();
    let his = until_granted(&bob).await;
    assert!(nodes.is_taken(0, "a"), "she still holds one");
    assert!(hers.fence.unwrap() < his.fence());
    // Fences continue from there after the clock is corrected, and while that node is away.
    let mut before = his.fence();
    his.release().await.unwrap();
    wires.0[2].set(Fault::Pass);
    until("her loss", async || {
        matches!(ann.renew(&hers).await, Ok(LeaseRenewal::Lost(_)))
    })
    .await;
    nodes.0[1].move_clock(0).unwrap();
    for _ in 0..3 {
        let next = lock(&bob, "a").await;
        assert!(before < next.fence());
        before = next.fence();
        next.release().await.unwrap();
    }
    let fresh = open(&nodes.url()).await;
    nodes.0[1].freeze().unwrap();
    assert!(before < lock(&fresh, "a").await.fence());
    nodes.0[1].thaw().unwrap();
}

#[tokio::test]
async fn a_clock_that_jumps_back_at_one_of_three_keeps_nobody_out() {
    let nodes = start();
    let (ann, bob) = (open(&nodes.url()).await, open(&nodes.url()).await);
    take_turns(&ann, &bob, "a").await;
    let hers = lease(&ann).await;
    let fence = hers.fence.unwrap();
    nodes.until_all_have("a", fence.get()).await;
    nodes.0[0].move_clock(-FAR_MS).unwrap();
    let left: i64 = nodes.0[0].cli(&["PTTL", &Nodes::key("a")]).parse().unwrap();
    assert!(left > FAR_MS, "there it lasts for {left} ms");
    // Its lease expires where clocks are right.
    for node in [1, 2] {
        nodes.0[node].move_clock(FAR_MS + 1000).unwrap();
        assert!(!nodes.is_taken(node, "a"), "its lease is over there");
    }
    let his = lock(&bob, "a").await;
    assert!(fence < his.fence());
    assert!(nodes.is_taken(0, "a"));
    his.release().await.unwrap();
    take_turns(&ann, &bob, "a").await;
    take_turns(&ann, &bob, "b").await;
}

#[tokio::test]
async fn a_clock_that_jumps_to_and_fro_under_a_guard_ends_nothing() {
    let nodes = start();
    let (ann, bob) = (open(&nodes.url()).await, open(&nodes.url()).await);
    let guard = lock(&ann, "a").await;
    nodes.until_all_have("a", guard.fence().get()).await;
    for ahead_ms in [FAR_MS, 0, -5000, -FAR_MS, 2 * FAR_MS, 0] {
        nodes.0[1].move_clock(ahead_ms).unwrap();
        renewed_at_once(&nodes, &guard).await;
        assert!(try_lock(&bob).await.is_none());
        assert!(crate::is_held(&guard));
    }
    let fence = guard.fence();
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    assert!(fence < lock(&bob, "a").await.fence());
}

/// Disconnects the holder from a node for a moment, which makes it renew its lease.
async fn renewed_at_once(nodes: &Nodes, guard: &Guard) {
    nodes.0[0].cli(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    crate::until_renewed(guard).await;
}

/// Nodes whose clocks differ agree on one number, and on a larger one each time.
#[tokio::test]
async fn fences_grow_with_clocks_that_are_hours_apart() {
    let nodes = start();
    nodes.0[0].move_clock(-3_600_000).unwrap();
    nodes.0[2].move_clock(7_200_000).unwrap();
    let mut before = 0;
    for round in 0..12 {
        let client = open(&nodes.url()).await;
        // Another majority each time.
        nodes.0[round % 3].freeze().unwrap();
        let guard = lock(&client, "a").await;
        assert!(before < guard.fence().get(), "round {round}");
        before = guard.fence().get();
        nodes.0[round % 3].thaw().unwrap();
        guard.release().await.unwrap();
        nodes.until_all_free().await;
    }
}

//! A minority of the nodes is away in various ways, and locks continue to work.

use tenure::store::redlock;
use tenure::{Client, Error, Outcome};
use tenure_testkit::Fault;

use crate::nodes::{Nodes, Wires};
use crate::owners::{claim, granted};
use crate::{LONG, STEADY, is_held, open, take_turns, until, until_renewed};

/// How nodes go away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    CutOff,
    Frozen,
    Killed,
    /// Killed, and restarted at once without its data.
    Restarted,
}

fn send_away(nodes: &mut Nodes, wires: &Wires, node: usize, way: Way) {
    match way {
        Way::CutOff => {
            wires.cut_off(node);
            assert!(wires.0[node].connections_cut() >= 2);
        }
        Way::Frozen => nodes.0[node].freeze().unwrap(),
        Way::Killed => nodes.0[node].kill().unwrap(),
        Way::Restarted => nodes.0[node].start_again().unwrap(),
    }
}

fn bring_back(nodes: &mut Nodes, wires: &Wires, node: usize, way: Way) {
    match way {
        Way::CutOff => wires.0[node].set(Fault::Pass),
        Way::Frozen => nodes.0[node].thaw().unwrap(),
        Way::Killed => nodes.0[node].start_again().unwrap(),
        Way::Restarted => {}
    }
}

/// Locks are granted, renewed, released and handed over while all nodes except a majority are away.
async fn goes_on(count: usize, way: Way) {
    let mut nodes = Nodes::start(count);
    let wires = Wires::to(&nodes);
    let (ann, bob) = (open(&wires.url()).await, open(&wires.url()).await);
    take_turns(&ann, &bob, "before").await;
    let held = ann.mutex("held").ttl(STEADY).lock().await.unwrap();
    let minority = 0..(count - 1) / 2;
    for node in minority.clone() {
        send_away(&mut nodes, &wires, node, way);
    }
    take_turns(&ann, &bob, "away").await;
    let new = ann.mutex("new").ttl(STEADY).lock().await.unwrap();
    tokio::join!(until_renewed(&held), until_renewed(&new));
    assert!(is_refused(&bob, "held").await && is_refused(&bob, "new").await);
    assert_eq!(held.release().await.unwrap(), Outcome::Released);
    for node in minority {
        bring_back(&mut nodes, &wires, node, way);
    }
    take_turns(&ann, &bob, "back").await;
    assert_eq!(new.release().await.unwrap(), Outcome::Released);
    nodes.until_all_free().await;
    // Nothing else that was left behind blocks it either.
    take_turns(&bob, &ann, "away").await;
    nodes.until_all_empty().await;
}

async fn is_refused(client: &Client, name: &str) -> bool {
    client.mutex(name).try_lock().await.unwrap().is_none()
}

#[tokio::test]
async fn one_of_three_may_be_cut_off() {
    goes_on(3, Way::CutOff).await;
}

#[tokio::test]
async fn one_of_three_may_be_frozen() {
    goes_on(3, Way::Frozen).await;
}

#[tokio::test]
async fn one_of_three_may_be_killed() {
    goes_on(3, Way::Killed).await;
}

#[tokio::test]
async fn one_of_three_may_forget_all() {
    goes_on(3, Way::Restarted).await;
}

#[tokio::test]
async fn two_of_five_may_be_cut_off() {
    goes_on(5, Way::CutOff).await;
}

#[tokio::test]
async fn two_of_five_may_be_frozen() {
    goes_on(5, Way::Frozen).await;
}

#[tokio::test]
async fn two_of_five_may_be_killed() {
    goes_on(5, Way::Killed).await;
}

#[tokio::test]
async fn two_of_five_may_forget_all() {
    goes_on(5, Way::Restarted).await;
}

/// Waiting for its replies would take longer than the test lasts, so whatever works does so without
/// it.
#[tokio::test]
async fn a_frozen_minority_is_waited_for_by_nobody() {
    for count in [3, 5] {
        let nodes = Nodes::start(count);
        let url = nodes.url_with("restart_delay=off&timeout=1h&connect_timeout=1h");
        let (ann, bob) = (open(&url).await, open(&url).await);
        // The clients know the scripts and the clocks of all nodes.
        take_turns(&ann, &bob, "before").await;
        nodes.until_all_empty().await;
        for node in 0..(count - 1) / 2 {
            nodes.0[node].freeze().unwrap();
        }
        let here = (count - 1) / 2..count;
        for name in ["a", "b", "a"] {
            let hers = ann.mutex(name).ttl(LONG).try_lock().await.unwrap().unwrap();
            assert!(is_refused(&bob, name).await);
            let waiting = bob.mutex(name).ttl(LONG);
            let waiting = tokio::spawn(async move { waiting.lock().await.unwrap() });
            for node in here.clone() {
                until("a place in line", async || nodes.line(node, name) == "1").await;
            }
            let fence = hers.fence();
            assert_eq!(hers.release().await.unwrap(), Outcome::Released);
            let his = waiting.await.unwrap();
            assert!(fence < his.fence());
            assert_eq!(his.release().await.unwrap(), Outcome::Released);
        }
        nodes.until_empty_but(here, "").await;
    }
}

/// It is asked for its vote while it is frozen, and grants when everything is over.
#[tokio::test]
async fn a_node_that_wakes_up_late_keeps_no_lease() {
    let nodes = Nodes::start(3);
    let client = open(&nodes.url()).await;
    nodes.0[2].freeze().unwrap();
    let guard = client.mutex("released").ttl(LONG).lock().await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    let guard = client.mutex("dropped").ttl(LONG).lock().await.unwrap();
    drop(guard);
    let held = client.mutex("held").ttl(LONG).lock().await.unwrap();
    nodes.until_empty_but([0, 1], "held").await;
    nodes.0[2].thaw().unwrap();
    nodes.until_empty_but([2], "held").await;
    assert_eq!(held.release().await.unwrap(), Outcome::Released);
    nodes.until_all_empty().await;
}

/// The same if the requests to it have timed out before it continues.
#[tokio::test]
async fn a_node_that_wakes_up_after_all_requests_have_failed_keeps_no_lease() {
    let nodes = Nodes::start(3);
    let wires = Wires::to(&nodes);
    let client =
        open(&wires.url_with("restart_delay=off&timeout=500ms&connect_timeout=500ms")).await;
    nodes.0[2].freeze().unwrap();
    let given_up = async || {
        let before = wires.0[2].connections_accepted();
        until("the wire to the node to be given up", async || {
            wires.0[2].connections_accepted() > before
        })
        .await;
    };
    let guard = crate::lock(&client, "a").await;
    given_up().await;
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    given_up().await;
    nodes.0[2].thaw().unwrap();
    nodes.until_all_empty().await;
}

/// One node refuses, and one connection breaks: the third reply is waited for, because the two are
/// a majority.
#[tokio::test]
async fn a_wire_that_breaks_right_now_is_no_reason_to_fail() {
    let nodes = Nodes::start(3);
    let (ann, bob) = (open(&nodes.url()).await, open(&nodes.url()).await);
    let hers = ann.mutex("a").ttl(LONG).lock().await.unwrap();
    for round in 0..60 {
        // The client has not noticed it yet when it asks.
        let server = &nodes.0[round % 3];
        assert_ne!(server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]), "0");
        let tried = bob.mutex("a").try_lock().await;
        let tried = tried.unwrap_or_else(|error| panic!("{round}: {}", crate::chain(&error)));
        assert!(tried.is_none());
        until_connected(&nodes, 2).await;
    }
    assert!(is_held(&hers));
}

/// Waits until this many connections listen at every node; each client has one.
async fn until_connected(nodes: &Nodes, count: usize) {
    for server in &nodes.0 {
        crate::until("the clients to be back", async || {
            let clients = server.cli(&["CLIENT", "LIST", "TYPE", "pubsub"]);
            clients.lines().count() == count
        })
        .await;
    }
}

/// The node that granted cannot be reached, and the reachable one was taken by others: it is
/// unknown whether a majority still holds the lease.
#[tokio::test]
async fn asking_again_while_a_node_is_away_does_not_cost_the_lock() {
    let nodes = Nodes::start(3);
    let wires = Wires::to(&nodes);
    let ann = redlock::open(&wires.url()).await.unwrap();
    wires.cut_off(2);
    let claim = claim("a", None);
    let fence = granted(&ann, &claim).await;
    // Another client has the third node, as one that lost a vote may have for a while.
    let other = open(&nodes.0[2].url()).await;
    let rival = other.mutex("a").ttl(LONG).lock().await.unwrap();
    wires.0[2].set(Fault::Pass);
    until("the third node to be back", async || {
        wires.0[2].connections_open() > 0
    })
    .await;
    wires.cut_off(0);
    let unknown = ann.acquire(&claim).await;
    assert!(
        matches!(unknown, Err(Error::Indeterminate { .. })),
        "{unknown:?}"
    );
    wires.0[0].set(Fault::Pass);
    until("a majority to be there", async || {
        ann.acquire(&claim).await.is_ok()
    })
    .await;
    assert_eq!(granted(&ann, &claim).await, fence);
    assert!(is_held(&rival));
}

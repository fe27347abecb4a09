//! Nodes that forget: those that have just restarted do not vote, and get back what they forgot.

use std::time::{Duration, Instant};

use tenure::{Client, Error, Guard, Lease, LeaseRenewal, Outcome};
use tokio::time::{sleep, timeout};

use crate::nodes::{Nodes, Wires};
use crate::{LONG, PATIENCE, SHORT, chain, is_held, lock, millis, open, until, until_renewed};

/// Holds a name at the first two of three nodes; has no connection to the third.
#[derive(Debug)]
struct Ann {
    client: Client,
    wires: Wires,
}

impl Ann {
    async fn new(nodes: &Nodes, options: &str) -> Self {
        let wires = Wires::to(nodes);
        let client = open(&wires.url_with(options)).await;
        wires.cut_off(2);
        Self { client, wires }
    }

    async fn lease(&self, ttl: Duration) -> Lease {
        let lock = self.client.mutex("a").ttl(ttl);
        loop {
            // Until all nodes have been up long enough to vote.
            if let Ok(lease) = lock.lease().await {
                return lease;
            }
        }
    }

    fn is_at_two(&self, nodes: &Nodes) {
        assert_eq!(nodes.fence(0, "a"), nodes.fence(1, "a"));
        assert!(nodes.is_taken(0, "a") && !nodes.is_taken(2, "a"));
        assert!(self.wires.0[2].connections_cut() > 0);
    }
}

/// Retries until the name is granted; returns the grant and the number of attempts.
async fn until_granted(client: &Client, ttl: Duration) -> (Guard, u32) {
    let (begun, mut asked) = (Instant::now(), 0);
    loop {
        asked += 1;
        match client.mutex("a").ttl(ttl).try_lock().await {
            Ok(Some(guard)) => return (guard, asked),
            Ok(None) => {}
            Err(error) => {
                let text = chain(&error);
                let is_known = ["restarted recently", "longer than the lease lasts"];
                assert!(is_known.iter().any(|known| text.contains(known)), "{text}");
                assert!(matches!(error, Error::Unavailable { .. }), "{text}");
            }
        }
        assert!(begun.elapsed() < PATIENCE, "asked {asked} times");
        sleep(millis(5)).await;
    }
}

/// K4: if the node that forgot voted, the second client would have a majority.
#[tokio::test]
async fn a_node_that_forgot_does_not_count_until_the_lease_is_over() {
    let mut nodes = Nodes::start(3);
    let options = "restart_delay=3s";
    let ann = Ann::new(&nodes, options).await;
    let bob = open(&nodes.url_with(options)).await;
    // Both are ready, so that the second asks in time.
    drop(until_granted(&bob, SHORT).await);
    nodes.until_all_empty().await;
    let ttl = millis(2900);
    let begun = Instant::now();
    let hers = ann.lease(ttl).await;
    let (asked, late) = (Instant::now(), begun.elapsed());
    nodes.0[1].start_again().unwrap();
    assert!(!nodes.is_taken(1, "a"), "it has forgotten the lease");
    let (his, tries) = until_granted(&bob, SHORT).await;
    println!("granted after {tries} tries, {:?}", asked.elapsed());
    assert!(
        asked.elapsed() + late > ttl,
        "granted while the lease was running"
    );
    assert!(hers.fence.unwrap() < his.fence());
}

/// The same at the worst moment: the server counts whole seconds, and the first one is short.
#[tokio::test]
async fn the_first_second_of_a_node_is_not_counted_as_a_whole() {
    let builder = tenure_testkit::RedisServer::builder().movable_clock();
    let mut nodes = Nodes::start_as(3, &builder);
    let options = "restart_delay=2s";
    let ann = Ann::new(&nodes, options).await;
    drop(until_granted(&ann.client, SHORT).await);
    nodes.until_all_empty().await;
    let ttl = millis(1900);
    let begun = Instant::now();
    ann.lease(ttl).await;
    nodes.0[1].kill().unwrap();
    start_late_in_a_second(&mut nodes, 1);
    until("the server's first second to be over", async || {
        nodes.0[1].info("uptime_in_seconds").unwrap() != "0"
    })
    .await;
    let bob = open(&nodes.url_with(options)).await;
    let (his, _) = until_granted(&bob, SHORT).await;
    assert!(begun.elapsed() > ttl, "granted while the lease was running");
    his.release().await.unwrap();
}

/// Starts a server whose clock shows that a second is nearly over.
fn start_late_in_a_second(nodes: &mut Nodes, node: usize) {
    let now = std::time::SystemTime::now();
    let now = now.duration_since(std::time::UNIX_EPOCH).unwrap();
    let ahead_ms = 1700 - i64::from(now.subsec_millis());
    nodes.0[node].leave_clock(ahead_ms).unwrap();
    nodes.0[node].start_again().unwrap();
}

/// Why this is necessary: if the user says that nodes never forget, and they do, there are two
/// holders.
#[tokio::test]
async fn without_restart_delay_two_hold_and_their_fences_differ() {
    let mut nodes = Nodes::start(3);
    let ann = Ann::new(&nodes, "restart_delay=off").await;
    let bob = open(&nodes.url()).await;
    let hers = ann.lease(LONG).await;
    ann.is_at_two(&nodes);
    nodes.0[1].start_again().unwrap();
    let (his, _) = until_granted(&bob, LONG).await;
    assert!(nodes.is_taken(0, "a"), "the first still has its lease");
    assert!(hers.fence.unwrap() < his.fence());
    assert!(is_held(&his));
    // The first client has lost its majority, and learns of it when it asks all nodes.
    ann.wires.0[2].set(tenure_testkit::Fault::Pass);
    until("the loss", async || {
        matches!(ann.client.renew(&hers).await, Ok(LeaseRenewal::Lost(_)))
    })
    .await;
    assert_eq!(his.release().await.unwrap(), Outcome::Released);
    nodes.until_all_empty().await;
}

#[tokio::test]
async fn a_node_that_forgot_gets_the_lease_back_by_its_renewal() {
    let mut nodes = Nodes::start(3);
    let (ann, bob) = (open(&nodes.url()).await, open(&nodes.url()).await);
    let guard = lock(&ann, "a").await;
    let fence = guard.fence().get();
    nodes.until_all_have("a", fence).await;
    for node in 0..3 {
        nodes.0[node].start_again().unwrap();
        nodes.until_all_have("a", fence).await;
        assert!(bob.mutex("a").try_lock().await.unwrap().is_none());
    }
    assert!(is_held(&guard));
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    nodes.until_all_empty().await;
}

/// B6: the holder loses its majority, and gets it back.
#[tokio::test]
async fn the_last_but_one_node_that_forgot_gets_the_lease_back() {
    let mut nodes = Nodes::start(3);
    let ann = open(&nodes.url()).await;
    nodes.0[2].kill().unwrap();
    let guard = lock(&ann, "a").await;
    let fence = guard.fence().get();
    nodes.0[1].start_again().unwrap();
    until("the node to have the lease again", async || {
        nodes.fence(1, "a") == Some(fence)
    })
    .await;
    until_renewed(&guard).await;
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
}

#[tokio::test]
async fn a_lease_that_is_over_is_never_given_back() {
    let mut nodes = Nodes::start(3);
    let client = open(&nodes.url()).await;
    let ttl = millis(400);
    let lease = client.mutex("a").ttl(ttl).lease().await.unwrap();
    // Its lease expires.
    sleep(ttl).await;
    nodes.until_all_empty().await;
    for forgets in [None, Some(1)] {
        if let Some(node) = forgets {
            let node: usize = node;
            nodes.0[node].start_again().unwrap();
        }
        until("an answer", async || match client.renew(&lease).await {
            Ok(LeaseRenewal::Renewed(fence)) => panic!("{fence} is over"),
            Ok(LeaseRenewal::Lost(_)) => true,
            Err(_) => false,
        })
        .await;
        nodes.until_all_empty().await;
    }
    let other = lock(&client, "a").await;
    assert!(matches!(
        client.renew(&lease).await,
        Ok(LeaseRenewal::Lost(_))
    ));
    assert!(is_held(&other));
    assert!(lease.fence.unwrap() < other.fence());
}

/// All nodes forget while a client holds the lock: only the client itself still knows of it.
#[tokio::test]
async fn a_lease_that_all_nodes_forgot_is_given_back_or_lost() {
    let mut nodes = Nodes::start(3);
    let (ann, bob) = (open(&nodes.url()).await, open(&nodes.url()).await);
    for round in 0..5 {
        let name = format!("a{round}");
        let hers = lock(&ann, &name).await;
        for node in 0..3 {
            nodes.0[node].start_again().unwrap();
        }
        let (client, wanted) = (bob.clone(), name.clone());
        let waiting = tokio::spawn(async move { lock(&client, &wanted).await });
        // Either she learns that it is lost, or he waits until she releases it.
        until("her loss or her lease", async || {
            !is_held(&hers) || (0..3).all(|node| nodes.is_taken(node, &name))
        })
        .await;
        if waiting.is_finished() {
            until("her loss", async || !is_held(&hers)).await;
        }
        let fence = hers.fence();
        hers.release().await.unwrap();
        let his = timeout(PATIENCE, waiting).await.unwrap().unwrap();
        assert!(fence < his.fence());
    }
}

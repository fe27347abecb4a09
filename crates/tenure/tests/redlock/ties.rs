//! Split votes between clients that do not see the same nodes, or not in the same order.

use std::sync::Arc;
use std::time::Duration;

use tenure::driver::Wait;
use tenure::store::redlock;
use tenure::{Client, Outcome};
use tenure_testkit::{Fault, Proxy};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::nodes::{Nodes, Wires, url};
use crate::owners::claim;
use crate::votes::{How, Room, ask};
use crate::{LONG, PATIENCE, is_held, millis, open};

/// One client, its connections to the nodes, and the order in which it lists them.
struct Zone {
    wires: Wires,
    order: Vec<usize>,
}

impl Zone {
    fn new(nodes: &Nodes, order: impl IntoIterator<Item = usize>) -> Self {
        Self {
            wires: Wires::to(nodes),
            order: order.into_iter().collect(),
        }
    }

    /// Delays all traffic to and from some nodes by this much.
    fn far_from(self, nodes: impl IntoIterator<Item = usize>, delay: Duration) -> Self {
        for node in nodes {
            self.wires.0[node].set(Fault::Delay(delay));
        }
        self
    }

    fn cut_off_from(self, nodes: impl IntoIterator<Item = usize>) -> Self {
        nodes.into_iter().for_each(|node| self.wires.cut_off(node));
        self
    }

    async fn client(&self) -> Client {
        let ports = self.order.iter().map(|node| &self.wires.0[*node]);
        open(&url(ports.map(Proxy::port), "restart_delay=off")).await
    }
}

/// Lets one client of each zone lock the name repeatedly, and work for a moment each time.
///
/// They ask at the same time at first, so that each gets the nodes that are near.
async fn everybody_is_served(zones: &[Zone], how: How) {
    let (room, start) = (Arc::new(Room::default()), Barrier::new(zones.len()));
    let start = Arc::new(start);
    let mut workers = JoinSet::new();
    for zone in zones {
        let (client, room) = (zone.client().await, Arc::clone(&room));
        let start = Arc::clone(&start);
        workers.spawn(async move {
            start.wait().await;
            for _ in 0..ROUNDS {
                let guard = ask(&client, how).await;
                room.visit(&guard).await;
                sleep(millis(15).mul_f64(fastrand::f64())).await;
                assert_eq!(guard.release().await.unwrap(), Outcome::Released);
            }
        });
    }
    let all = async {
        while let Some(worker) = workers.join_next().await {
            worker.unwrap();
        }
    };
    let served = timeout(2 * PATIENCE, all).await;
    let grants = room.visits();
    assert!(served.is_ok(), "{grants} grants in {:?}", 2 * PATIENCE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_list_their_own_node_first_are_served() {
    let nodes = Nodes::start(3);
    let zone = |own: usize| {
        let others = [(own + 1) % 3, (own + 2) % 3];
        Zone::new(&nodes, [own, others[0], others[1]]).far_from(others, millis(1))
    };
    everybody_is_served(&[zone(0), zone(1), zone(2)], How::Lock).await;
    everybody_is_served(&[zone(0), zone(1), zone(2)], How::Try).await;
    nodes.until_all_empty().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_list_the_nodes_in_opposite_orders_are_served_with_one_of_five_dead() {
    let mut nodes = Nodes::start(5);
    nodes.0[2].kill().unwrap();
    let ann = Zone::new(&nodes, 0..5).far_from([3, 4], millis(3));
    let bob = Zone::new(&nodes, (0..5).rev()).far_from([0, 1], millis(3));
    everybody_is_served(&[ann, bob], How::Lock).await;
    nodes.until_empty_but([0, 1, 3, 4], "").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_reach_different_majorities_are_served() {
    let nodes = Nodes::start(5);
    let ann = Zone::new(&nodes, 0..5).cut_off_from([2, 4]);
    let bob = Zone::new(&nodes, 0..5).cut_off_from([0, 2]);
    everybody_is_served(&[ann, bob], How::Lock).await;
    nodes.until_all_empty().await;
}

/// The last resort: claims that block the first claim may not see it, or may ignore it.
#[tokio::test]
async fn a_claim_that_is_first_gives_way_before_long() {
    let nodes = Nodes::start(3);
    let mut theirs = Vec::new();
    for node in [0, 1] {
        let stranger = open(&nodes.0[node].url()).await;
        theirs.push(stranger.mutex("a").ttl(LONG).lock().await.unwrap());
    }
    let ports = [2, 0, 1].map(|node| nodes.0[node].port());
    let url = url(ports.into_iter(), "restart_delay=off");
    let driver = redlock::open(&url).await.unwrap();
    // Whether a claim is before the others depends on its random id.
    let first = loop {
        let claim = claim("a", None).with_wait(Wait::InLine);
        driver.acquire(&claim).await.unwrap();
        if nodes.is_taken(2, "a") {
            break claim;
        }
        driver.withdraw(&claim).await.unwrap();
    };
    let mut rounds = 1..20;
    while nodes.is_taken(2, "a") {
        assert!(rounds.next().is_some(), "it stays for ever");
        driver.acquire(&first).await.unwrap();
    }
    assert!(theirs.iter().all(is_held));
}

/// How often each client has to be served.
const ROUNDS: usize = 20;

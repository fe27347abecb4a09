//! Leases of no client: several clients may release one at the same time, and others know them by
//! their fence.

use std::sync::Arc;

use tenure::driver::{Claim, Driver, Life, Release, Released};
use tenure::store::redlock;
use tenure::{Fence, Lease, Outcome, Owner};
use tenure_testkit::Fault;

use crate::nodes::{Nodes, Wires};
use crate::owners::{claim, granted};
use crate::{LONG, millis, open, until};

/// Returns a claim for a lease by hand.
fn by_hand(name: &str, owner: &Owner) -> Claim {
    claim(name, Some(owner)).with_life(Life::Ttl)
}

async fn release(driver: Arc<dyn Driver>, claim: Claim, fence: Option<Fence>) -> Released {
    let release = Release::of(&claim).with_fence(fence);
    driver.release(&release).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_several_releases_at_the_same_time_says_that_it_freed_the_lease() {
    let nodes = Nodes::start(3);
    let wires = [0, 1, 2].map(|_| Wires::to(&nodes));
    let mut drivers = Vec::new();
    for (own, wires) in wires.iter().enumerate() {
        drivers.push(redlock::open(&wires.url()).await.unwrap());
        // Each of them is the first at one node.
        for node in (0..3).filter(|node| *node != own) {
            wires.0[node].set(Fault::Delay(millis(3)));
        }
    }
    let owner = Owner::named("ann").unwrap();
    for round in 0..20 {
        let claim = by_hand("a", &owner);
        let fence = granted(&drivers[0], &claim).await;
        drivers[0].settled().await;
        let fence = (round % 2 == 0).then_some(fence);
        let releases = drivers.iter().map(|driver| {
            let release = release(Arc::clone(driver), claim.clone(), fence);
            tokio::spawn(release)
        });
        let mut freed = 0;
        for release in releases.collect::<Vec<_>>() {
            let released = release.await.unwrap();
            freed += usize::from(matches!(released, Released::Freed { .. }));
        }
        assert!(freed > 0, "nobody has freed the lease in round {round}");
        nodes.until_all_free().await;
        let again = release(Arc::clone(&drivers[1]), claim, fence).await;
        assert!(matches!(again, Released::NotHeld(_)), "{again:?}");
    }
}

/// Returns a lease by hand that the last of three nodes has with a larger number, as another client
/// finds it.
async fn lease_with_another_number(nodes: &Nodes) -> Lease {
    let owner = Owner::named("ann").unwrap();
    let ahead = "9007199254740000";
    nodes.0[2].cli(&["SET", &format!("{}:fence", Nodes::key("a")), ahead]);
    let wires = Wires::to(nodes);
    let ann = redlock::open(&wires.url()).await.unwrap();
    until("a connection to the last node", async || {
        let claim = by_hand("b", &owner);
        granted(&ann, &claim).await;
        ann.settled().await;
        let is_there = nodes.is_taken(2, "b");
        release(Arc::clone(&ann), claim, None).await;
        is_there
    })
    .await;
    // The others decide before it has replied.
    wires.0[2].set(Fault::Freeze);
    let fence = granted(&ann, &by_hand("a", &owner)).await;
    wires.0[2].set(Fault::Pass);
    ann.settled().await;
    until("the last node to have it", async || nodes.is_taken(2, "a")).await;
    assert!(nodes.fence(2, "a") > Some(fence.get()));
    let bob = open(&nodes.url()).await;
    let found = bob.leases("a", "ann").await.unwrap();
    let [lease] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!(lease.fence, Some(fence));
    lease.clone()
}

#[tokio::test]
async fn a_release_by_fence_reaches_the_node_that_has_another_number() {
    let nodes = Nodes::start(3);
    let lease = lease_with_another_number(&nodes).await;
    let bob = open(&nodes.url()).await;
    assert_eq!(bob.release(&lease).await.unwrap(), Outcome::Released);
    nodes.until_all_empty().await;
}

#[tokio::test]
async fn a_renewal_by_fence_reaches_the_node_that_has_another_number() {
    let nodes = Nodes::start(3);
    let mut lease = lease_with_another_number(&nodes).await;
    lease.ttl = 2 * LONG;
    let bob = open(&nodes.url()).await;
    assert_eq!(bob.renew(&lease).await.unwrap().fence(), lease.fence);
    let left = || nodes.0[2].cli(&["PTTL", &Nodes::key("a")]);
    until("the last node to renew it", async || {
        left().trim().parse::<u128>().unwrap() > LONG.as_millis()
    })
    .await;
}

/// A lease with another number is another grant of the claim.
#[tokio::test]
async fn a_release_with_a_fence_that_no_majority_has_changes_nothing() {
    let nodes = Nodes::start(3);
    let mut lease = lease_with_another_number(&nodes).await;
    lease.fence = Fence::new(nodes.fence(2, "a").unwrap() + 1);
    let bob = open(&nodes.url()).await;
    let released = bob.release(&lease).await.unwrap();
    assert!(matches!(released, Outcome::NotHeld(_)), "{released:?}");
    assert!(bob.renew(&lease).await.unwrap().fence().is_none());
    assert!((0..3).all(|node| nodes.is_taken(node, "a")));
}

//! Claims of one owner in one client: each has its own leases, and late requests affect only their
//! own.

use std::sync::Arc;

use tenure::driver::{Answer, Claim, Driver, Release, Released, Renewal, Renewed, Wait};
use tenure::store::redlock;
use tenure::{ClaimId, Fence, Owner};

use crate::nodes::{Nodes, Wires};
use crate::{LONG, SHORT, millis, open, until};

/// Returns a claim that does not wait.
pub(crate) fn claim(name: &str, owner: Option<&Owner>) -> Claim {
    Claim::new(name.parse().unwrap(), LONG)
        .with_owner(owner.cloned())
        .with_wait(Wait::No)
}

/// Asks for a claim that is granted, and returns its fence.
pub(crate) async fn granted(driver: &Arc<dyn Driver>, claim: &Claim) -> Fence {
    match driver.acquire(claim).await.unwrap() {
        Answer::Granted(grant) => grant.fence,
        other => panic!("not granted: {other:?}"),
    }
}

async fn released(driver: &Arc<dyn Driver>, claim: &Claim) -> Released {
    let release = Release::of(claim);
    driver.release(&release).await.unwrap()
}

async fn is_kept(driver: &Arc<dyn Driver>, claim: &Claim, fence: Fence) -> bool {
    let renewal = Renewal::of(claim).with_fence(fence);
    let renewed = driver.renew(&[renewal]).await.unwrap();
    matches!(renewed[..], [Renewed::Extended { fence: kept, .. }] if kept == fence)
}

async fn is_busy(driver: &Arc<dyn Driver>, name: &str) -> bool {
    driver.acquire(&claim(name, None)).await.unwrap() == Answer::Busy
}

/// Returns the claims that hold a name at one node.
async fn holders(nodes: &Nodes, node: usize, name: &str) -> Vec<ClaimId> {
    let client = open(&nodes.0[node].url()).await;
    let entries = client.list(Some(&name.parse().unwrap())).await.unwrap();
    let holders = entries.into_iter().flat_map(|entry| entry.holders);
    holders.map(|holder| holder.claim).collect()
}

/// Waits until exactly these claims hold a name at every node.
async fn until_held_by(nodes: &Nodes, name: &str, claims: &[&Claim]) {
    let expected: Vec<_> = claims.iter().map(|claim| claim.id.clone()).collect();
    for node in 0..nodes.0.len() {
        until(&format!("node {node} to have {claims:?}"), async || {
            holders(nodes, node, name).await == expected
        })
        .await;
    }
}

async fn two_drivers(nodes: &Nodes) -> (Arc<dyn Driver>, Arc<dyn Driver>) {
    let open = async || redlock::open(&nodes.url()).await.unwrap();
    (open().await, open().await)
}

#[tokio::test]
async fn each_claim_of_an_owner_is_released_by_itself() {
    let nodes = Nodes::start(3);
    let (ann, bob) = two_drivers(&nodes).await;
    let owner = Owner::named("ann").unwrap();
    let (first, second) = (claim("a", Some(&owner)), claim("a", Some(&owner)));
    let fence = granted(&ann, &first).await;
    assert_eq!(granted(&ann, &second).await, fence);
    until_held_by(&nodes, "a", &[&first, &second]).await;
    assert_eq!(released(&ann, &first).await, Released::Freed { left: 1 });
    until_held_by(&nodes, "a", &[&second]).await;
    assert!(is_busy(&bob, "a").await);
    // A repeat finds nothing, and the other claim continues.
    assert!(matches!(released(&ann, &first).await, Released::NotHeld(_)));
    assert!(is_kept(&ann, &second, fence).await);
    until_held_by(&nodes, "a", &[&second]).await;
    assert_eq!(released(&ann, &second).await, Released::Freed { left: 0 });
    nodes.until_all_empty().await;
    granted(&bob, &claim("a", None)).await;
}

#[tokio::test]
async fn a_claim_outlives_the_lease_of_another_of_its_owner() {
    let nodes = Nodes::start(3);
    let (ann, bob) = two_drivers(&nodes).await;
    let owner = Owner::named("ann").unwrap();
    let long = claim("a", Some(&owner));
    let short = claim("a", Some(&owner)).with_ttl(SHORT);
    let fence = granted(&ann, &short).await;
    assert_eq!(granted(&ann, &long).await, fence);
    until_held_by(&nodes, "a", &[&long]).await;
    assert!(!is_kept(&ann, &short, fence).await);
    assert!(is_busy(&bob, "a").await);
    assert!(is_kept(&ann, &long, fence).await);
    assert_eq!(released(&ann, &long).await, Released::Freed { left: 0 });
}

/// The node is asked for its vote, and told to withdraw it, while it is frozen. It does so when a
/// later claim of the same owner is there.
#[tokio::test]
async fn a_late_withdrawal_leaves_the_next_claim_of_its_owner_alone() {
    let nodes = Nodes::start(3);
    let url = nodes.url_with("restart_delay=off&timeout=300ms&connect_timeout=300ms");
    let ann = redlock::open(&url).await.unwrap();
    let bob = redlock::open(&nodes.url()).await.unwrap();
    let owner = Owner::named("ann").unwrap();
    for round in 0..3 {
        let name = format!("a{round}");
        let (old, new) = (claim(&name, Some(&owner)), claim(&name, Some(&owner)));
        nodes.0[2].freeze().unwrap();
        let before = granted(&ann, &old).await;
        ann.withdraw(&old).await.unwrap();
        let fence = granted(&ann, &new).await;
        assert!(before < fence);
        // By then the requests to it have failed, and are retried.
        tokio::time::sleep(millis(400 * round)).await;
        nodes.0[2].thaw().unwrap();
        until("a renewal", async || is_kept(&ann, &new, fence).await).await;
        until_held_by(&nodes, &name, &[&new]).await;
        ann.settled().await;
        ann.withdraw(&old).await.unwrap();
        until_held_by(&nodes, &name, &[&new]).await;
        // The node that was late is as good as any other.
        nodes.0[0].freeze().unwrap();
        assert!(is_busy(&bob, &name).await);
        nodes.0[0].thaw().unwrap();
        assert!(is_kept(&ann, &new, fence).await);
        assert_eq!(released(&ann, &new).await, Released::Freed { left: 0 });
    }
    nodes.until_all_empty().await;
}

/// A claim that gives way after a split vote keeps its id when it asks again: its withdrawal must
/// not undo the later grant.
#[tokio::test]
async fn a_claim_that_gave_way_unheard_is_granted_later() {
    let nodes = Nodes::start(3);
    let wires = Wires::to(&nodes);
    let ann = redlock::open(&wires.url()).await.unwrap();
    let mut rivals = Vec::new();
    for node in [0, 1] {
        let rival = open(&nodes.0[node].url()).await;
        rivals.push(rival.mutex("a").ttl(LONG).lock().await.unwrap());
    }
    // A claim that has only the third node gives way, at once or after a few attempts.
    wires.0[2].lose_reply_then_cut(b"withdraw.lua");
    let claim = claim("a", None).with_wait(Wait::InLine);
    until("the answer to be lost", async || {
        let answer = ann.acquire(&claim).await.unwrap();
        assert!(matches!(answer, Answer::Queued { .. }), "{answer:?}");
        wires.0[2].replies_swallowed() == 1
    })
    .await;
    rivals.remove(0).release().await.unwrap();
    let mut fence = None;
    until("a grant", async || match ann.acquire(&claim).await {
        Ok(Answer::Granted(grant)) => {
            fence = Some(grant.fence);
            true
        }
        Ok(Answer::Queued { .. }) | Err(_) => false,
        Ok(other) => panic!("{other:?}"),
    })
    .await;
    ann.settled().await;
    for node in [0, 2] {
        let holders = holders(&nodes, node, "a").await;
        assert_eq!(holders, std::slice::from_ref(&claim.id));
    }
    assert!(is_kept(&ann, &claim, fence.unwrap()).await);
    assert_eq!(released(&ann, &claim).await, Released::Freed { left: 0 });
    nodes.until_empty_but([0, 2], "").await;
}

//! Rules for fences.

use super::Fixture;
use super::needs::{Need, lacks, sees_clients_end};
use super::party::{Party, cast};
use crate::driver::Mode;
use crate::name::Fence;

/// Each grant has a larger fence than all before it, after a release, an expiry, an eviction and
/// the end of a client, and whoever is granted the name.
pub async fn fences_grow_whatever_ended_the_lease_before(fixture: &dyn Fixture) {
    let [ann, bob, mut eve] = cast(fixture).await;
    if !sees_clients_end(fixture).await {
        eve = eve.ttl(fixture.short());
    }
    let mut fences = vec![ann.locks().await];
    ann.frees().await;
    fences.push(ann.locks().await);
    ann.frees().await;
    fences.push(bob.ttl(fixture.short()).locks().await);
    fences.push(ann.locks_in_time().await);
    assert_eq!(eve.evicts().await.len(), 1);
    let next = bob.neighbour();
    fences.push(next.locks().await);
    eve.stands().await;
    next.frees().await;
    fences.push(eve.turn().await.fence);
    drop(eve);
    fences.push(bob.neighbour().locks_in_time().await);
    assert_growing(&fences);
}

/// Holders that share a name have separate fences, in the order of their grants.
pub async fn shared_holders_have_a_fence_each(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::Shared]).await {
        return;
    }
    let [ann, bob, eve] = cast(fixture).await;
    let mut fences = Vec::new();
    for party in [&ann, &bob, &eve] {
        fences.push(party.mode(Mode::Shared).locks().await);
    }
    assert_growing(&fences);
}

/// A grant reserves the fences that were asked for, also when it is handed over.
pub async fn fences_leave_room_for_the_block_that_was_reserved(fixture: &dyn Fixture) {
    let [ann, bob, eve] = cast(fixture).await;
    let block = |party: &Party| party.but(|claim| claim.fences = 64);
    let (ann, bob) = (block(&ann), block(&bob));
    let first = ann.locks().await;
    bob.stands().await;
    ann.frees().await;
    let second = bob.turn().await.fence;
    bob.frees().await;
    let third = eve.locks().await;
    assert!(second.get() >= first.get() + 64, "{first} then {second}");
    assert!(third.get() >= second.get() + 64, "{second} then {third}");
}

/// An eviction advances the fence beyond the block of the grant that it ended.
pub async fn an_eviction_moves_the_fence_on(fixture: &dyn Fixture) {
    let [ann, bob] = cast(fixture).await;
    let first = ann.but(|claim| claim.fences = 64).locks().await;
    ann.evicts().await;
    let second = bob.locks().await;
    assert!(second.get() > first.get() + 64, "{first} then {second}");
}

fn assert_growing(fences: &[Fence]) {
    let growing = fences.windows(2).all(|pair| pair[0] < pair[1]);
    assert!(growing, "fences in the order of grants: {fences:?}");
}

//! Rules for calling back: a holder that offered to give its lease back is told when others want
//! it.

use super::Fixture;
use super::needs::{Need, lacks};
use super::party::cast;
use crate::driver::{Life, Mode};

/// A claim that has to wait calls back the lease ahead of it; the lease continues.
pub async fn a_claim_from_elsewhere_calls_a_lease_back(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::Calls]).await {
        return;
    }
    let [ann, bob] = cast(fixture).await;
    let ann = ann.told_if_wanted();
    let fence = ann.locks().await;
    bob.stands().await;
    assert_eq!(ann.is_called_back().await, fence);
    ann.is_held_by(&[&ann]).await;
    ann.extends(fence).await;
    ann.frees().await;
    bob.turn().await;
    bob.is_held_by(&[&bob]).await;
}

/// A claim that does not wait is refused, and still calls back.
pub async fn a_refused_try_calls_back_too(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::Calls]).await {
        return;
    }
    let [ann, bob] = cast(fixture).await;
    let ann = ann.told_if_wanted();
    let fence = ann.locks().await;
    bob.is_refused().await;
    assert_eq!(ann.is_called_back().await, fence);
    ann.frees().await;
    bob.locks().await;
}

/// Each grant is called back once, whoever asks and however often; the next grant is called back
/// again.
pub async fn a_lease_is_called_back_once(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::Calls]).await {
        return;
    }
    let [ann, bob, eve] = cast(fixture).await;
    let ann = ann.told_if_wanted();
    let first = ann.locks().await;
    bob.is_refused().await;
    assert_eq!(ann.is_called_back().await, first);
    bob.stands().await;
    bob.stands().await;
    eve.is_refused().await;
    ann.extends(first).await;
    assert_eq!(ann.locks().await, first, "asked again");
    eve.stands().await;
    ann.is_not_called_back().await;
    bob.withdraws().await;
    eve.withdraws().await;
    ann.frees().await;
    let second = ann.locks().await;
    bob.is_refused().await;
    assert_eq!(ann.is_called_back().await, second);
}

/// A lease that is handed over while others wait in line is called back for them at once.
pub async fn a_lease_that_others_stand_in_line_for_is_called_back_at_once(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::Calls]).await {
        return;
    }
    let [ann, bob, eve] = cast(fixture).await;
    let bob = bob.told_if_wanted();
    ann.locks().await;
    bob.stands().await;
    eve.stands().await;
    bob.is_not_called_back().await;
    ann.frees().await;
    let turn = bob.turn().await;
    assert_eq!(bob.is_called_back().await, turn.fence);
    bob.frees().await;
    eve.turn().await;
}

/// Holders that did not ask for it are not told, and neither are leases that have no client.
pub async fn only_who_asked_for_it_is_called_back(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::Calls, Need::Shared, Need::ByHand]).await {
        return;
    }
    let [ann, bob, eve] = cast(fixture).await;
    let (ann, bob) = (ann.mode(Mode::Shared), bob.mode(Mode::Shared));
    let bob = bob.told_if_wanted();
    let by_ttl = ann.neighbour().told_if_wanted().life(Life::Ttl);
    ann.locks().await;
    by_ttl.locks().await;
    let fence = bob.locks().await;
    eve.is_refused().await;
    eve.stands().await;
    assert_eq!(bob.is_called_back().await, fence);
    ann.is_not_called_back().await;
    by_ttl.is_not_called_back().await;
}

/// Neither another claim of the same client nor one that is granted beside the lease calls back.
pub async fn only_a_claim_from_elsewhere_calls_back(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::Calls, Need::Shared]).await {
        return;
    }
    let [ann, bob, eve] = cast(fixture).await;
    let ann = ann.mode(Mode::Shared).told_if_wanted();
    let fence = ann.locks().await;
    bob.mode(Mode::Shared).locks().await;
    ann.neighbour().mode(Mode::Exclusive).is_refused().await;
    ann.neighbour().mode(Mode::Exclusive).stands().await;
    ann.is_not_called_back().await;
    eve.stands().await;
    assert_eq!(ann.is_called_back().await, fence);
}

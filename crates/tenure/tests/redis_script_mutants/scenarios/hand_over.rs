//! What is handed over to the next in line, and how it learns of that.

use std::time::Duration;

use super::{frees, hears_nothing, is_told_of_a_grant, scenarios, until_waited_for_by};
use crate::conformance::Fixture as _;
use crate::conformance::party::{TTL, cast};
use crate::driver::{Answer, Life, Mode, Released, Wait};
use crate::store::redis::mutants::lab::Lab;

scenarios![
    a_handed_over_lease_has_to_be_confirmed,
    a_handed_over_lease_of_no_client_is_nobodys,
    a_grant_by_the_answer_comes_without_a_message,
    a_confirmed_grant_by_the_answer_comes_without_a_message,
    a_release_by_fence_hands_over,
    a_release_by_fence_passes_over_the_dead,
    a_listener_to_all_does_not_stand_for_the_dead,
    a_release_by_fence_passes_over_who_is_late,
    a_release_by_fence_to_a_short_lease_calls_the_next,
    a_release_by_fence_keeps_to_what_it_says,
    a_release_by_fence_after_everybody_left,
    a_release_by_fence_has_to_be_confirmed,
];

/// If it is not known who listens, a lease is handed over for a moment, until its new holder asks
/// again.
async fn a_handed_over_lease_has_to_be_confirmed(lab: &Lab) {
    let confirm = Duration::from_secs(15);
    let lab = lab.confirming(confirm);
    let [ann, bob, eve] = cast(&lab).await;
    ann.locks().await;
    bob.stands().await;
    eve.stands().await;
    ann.frees().await;
    let left = ann.entry().await.holders[0].expires_in;
    assert!(left <= confirm, "{left:?} left");
    bob.is_held_by(&[&bob]).await;
    bob.turn().await;
    let left = ann.entry().await.holders[0].expires_in;
    assert!(left > TTL / 2, "{left:?} left");
    bob.frees().await;
    // Nobody confirms this one.
    eve.is_held_by(&[&eve]).await;
    lab.pass(&ann, confirm);
    ann.locks().await;
}

/// A handed-over lease of no client belongs to no client, in every mode.
async fn a_handed_over_lease_of_no_client_is_nobodys(lab: &Lab) {
    for (lab, mode) in [
        (lab.clone(), Mode::Shared),
        (lab.clone(), Mode::Exclusive),
        (lab.confirming(Duration::from_secs(5)), Mode::Exclusive),
    ] {
        let [ann, bob, eve] = cast(&lab).await;
        let bob = bob.life(Life::Ttl).mode(mode);
        ann.locks().await;
        bob.stands().await;
        eve.stands().await;
        ann.frees().await;
        bob.turn().await;
        let heir = bob.through(&ann);
        heir.is_held_by(&[&bob]).await;
        heir.frees().await;
        eve.turn().await;
    }
}

/// A claim whose turn comes with its own request learns of it only from the reply.
async fn a_grant_by_the_answer_comes_without_a_message(lab: &Lab) {
    let [ann, bob] = cast(lab).await;
    ann.locks().await;
    bob.stands().await;
    lab.expire(&ann);
    let answer = bob.asks(Wait::InLine).await.unwrap();
    assert!(matches!(answer, Answer::Granted(_)));
    hears_nothing(&bob).await;
}

/// A claim whose turn comes with its own request confirms it by that request.
async fn a_confirmed_grant_by_the_answer_comes_without_a_message(lab: &Lab) {
    a_grant_by_the_answer_comes_without_a_message(&lab.confirming(Duration::from_secs(5))).await;
}

/// A release with a fence hands over what was asked for, by a message, one after the other.
async fn a_release_by_fence_hands_over(lab: &Lab) {
    let [ann, bob, eve, dan] = cast(lab).await;
    let first = ann.locks().await;
    let bob = bob.ttl(TTL / 2).but(|claim| claim.fences = 3);
    let eve = eve.life(Life::Ttl);
    for waiter in [&bob, &eve, &dan] {
        waiter.stands().await;
    }
    frees(&ann, first).await;
    let granted = is_told_of_a_grant(&bob).await;
    assert_eq!((granted.fences, granted.valid), (3, TTL / 2));
    let second = granted.fence;
    assert!(first < second);
    ann.is_held_by(&[&bob]).await;
    ann.is_waited_for_by(&[&eve, &dan]).await;
    let holder = &ann.entry().await.holders[0];
    assert_eq!((holder.fence, &holder.about), (second, &bob.claim().about));
    assert!(holder.expires_in > TTL / 4);
    frees(&bob, second).await;
    let third = is_told_of_a_grant(&eve).await.fence;
    frees(&eve.through(&ann), third).await;
    let last = is_told_of_a_grant(&dan).await.fence;
    assert_eq!(lab.keys(&ann), ["", ":fence"]);
    dan.extends(last).await;
    frees(&dan, last).await;
    assert_eq!(lab.keys(&ann), [":fence"]);
}

/// A release with a fence passes over the dead.
async fn a_release_by_fence_passes_over_the_dead(lab: &Lab) {
    releases_past_the_dead(lab, Mode::Exclusive).await;
}

async fn releases_past_the_dead(lab: &Lab, mode: Mode) {
    let [ann, bob, eve] = cast(lab).await;
    let ann = ann.mode(mode);
    let fence = ann.locks().await;
    bob.stands().await;
    eve.stands().await;
    drop(bob);
    until_waited_for_by(&ann, &[&eve]).await;
    frees(&ann, fence).await;
    eve.is_held_by(&[&eve]).await;
}

/// The dead are passed over even if somebody else receives their messages: by each release, and by
/// a lease that may end sooner.
async fn a_listener_to_all_does_not_stand_for_the_dead(lab: &Lab) {
    let lab = lab.alone();
    let _all = lab.eavesdrop().await;
    for mode in [Mode::Exclusive, Mode::Shared] {
        releases_past_the_dead(&lab, mode).await;
    }
    let [ann, bob, eve, dan] = cast(&lab).await;
    let bob = bob.ttl(lab.short());
    let fence = ann.locks().await;
    for waiter in [&bob, &eve, &dan] {
        waiter.stands().await;
    }
    drop(eve);
    until_waited_for_by(&ann, &[&bob, &dan]).await;
    frees(&ann, fence).await;
    dan.turn().await;
}

/// A release with a fence passes over waiters that did not ask again in time.
async fn a_release_by_fence_passes_over_who_is_late(lab: &Lab) {
    let [ann, bob, eve] = cast(lab).await;
    let fence = ann.locks().await;
    bob.stands().await;
    lab.make_late(&ann);
    eve.stands().await;
    frees(&ann, fence).await;
    eve.is_held_by(&[&eve]).await;
}

/// A release with a fence that hands over to a short lease notifies the waiter behind it.
async fn a_release_by_fence_to_a_short_lease_calls_the_next(lab: &Lab) {
    let [ann, bob, eve] = cast(lab).await;
    let fence = ann.locks().await;
    bob.ttl(lab.short()).stands().await;
    eve.stands().await;
    frees(&ann, fence).await;
    eve.turn().await;
}

/// A release with a fence leaves the name taken, if it says so.
async fn a_release_by_fence_keeps_to_what_it_says(lab: &Lab) {
    let [ann, bob] = cast(lab).await;
    let fence = ann.locks().await;
    let kept = ann.releases_with(|release| {
        release.fence = Some(fence);
        release.stays_taken = TTL;
    });
    assert_eq!(kept.await, Released::Freed { left: 0 });
    bob.is_refused().await;
}

/// A release with a fence frees the name if the waiters have left.
async fn a_release_by_fence_after_everybody_left(lab: &Lab) {
    let [ann, bob] = cast(lab).await;
    let fence = ann.locks().await;
    bob.stands().await;
    bob.withdraws().await;
    frees(&ann, fence).await;
    bob.locks().await;
}

/// A release with a fence hands over for a moment if that has to be confirmed.
async fn a_release_by_fence_has_to_be_confirmed(lab: &Lab) {
    let confirm = Duration::from_secs(15);
    let lab = lab.confirming(confirm);
    let [ann, bob] = cast(&lab).await;
    let fence = ann.locks().await;
    bob.stands().await;
    frees(&ann, fence).await;
    assert!(ann.entry().await.holders[0].expires_in <= confirm);
    bob.turn().await;
}

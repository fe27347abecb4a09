//! Who is in line, who is passed over, and who has to ask again.

use std::time::Duration;

use tokio::time::sleep;

use super::{hears_nothing, is_told, scenarios, until_waited_for_by};
use crate::conformance::party::{TTL, cast};
use crate::driver::{Answer, Mode, News, Wait};
use crate::store::redis::mutants::lab::Lab;

scenarios![
    the_dead_are_passed_over_and_keep_their_place,
    who_does_not_ask_again_loses_the_place,
    a_late_asker_keeps_its_place,
    the_living_have_time_to_ask_again,
    who_may_listen_elsewhere_is_listed,
    a_place_in_a_mode_that_the_owner_has_not_stays,
    a_try_does_not_age_the_own_place,
    asking_again_at_ones_turn_has_the_ttl_asked_for,
    everybody_behind_learns_of_a_shorter_lease,
    nobody_is_told_twice_to_ask_again,
    a_line_that_everybody_left_expires,
];

/// The dead in line are passed over, neither block others nor are granted the lock, and keep their
/// place.
async fn the_dead_are_passed_over_and_keep_their_place(lab: &Lab) {
    let [ann, bob, eve, dan] = cast(lab).await;
    let (ann, eve, dan) = (
        ann.mode(Mode::Shared),
        eve.mode(Mode::Shared),
        dan.mode(Mode::Shared),
    );
    ann.locks().await;
    bob.stands().await;
    eve.stands().await;
    let key = lab.key(&ann, ":line");
    drop(bob);
    until_waited_for_by(&ann, &[&eve]).await;
    dan.locks().await;
    eve.turn().await;
    ann.is_held_by(&[&ann, &eve, &dan]).await;
    assert_eq!(lab.cli(&["LLEN", &key]), "1", "the place is kept");
    for party in [&ann, &eve, &dan] {
        party.frees().await;
    }
    assert!(ann.entry().await.holders.is_empty());
    assert_eq!(lab.cli(&["LLEN", &key]), "1", "the place is kept");
    ann.mode(Mode::Exclusive).locks().await;
}

/// A place is lost if its owner does not ask again in time, and not before.
async fn who_does_not_ask_again_loses_the_place(lab: &Lab) {
    let lab = lab.confirming(CONFIRM);
    let [ann, bob, eve] = cast(&lab).await;
    let ann = ann.ttl(TTL * 4);
    ann.locks().await;
    let told = bob.stands().await;
    assert!(told <= Some(CONFIRM), "told {told:?}");
    eve.stands().await;
    lab.pass(&ann, CONFIRM * 5 / 3);
    eve.stands().await;
    ann.is_waited_for_by(&[&bob, &eve]).await;
    lab.pass(&ann, CONFIRM / 2);
    eve.stands().await;
    ann.is_waited_for_by(&[&eve]).await;
    ann.frees().await;
    eve.turn().await;
}

/// A waiter that asks again too late keeps its place if nobody else has asked meanwhile.
async fn a_late_asker_keeps_its_place(lab: &Lab) {
    let lab = lab.confirming(CONFIRM);
    let [ann, bob, eve] = cast(&lab).await;
    let ann = ann.ttl(TTL * 4);
    ann.locks().await;
    bob.stands().await;
    lab.pass(&ann, CONFIRM * 5 / 4);
    eve.stands().await;
    lab.pass(&ann, CONFIRM);
    bob.stands().await;
    ann.is_waited_for_by(&[&bob, &eve]).await;
}

/// A waiter does not count as dead as soon as the lease in front of it has expired.
async fn the_living_have_time_to_ask_again(lab: &Lab) {
    for mode in [Mode::Exclusive, Mode::Shared] {
        let [ann, bob] = cast(lab).await;
        let ttl = Duration::from_secs(8);
        ann.ttl(ttl).locks().await;
        bob.mode(mode).stands().await;
        lab.pass(&ann, ttl + Duration::from_secs(1));
        ann.is_waited_for_by(&[&bob]).await;
    }
}

/// If it is not known who listens, waiters that this server does not know are listed and waited
/// for.
async fn who_may_listen_elsewhere_is_listed(lab: &Lab) {
    let lab = lab.confirming(CONFIRM);
    let [ann, bob, eve] = cast(&lab).await;
    ann.mode(Mode::Shared).locks().await;
    bob.stands().await;
    let waits = bob.claim().id;
    drop(bob);
    sleep(Duration::from_millis(100)).await;
    let waiters = ann.entry().await.waiters;
    assert_eq!(waiters.first().map(|waiter| &waiter.claim), Some(&waits));
    eve.mode(Mode::Shared).is_refused().await;
}

/// A claim that waits to write keeps its place while its owner reads in another client.
async fn a_place_in_a_mode_that_the_owner_has_not_stays(lab: &Lab) {
    let [ann, bob, eve] = cast(lab).await;
    let writer = bob.named().twin(&eve);
    let reader = writer.twin(&bob).mode(Mode::Shared);
    ann.locks().await;
    reader.stands().await;
    writer.stands().await;
    ann.frees().await;
    reader.turn().await;
    writer.stands().await;
    ann.is_waited_for_by(&[&writer]).await;
    reader.frees().await;
    writer.turn().await;
}

/// A claim in line that asks again without waiting keeps its place, which does not age by that.
async fn a_try_does_not_age_the_own_place(lab: &Lab) {
    let [ann, bob] = cast(lab).await;
    ann.locks().await;
    bob.stands().await;
    bob.is_refused().await;
    sleep(Duration::from_millis(10)).await;
    ann.is_waited_for_by(&[&bob]).await;
}

/// A claim that asks again when its turn has come gets the ttl that it asks for.
async fn asking_again_at_ones_turn_has_the_ttl_asked_for(lab: &Lab) {
    for mode in [Mode::Exclusive, Mode::Shared] {
        let [ann, bob] = cast(lab).await;
        let bob = bob.mode(mode);
        ann.locks().await;
        bob.ttl(TTL / 4).stands().await;
        lab.expire(&ann);
        let answer = bob.asks(Wait::InLine).await;
        assert!(matches!(answer, Ok(Answer::Granted(_))), "{answer:?}");
        assert!(ann.entry().await.holders[0].expires_in > TTL / 2);
        bob.frees().await;
    }
}

/// When a lease becomes shorter and the first in line leaves, the next is told to ask again.
async fn everybody_behind_learns_of_a_shorter_lease(lab: &Lab) {
    for mode in [Mode::Exclusive, Mode::Shared] {
        let [ann, bob, eve, dan] = cast(lab).await;
        let (bob, eve) = (bob.mode(mode), eve.mode(mode));
        let fence = ann.locks().await;
        bob.stands().await;
        eve.stands().await;
        let shorter = ann.ttl(TTL / 4);
        shorter.extends(fence).await;
        bob.stands().await;
        dan.stands().await;
        bob.withdraws().await;
        let told = is_told(&eve).await;
        assert!(matches!(told, News::AskAgain(Some(_))), "told {told:?}");
        let told = eve.stands().await;
        assert!(told <= Some(TTL / 4), "told {told:?}");
    }
}

/// The first in line is told to ask again when a lease becomes shorter, and not when it grows.
async fn nobody_is_told_twice_to_ask_again(lab: &Lab) {
    let [ann, bob, eve] = cast(lab).await;
    let fence = ann.locks().await;
    bob.stands().await;
    eve.stands().await;
    ann.ttl(TTL / 4).renews(Some(fence)).await;
    let told = is_told(&bob).await;
    assert!(matches!(told, News::AskAgain(Some(_))), "told {told:?}");
    ann.ttl(TTL / 2).renews(Some(fence)).await;
    hears_nothing(&bob).await;
}

/// A line expires after everybody in it should have asked again.
async fn a_line_that_everybody_left_expires(lab: &Lab) {
    for mode in [Mode::Exclusive, Mode::Shared] {
        let [ann, bob] = cast(lab).await;
        ann.locks().await;
        bob.mode(mode).stands().await;
        for key in [":line", ":places"] {
            let left = lab.pttl(&ann, key);
            let hour = 3_600_000;
            assert!(left > hour && left < 2 * hour, "{left} ms left of {key}");
        }
    }
}

/// For how long a lease is handed over until it is confirmed; a place is lost after about twice as
/// long.
const CONFIRM: Duration = Duration::from_secs(30);

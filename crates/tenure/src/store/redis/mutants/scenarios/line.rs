//! Who stands in line, who is passed over, and who has to ask again.

use std::time::Duration;

use tokio::time::sleep;

use super::{hears_nothing, is_told, is_told_of_a_grant, scenarios};
use crate::conformance::stage::{Party, TTL, cast, until};
use crate::driver::{Answer, Life, Mode, News, Released, Renewed, Wait};
use crate::store::redis::mutants::lab::Lab;

scenarios![
    the_dead_are_passed_over_and_keep_their_place,
    who_does_not_ask_again_loses_the_place,
    a_late_asker_keeps_its_place,
    the_living_have_time_to_ask_again,
    who_may_listen_elsewhere_is_listed,
    a_conflicting_claim_in_line_is_not_granted,
    a_place_in_a_mode_that_the_owner_has_not_stays,
    a_try_does_not_age_the_own_place,
    asking_again_at_ones_turn_has_the_life_and_depth_asked_for,
    everybody_behind_learns_of_a_shorter_lease,
    nobody_is_told_twice_to_ask_again,
    a_line_that_everybody_left_expires,
];

/// The dead in line are passed over, neither hold up nor are granted, and keep their place.
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
    until("the dead writer to be passed over", || async {
        ann.line().await == [eve.owner()]
    })
    .await;
    dan.locks().await;
    eve.turn().await;
    ann.is_held_by(&[&ann, &eve, &dan]).await;
    assert_eq!(lab.cli(&["LLEN", &key]), "1", "the place is kept");
    for party in [&ann, &eve, &dan] {
        assert_eq!(party.releases().await, Released::Freed);
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
    assert!(told <= CONFIRM, "told {told:?}");
    eve.stands().await;
    lab.pass(&ann, CONFIRM * 5 / 3);
    eve.stands().await;
    assert_eq!(ann.line().await, [bob.owner(), eve.owner()]);
    lab.pass(&ann, CONFIRM / 2);
    eve.stands().await;
    assert_eq!(ann.line().await, [eve.owner()]);
    assert_eq!(ann.releases().await, Released::Freed);
    eve.turn().await;
}

/// Who asks again too late keeps its place if nobody else has asked meanwhile.
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
    assert_eq!(ann.line().await, [bob.owner(), eve.owner()]);
}

/// Who waits is not taken for dead as soon as the lease in front of it has ended.
async fn the_living_have_time_to_ask_again(lab: &Lab) {
    for mode in [Mode::Exclusive, Mode::Shared] {
        let [ann, bob] = cast(lab).await;
        let ttl = Duration::from_secs(8);
        ann.ttl(ttl).locks().await;
        bob.mode(mode).stands().await;
        lab.pass(&ann, ttl + Duration::from_secs(1));
        assert_eq!(ann.line().await, [bob.owner()]);
    }
}

/// Where it cannot be known who listens, those are listed and waited for whom this server does not
/// know.
async fn who_may_listen_elsewhere_is_listed(lab: &Lab) {
    let lab = lab.confirming(CONFIRM);
    let [ann, bob, eve] = cast(&lab).await;
    ann.mode(Mode::Shared).locks().await;
    bob.stands().await;
    let owner = bob.owner();
    drop(bob);
    sleep(Duration::from_millis(100)).await;
    assert_eq!(ann.line().await, [owner]);
    eve.mode(Mode::Shared).is_refused().await;
}

/// An owner in line that asks for another mode is told of a conflict, also if its turn has come.
async fn a_conflicting_claim_in_line_is_not_granted(lab: &Lab) {
    let [ann, bob] = cast(lab).await;
    let reader = bob.mode(Mode::Shared);
    ann.locks().await;
    reader.stands().await;
    bob.conflicts().await;
    lab.expire(&ann);
    bob.conflicts().await;
    assert_eq!(ann.entry().await.holders[0].mode, Mode::Shared);
    is_told_of_a_grant(&reader).await;
}

/// Who waits to write keeps its place while its owner reads in another client.
async fn a_place_in_a_mode_that_the_owner_has_not_stays(lab: &Lab) {
    let [ann, bob, eve] = cast(lab).await;
    let (reader, writer) = (bob.mode(Mode::Shared), bob.through(&eve));
    ann.locks().await;
    reader.stands().await;
    writer.stands().await;
    assert_eq!(ann.releases().await, Released::Freed);
    reader.turn().await;
    writer.stands().await;
    assert_eq!(ann.line().await, [writer.owner()]);
    assert_eq!(reader.releases().await, Released::Freed);
    writer.turn().await;
}

/// A claim that does not wait leaves the place of its owner as alive as it was.
async fn a_try_does_not_age_the_own_place(lab: &Lab) {
    let [ann, bob] = cast(lab).await;
    ann.locks().await;
    bob.stands().await;
    bob.is_refused().await;
    sleep(Duration::from_millis(10)).await;
    assert_eq!(ann.line().await, [bob.owner()]);
}

/// A claim that asks again when its turn has come has the life and the depth that it asks for.
async fn asking_again_at_ones_turn_has_the_life_and_depth_asked_for(lab: &Lab) {
    for change in [
        |bob: &Party| bob.life(Life::Ttl),
        |bob: &Party| bob.depth(2),
    ] {
        let [ann, bob] = cast(lab).await;
        ann.locks().await;
        bob.ttl(TTL / 4).stands().await;
        lab.expire(&ann);
        let changed = change(&bob);
        assert!(matches!(
            changed.asks(Wait::InLine).await,
            Ok(Answer::Granted(_))
        ));
        let holders = ann.entry().await.holders;
        if changed.claim().life == Life::Ttl {
            assert!(holders[0].expires_in <= TTL / 4, "the place's own ttl");
        }
        assert_eq!(holders.last().unwrap().depth, changed.claim().depth);
        assert!(holders.last().unwrap().expires_in > TTL / 2);
        assert_eq!(changed.releases().await, Released::Freed);
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
        assert_eq!(shorter.renews(Some(fence)).await, Renewed::Kept(fence));
        bob.stands().await;
        dan.stands().await;
        bob.withdraws().await;
        let told = is_told(&eve).await;
        assert!(matches!(told, News::AskAgain(Some(_))), "told {told:?}");
        let told = eve.stands().await;
        assert!(told <= TTL / 4, "told {told:?}");
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

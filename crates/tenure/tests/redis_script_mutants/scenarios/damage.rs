//! Keys that an operator or a full server removed or changed.

use std::time::Duration;

use tokio::time::sleep;

use super::{hears_nothing, is_told, scenarios, until_waited_for_by};
use crate::conformance::Fixture as _;
use crate::conformance::party::{TTL, cast};
use crate::driver::{Mode, News, Released, Renewed, Wait};
use crate::store::redis::mutants::lab::Lab;

scenarios![
    a_lost_line_is_made_anew,
    lost_places_are_made_anew,
    a_missing_place_is_passed_over,
    a_missing_place_behind_the_dead_is_passed_over,
    a_lease_deleted_by_hand_is_free,
    lost_ends_do_not_fail,
    old_ends_do_not_end_a_new_lease,
    what_an_older_version_left_is_respected_until_it_ends,
    a_lease_without_expiry_is_held,
    a_longer_lease_outlasts_a_lost_expiry,
    a_full_server_refuses_before_anybody_is_told,
];

/// A waiter whose line an operator or a full server removed joins a new line.
async fn a_lost_line_is_made_anew(lab: &Lab) {
    let [ann, bob] = cast(lab).await;
    ann.locks().await;
    bob.stands().await;
    lab.cli(&["DEL", &lab.key(&ann, ":line")]);
    bob.stands().await;
    ann.is_waited_for_by(&[&bob]).await;
    ann.frees().await;
    bob.turn().await;
}

/// A waiter in a line whose places were removed joins the line again.
async fn lost_places_are_made_anew(lab: &Lab) {
    let [ann, bob, eve] = cast(lab).await;
    ann.locks().await;
    bob.stands().await;
    eve.stands().await;
    lab.cli(&["DEL", &lab.key(&ann, ":places")]);
    ann.extends(ann.locks().await).await;
    eve.stands().await;
    bob.stands().await;
    ann.is_waited_for_by(&[&eve, &bob]).await;
    ann.frees().await;
    eve.turn().await;
    eve.frees().await;
    bob.turn().await;
    bob.frees().await;
    assert_eq!(lab.keys(&ann), [":fence"]);
}

/// A waiter whose place was removed by hand is passed over.
async fn a_missing_place_is_passed_over(lab: &Lab) {
    let [ann, bob, eve, dan] = cast(lab).await;
    let bob = bob.named();
    let twin = bob.twin(&dan);
    let (line, places) = (lab.key(&ann, ":line"), lab.key(&ann, ":places"));
    let remove = |index: &str| {
        let id = lab.cli(&["LINDEX", &line, index]);
        assert_eq!(lab.cli(&["HDEL", &places, &id]), "1");
    };
    let fence = ann.locks().await;
    dan.stands().await;
    bob.stands().await;
    eve.stands().await;
    twin.stands().await;
    remove("3");
    remove("0");
    ann.ttl(TTL / 4).extends(fence).await;
    ann.frees().await;
    bob.is_held_by(&[&bob]).await;
    bob.frees().await;
    eve.is_held_by(&[&eve]).await;
}

/// The next living waiter is told to ask again; the dead and those without a place are passed over.
async fn a_missing_place_behind_the_dead_is_passed_over(lab: &Lab) {
    let [ann, bob, eve, dan] = cast(lab).await;
    let fence = ann.locks().await;
    bob.stands().await;
    dan.stands().await;
    eve.stands().await;
    let id = lab.cli(&["LINDEX", &lab.key(&ann, ":line"), "1"]);
    lab.cli(&["HDEL", &lab.key(&ann, ":places"), &id]);
    drop(bob);
    until_waited_for_by(&ann, &[&eve]).await;
    let shorter = ann.ttl(TTL / 4);
    shorter.extends(fence).await;
    let told = is_told(&eve).await;
    assert!(matches!(told, News::AskAgain(Some(_))), "told {told:?}");
}

/// A name whose lease an operator deleted is free, whatever else of it is left.
async fn a_lease_deleted_by_hand_is_free(lab: &Lab) {
    let [ann, bob, eve] = cast(lab).await;
    for mode in [
        Mode::Exclusive,
        Mode::Shared,
        Mode::Permits { take: 1, of: 2 },
    ] {
        let ann = ann.nested().named().mode(mode);
        let twin = ann.twin(&eve);
        ann.locks().await;
        twin.locks().await;
        eve.neighbour()
            .mode(Mode::Permits { take: 2, of: 2 })
            .stands()
            .await;
        lab.cli(&["DEL", &lab.key(&ann, "")]);
        for party in [&ann, &twin] {
            assert!(matches!(party.renews(None).await, Renewed::Lost(_)));
            assert!(matches!(party.releases().await, Released::NotHeld(_)));
        }
        assert_eq!(eve.evicts().await.len(), 1, "who waited went in");
        for mode in [Mode::Exclusive, Mode::Shared] {
            let bob = bob.mode(mode);
            bob.locks().await;
            bob.is_held_by(&[&bob]).await;
            bob.frees().await;
        }
    }
}

/// Without the ends of its leases a name is held until its key expires, and no script fails.
async fn lost_ends_do_not_fail(lab: &Lab) {
    let [ann, bob, eve] = cast(lab).await;
    let (ann, eve) = (ann.mode(Mode::Shared), eve.mode(Mode::Shared));
    let fence = ann.locks().await;
    lab.cli(&["DEL", &lab.key(&ann, ":ends")]);
    let told = bob.stands().await;
    assert!(told > Some(TTL / 2), "told {told:?}");
    eve.is_refused().await;
    ann.extends(fence).await;
    lab.cli(&["DEL", &lab.key(&ann, ":ends")]);
    ann.frees().await;
    bob.turn().await;
}

/// What an operator left of a lease does not end the next one.
async fn old_ends_do_not_end_a_new_lease(lab: &Lab) {
    let [ann, bob, eve] = cast(lab).await;
    ann.mode(Mode::Shared).ttl(lab.short()).locks().await;
    bob.mode(Mode::Shared).ttl(TTL / 4).locks().await;
    lab.cli(&["DEL", &lab.key(&ann, "")]);
    eve.locks().await;
    sleep(lab.short() * 2).await;
    let bob = bob.mode(Mode::Shared).nested();
    let told = bob.stands().await;
    assert!(told > Some(TTL / 2), "told {told:?}");
    ann.is_refused().await;
    eve.is_held_by(&[&eve]).await;
    eve.withdraws().await;
    bob.turn().await;
}

/// Leases of clients of an older version count as held, can be evicted, and end when they expire;
/// their places in line are passed over.
async fn what_an_older_version_left_is_respected_until_it_ends(lab: &Lab) {
    let [ann, bob] = cast(lab).await;
    let key = lab.key(&ann, "");
    let shared = ["\u{1}", "E s 0 0 0", "ivy", "1", "\u{2}ivy", "7 s"];
    let leave = || {
        lab.cli(&[&["HSET", &key], &shared[..]].concat());
        lab.cli(&["PEXPIRE", &key, "60000"]);
        let (line, places) = (lab.key(&ann, ":line"), lab.key(&ann, ":places"));
        lab.cli(&["RPUSH", &line, "0123456789abcdef:ivy"]);
        let place = "x 1 c 8 30000 - 1 1 9999999999999 1 there";
        lab.cli(&["HSET", &places, "0123456789abcdef:ivy", place]);
    };
    leave();
    ann.mode(Mode::Shared).is_refused().await;
    bob.stands().await;
    assert!(matches!(ann.renews(None).await, Renewed::Lost(_)));
    assert!(matches!(ann.releases().await, Released::NotHeld(_)));
    ann.evicts().await;
    bob.turn().await;
    bob.frees().await;
    leave();
    bob.stands().await;
    lab.expire(&ann);
    assert!(bob.stands_or_enters().await.is_some());
}

/// A lease whose expiry was removed is held like any other; a waiter asks again before long.
async fn a_lease_without_expiry_is_held(lab: &Lab) {
    let [ann, bob, eve] = cast(lab).await;
    ann.locks().await;
    lab.cli(&["PERSIST", &lab.key(&ann, "")]);
    let told = bob.stands().await.unwrap();
    assert!(told <= Duration::from_secs(1), "told {told:?}");
    assert!(told > Duration::ZERO);
    eve.is_refused().await;
    ann.is_held_by(&[&ann]).await;
    ann.frees().await;
    bob.turn().await;
}

/// A short lease does not shorten a longer one whose key no longer has an expiry.
async fn a_longer_lease_outlasts_a_lost_expiry(lab: &Lab) {
    let [ann, bob, eve] = cast(lab).await;
    let (ann, bob) = (ann.mode(Mode::Shared), bob.mode(Mode::Shared));
    ann.locks().await;
    lab.cli(&["PERSIST", &lab.key(&ann, "")]);
    bob.ttl(lab.short()).locks().await;
    assert!(lab.pttl(&ann, "") > 30_000, "as long as the longest lease");
    assert!(lab.pttl(&ann, ":ends") > 30_000);
    sleep(lab.short() * 2).await;
    eve.is_refused().await;
    ann.is_held_by(&[&ann]).await;
}

/// A server without memory refuses a write before it has notified anybody of it. It still carries
/// out requests that free memory and let the next in line have the lock.
async fn a_full_server_refuses_before_anybody_is_told(lab: &Lab) {
    let lab = lab.alone();
    let [ann, bob, eve] = cast(&lab).await;
    let readers = [&ann, &bob].map(|party| party.mode(Mode::Shared).told_if_wanted());
    for reader in &readers {
        reader.locks().await;
    }
    lab.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let refused = bob.neighbour().asks(Wait::No).await;
    assert!(refused.is_err(), "{refused:?}");
    assert!(eve.asks(Wait::InLine).await.is_err());
    hears_nothing(&ann).await;
    lab.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    bob.neighbour().is_refused().await;
    readers[0].is_called_back().await;
    eve.stands().await;
    lab.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    for reader in &readers {
        reader.frees().await;
    }
    eve.turn().await;
}

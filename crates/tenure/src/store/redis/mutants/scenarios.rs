//! What only the scripts do: where no rule of the suite notices a change, one of these does.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::Test;
use super::lab::Lab;
use crate::conformance::Fixture as _;
use crate::conformance::modes::permits;
use crate::conformance::stage::{Party, TTL, assert_same, cast, until};
use crate::driver::{Answer, Life, Loss, Mode, News, Released, Renewed, Wait};
use crate::name::Fence;

macro_rules! scenarios {
    ($($name:ident,)+) => {
        /// All scenarios by name.
        pub(super) const ALL: &[(&str, Test)] = &[$((stringify!($name), |lab| Box::pin($name(lab)))),+];

        /// With the scripts as they are.
        mod passes {$(
            #[tokio::test]
            async fn $name() {
                super::$name(&super::Lab::start()).await;
            }
        )+}
    };
}

scenarios![
    a_free_lock_takes_few_calls,
    a_held_lock_is_renewed_and_released_in_few_calls,
    only_the_fence_is_left_behind,
    the_dead_are_passed_over_and_keep_their_place,
    who_does_not_ask_again_loses_the_place,
    a_handed_over_lease_has_to_be_confirmed,
    a_grant_by_the_answer_comes_without_a_message,
    a_late_asker_keeps_its_place,
    a_conflicting_claim_in_line_is_not_granted,
    a_try_does_not_age_the_own_place,
    asking_again_at_ones_turn_has_the_life_and_depth_asked_for,
    everybody_behind_learns_of_a_shorter_lease,
    who_left_is_not_told_because_of_its_former_grant,
    the_living_behind_a_dead_twin_go_in,
    a_lost_line_is_made_anew,
    lost_places_are_made_anew,
    a_lease_deleted_by_hand_is_free,
    lost_ends_do_not_fail,
    a_lease_without_expiry_is_held_and_can_be_shared,
    a_longer_lease_outlasts_a_lost_expiry,
    owners_of_any_letters_are_told_and_listed,
    permits_of_many_numbers_are_counted,
    twins_that_keep_the_name_count_once,
    a_line_that_everybody_left_expires,
    a_full_server_refuses_before_anybody_is_told,
    a_neighbour_with_the_fence_changes_nothing,
    a_handed_over_lease_of_no_client_is_nobodys,
    a_place_in_a_mode_that_the_owner_has_not_stays,
    permits_under_a_write_lock_are_a_conflict,
    fences_grow_even_if_the_last_is_forgotten,
    permits_of_a_smaller_number_hold_for_those_after,
    a_release_by_fence_hands_over,
    a_release_by_fence_hands_over_in_few_calls,
    a_release_by_fence_passes_over_the_dead,
    a_release_by_fence_passes_over_who_is_late,
    a_release_by_fence_sees_to_twins,
    a_release_by_fence_to_a_short_lease_calls_the_next,
    a_release_by_fence_keeps_to_what_it_says,
    a_release_by_fence_after_everybody_left,
    a_release_by_fence_has_to_be_confirmed,
    fences_grow_in_a_release_by_fence,
    queueing_takes_few_calls,
    the_living_have_time_to_ask_again,
    the_smallest_number_of_permits_left_holds,
    a_long_reason_does_not_confuse_twins,
    who_did_not_ask_to_be_told_is_not,
    a_lone_holder_is_renewed_in_few_calls,
    re_entry_beside_others_counts_once,
    a_name_taken_by_nobody_gives_its_permits_back,
    old_ends_do_not_end_a_new_lease,
    depths_beside_others_are_lowered,
    a_renewal_beside_others_lasts,
    withdrawing_a_deeper_claim_raises_nothing,
    only_the_client_that_has_a_lease_renews_it,
    a_release_or_renewal_at_ones_turn_finds_the_lease,
    a_name_taken_by_nobody_is_taken,
    a_neighbours_claim_does_not_call_back,
    a_missing_place_is_passed_over,
    a_missing_place_behind_the_dead_is_passed_over,
    nobody_is_told_twice_to_ask_again,
    a_confirmed_grant_by_the_answer_comes_without_a_message,
    who_may_listen_elsewhere_is_listed,
    a_holder_that_would_wait_enters_again,
    a_twin_that_asks_again_keeps_one_place,
    string_locks_compare,
    string_fences_grow,
];

/// Taking a free name asks the server for little more than a bare lock would.
async fn a_free_lock_takes_few_calls(lab: &Lab) {
    let lab = lab.alone();
    let [ann] = cast(&lab).await;
    ann.locks().await;
    ann.withdraws().await;
    let before = lab.calls();
    ann.locks().await;
    let calls = lab.calls() - before;
    assert!(calls <= 5, "{calls} calls");
}

/// A lease that nobody else wants is renewed and freed by two calls each.
async fn a_held_lock_is_renewed_and_released_in_few_calls(lab: &Lab) {
    let lab = lab.alone();
    let [ann] = cast(&lab).await;
    for party in [ann.life(Life::Client), ann.life(Life::Ttl)] {
        let fence = party.locks().await;
        let before = lab.calls();
        assert_eq!(party.renews(Some(fence)).await, Renewed::Kept(fence));
        assert_eq!(lab.calls() - before, 2);
        let before = lab.calls();
        let released = party.releases_with(|release| release.fence = Some(fence));
        assert_eq!(released.await, Released::Freed);
        assert_eq!(lab.calls() - before, 2);
    }
}

/// After everything is released, nothing is left but the last fence, and that expires.
async fn only_the_fence_is_left_behind(lab: &Lab) {
    let [ann, bob, eve] = cast(lab).await;
    for mode in [
        Mode::Exclusive,
        Mode::Shared,
        Mode::Permits { take: 1, of: 1 },
    ] {
        let (ann, bob) = (ann.mode(mode), bob.mode(mode));
        ann.locks().await;
        eve.stands().await;
        bob.stands().await;
        assert_eq!(ann.releases().await, Released::Freed);
        eve.turn().await;
        assert_eq!(eve.releases().await, Released::Freed);
        bob.turn().await;
        let twin = bob.through(&ann);
        twin.locks().await;
        for party in [&bob, &twin] {
            assert_eq!(party.releases().await, Released::Freed);
        }
        assert_eq!(lab.keys(&ann), [":fence"]);
        assert!(lab.pttl(&ann, ":fence") > 0);
    }
}

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
    let confirm = Duration::from_millis(400);
    let lab = lab.confirming(confirm);
    let [ann, bob, eve] = cast(&lab).await;
    ann.locks().await;
    let told = bob.stands().await;
    assert!(told <= confirm, "told {told:?}");
    eve.stands().await;
    sleep(confirm).await;
    eve.stands().await;
    assert_eq!(ann.line().await, [bob.owner(), eve.owner()]);
    sleep(confirm * 5 / 4).await;
    eve.stands().await;
    assert_eq!(ann.line().await, [eve.owner()]);
    assert_eq!(ann.releases().await, Released::Freed);
    eve.turn().await;
}

/// Where it cannot be known who listens, a lease is handed over for a moment, until its new holder
/// asks again.
async fn a_handed_over_lease_has_to_be_confirmed(lab: &Lab) {
    let confirm = Duration::from_secs(1);
    let lab = lab.confirming(confirm);
    let [ann, bob, eve] = cast(&lab).await;
    ann.locks().await;
    bob.stands().await;
    eve.stands().await;
    assert_eq!(ann.releases().await, Released::Freed);
    let left = ann.entry().await.holders[0].expires_in;
    assert!(left <= confirm, "{left:?} left");
    bob.is_held_by(&[&bob]).await;
    bob.turn().await;
    let left = ann.entry().await.holders[0].expires_in;
    assert!(left > TTL / 2, "{left:?} left");
    assert_eq!(bob.releases().await, Released::Freed);
    // Nobody confirms this one.
    eve.is_held_by(&[&eve]).await;
    ann.locks_in_time().await;
}

/// Whose turn comes with its own request is told so by the answer alone.
async fn a_grant_by_the_answer_comes_without_a_message(lab: &Lab) {
    let [ann, bob] = cast(lab).await;
    ann.locks().await;
    bob.stands().await;
    lab.expire(&ann);
    let answer = bob.asks(Wait::InLine).await.unwrap();
    assert!(matches!(answer, Answer::Granted(_)));
    hears_nothing(&bob).await;
}

/// Who asks again too late keeps its place if nobody else has asked meanwhile.
async fn a_late_asker_keeps_its_place(lab: &Lab) {
    let confirm = Duration::from_millis(400);
    let lab = lab.confirming(confirm);
    let [ann, bob, eve] = cast(&lab).await;
    ann.locks().await;
    bob.stands().await;
    sleep(confirm * 5 / 4).await;
    eve.stands().await;
    sleep(confirm).await;
    bob.stands().await;
    assert_eq!(ann.line().await, [bob.owner(), eve.owner()]);
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

/// When a lease becomes shorter and the first in line leaves, the next is told.
async fn everybody_behind_learns_of_a_shorter_lease(lab: &Lab) {
    for mode in [Mode::Exclusive, Mode::Shared] {
        let [ann, bob, eve, dan] = cast(lab).await;
        let (bob, eve) = (bob.mode(mode), eve.mode(mode));
        let fence = ann.locks().await;
        bob.stands().await;
        eve.stands().await;
        let shorter = ann.ttl(lab.short() * 3);
        assert_eq!(shorter.renews(Some(fence)).await, Renewed::Kept(fence));
        bob.stands().await;
        dan.stands().await;
        bob.withdraws().await;
        eve.turn().await;
    }
}

/// A holder that wanted to be told and left is not told of the next grant, for which it did not
/// ask to be.
async fn who_left_is_not_told_because_of_its_former_grant(lab: &Lab) {
    let [ann, bob, eve] = cast(lab).await;
    let (ann, bob) = (ann.mode(Mode::Shared), bob.mode(Mode::Shared));
    let other = ann.neighbour().told_if_wanted();
    bob.locks().await;
    ann.told_if_wanted().locks().await;
    other.locks().await;
    assert_eq!(ann.releases().await, Released::Freed);
    let fence = ann.locks().await;
    eve.is_refused().await;
    other.is_called_back().await;
    ann.is_not_called_back().await;
    assert_eq!(ann.renews(None).await, Renewed::Kept(fence));
}

/// A dead client of an owner that goes in does not make the living behind it wait.
async fn the_living_behind_a_dead_twin_go_in(lab: &Lab) {
    let [ann, bob, eve, dan] = cast(lab).await;
    let (bob, eve) = (bob.mode(Mode::Shared), eve.mode(Mode::Shared));
    let twin = bob.through(&dan);
    ann.locks().await;
    twin.stands().await;
    bob.stands().await;
    eve.stands().await;
    drop((twin, dan));
    until("the dead to be passed over", || async {
        ann.line().await == [bob.owner(), eve.owner()]
    })
    .await;
    assert_eq!(ann.releases().await, Released::Freed);
    bob.is_held_by(&[&bob, &eve]).await;
}

/// Who waits in a line that an operator or a full server removed stands in line anew.
async fn a_lost_line_is_made_anew(lab: &Lab) {
    let [ann, bob] = cast(lab).await;
    ann.locks().await;
    bob.stands().await;
    lab.cli(&["DEL", &lab.key(&ann, ":line")]);
    bob.stands().await;
    assert_eq!(ann.line().await, [bob.owner()]);
    assert_eq!(ann.releases().await, Released::Freed);
    bob.turn().await;
}

/// Who waits in a line whose places were removed stands in line anew.
async fn lost_places_are_made_anew(lab: &Lab) {
    let [ann, bob, eve] = cast(lab).await;
    ann.locks().await;
    bob.stands().await;
    eve.stands().await;
    lab.cli(&["DEL", &lab.key(&ann, ":places")]);
    assert_eq!(ann.renews(None).await, Renewed::Kept(ann.locks().await));
    eve.stands().await;
    bob.stands().await;
    assert_eq!(ann.line().await, [eve.owner(), bob.owner()]);
    assert_eq!(ann.releases().await, Released::Freed);
    eve.turn().await;
    assert_eq!(eve.releases().await, Released::Freed);
    bob.turn().await;
    assert_eq!(bob.releases().await, Released::Freed);
    assert_eq!(lab.keys(&ann), [":fence"]);
}

/// A name whose lease an operator deleted is free, whatever else of it is left.
async fn a_lease_deleted_by_hand_is_free(lab: &Lab) {
    let [ann, bob, eve] = cast(lab).await;
    for mode in [
        Mode::Exclusive,
        Mode::Shared,
        Mode::Permits { take: 1, of: 2 },
    ] {
        let (ann, twin) = (ann.mode(mode), ann.mode(mode).through(&eve));
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
            assert_eq!(bob.releases().await, Released::Freed);
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
    assert!(told > TTL / 2, "told {told:?}");
    eve.is_refused().await;
    assert_eq!(ann.renews(Some(fence)).await, Renewed::Kept(fence));
    lab.cli(&["DEL", &lab.key(&ann, ":ends")]);
    assert_eq!(ann.releases().await, Released::Freed);
    bob.turn().await;
}

/// A lease whose expiry was taken away is held like any other; a waiter looks again before long.
async fn a_lease_without_expiry_is_held_and_can_be_shared(lab: &Lab) {
    let [ann, bob, eve] = cast(lab).await;
    let twin = ann.through(&eve);
    ann.locks().await;
    lab.cli(&["PERSIST", &lab.key(&ann, "")]);
    let told = bob.stands().await;
    assert!(told <= Duration::from_secs(1), "told {told:?}");
    assert!(told > Duration::ZERO);
    twin.locks().await;
    ann.is_held_by(&[&ann, &twin]).await;
    for party in [&ann, &twin] {
        assert_eq!(party.releases().await, Released::Freed);
    }
    bob.turn().await;
}

/// A short lease does not cut a longer one short whose key has no expiry any more.
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

/// Owners with spaces, colons, percent signs and letters of any script are told and listed.
async fn owners_of_any_letters_are_told_and_listed(lab: &Lab) {
    for text in [
        " ",
        "a b",
        ":",
        "a:b",
        "-",
        "!",
        "!:1:a",
        "%d+",
        "%",
        "E x",
        "ä🔒",
        "7",
        "^$().[]*+?",
    ] {
        let [ann, bob, eve] = cast(lab).await;
        let owner = crate::Owner::named(text).unwrap();
        let named = |party: &Party| {
            party
                .but(|claim| claim.owner = owner.clone())
                .told_if_wanted()
        };
        let (bob, twin) = (named(&bob), named(&eve));
        ann.locks().await;
        bob.stands().await;
        assert_eq!(ann.line().await, [bob.owner()]);
        assert_eq!(ann.releases().await, Released::Freed);
        let fence = bob.turn().await.fence;
        bob.is_held_by(&[&bob]).await;
        twin.locks().await;
        ann.is_refused().await;
        assert_eq!(bob.is_called_back().await, fence);
        assert_eq!(
            twin.releases_with(|release| release.stays_taken = TTL)
                .await,
            Released::Freed
        );
        assert_eq!(ann.evicts().await.len(), 2);
        assert_eq!(bob.loses().await, (fence, Loss::Evicted));
        bob.locks().await;
        assert_eq!(bob.releases().await, Released::Freed);
    }
}

/// Claims of different numbers of permits keep to the smallest of those that are in.
async fn permits_of_many_numbers_are_counted(lab: &Lab) {
    let [ann, bob, eve, dan] = cast(lab).await;
    let (three, two) = (permits(&ann, 1, 3), permits(&bob, 1, 2));
    let (also_two, four) = (permits(&eve, 1, 2), permits(&dan, 1, 4));
    three.locks().await;
    two.locks().await;
    also_two.is_refused().await;
    four.is_refused().await;
    assert_eq!(two.releases().await, Released::Freed);
    also_two.locks().await;
    four.is_refused().await;
    assert_eq!(also_two.releases().await, Released::Freed);
    four.locks().await;
    let last = permits(&dan.neighbour(), 1, 4);
    assert_eq!(
        three
            .releases_with(|release| release.stays_taken = lab.short() * 3)
            .await,
        Released::Freed
    );
    permits(&ann.neighbour(), 1, 3).locks().await;
    last.is_refused().await;
    sleep(lab.short() * 4).await;
    permits(&ann.neighbour(), 1, 3).locks().await;
    last.is_refused().await;
}

/// Two clients of one owner that both keep the name taken, or one of them, take its permits once.
async fn twins_that_keep_the_name_count_once(lab: &Lab) {
    let [ann, bob, eve] = cast(lab).await;
    let ann = permits(&ann, 1, 2);
    let twin = ann.through(&bob);
    let (eve, dan) = (permits(&eve, 1, 2), permits(&bob, 1, 2));
    ann.locks().await;
    twin.locks().await;
    let keep = lab.short() * 2;
    assert_eq!(
        ann.releases_with(|release| release.stays_taken = keep)
            .await,
        Released::Freed
    );
    eve.locks().await;
    dan.is_refused().await;
    sleep(keep * 2).await;
    dan.is_refused().await;
    assert_eq!(
        twin.releases_with(|release| release.stays_taken = keep)
            .await,
        Released::Freed
    );
    dan.is_refused().await;
    dan.locks_in_time().await;
    assert_eq!(eve.releases().await, Released::Freed);
    assert_eq!(dan.releases().await, Released::Freed);
    assert_eq!(lab.keys(&ann), [":fence"]);
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

/// A server without memory refuses a write before it has told anybody of it; what frees memory, and
/// lets the next in, it does.
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
        assert_eq!(reader.releases().await, Released::Freed);
    }
    eve.turn().await;
}

/// Another owner of the same client changes nothing, although it knows the fence.
async fn a_neighbour_with_the_fence_changes_nothing(lab: &Lab) {
    let [ann, eve] = cast(lab).await;
    for shared in [false, true] {
        let fence = ann.ttl(TTL / 4).locks().await;
        if shared {
            ann.ttl(TTL / 4).through(&eve).locks().await;
        }
        let neighbour = ann.neighbour();
        assert_eq!(
            neighbour.renews(Some(fence)).await,
            Renewed::Lost(Loss::TakenOver)
        );
        let released = neighbour.releases_with(|release| release.fence = Some(fence));
        assert_eq!(released.await, Released::NotHeld(Loss::TakenOver));
        assert!(ann.entry().await.holders[0].expires_in <= TTL / 4);
        assert_eq!(ann.releases().await, Released::Freed);
    }
}

/// A lease of no client that is handed over belongs to no client, in every mode.
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
        assert_eq!(ann.releases().await, Released::Freed);
        bob.turn().await;
        let heir = bob.through(&ann);
        heir.is_held_by(&[&bob]).await;
        assert_eq!(heir.releases().await, Released::Freed);
        eve.turn().await;
    }
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

/// A writer that asks for permits is told of a conflict.
async fn permits_under_a_write_lock_are_a_conflict(lab: &Lab) {
    let [ann] = cast(lab).await;
    ann.locks().await;
    permits(&ann, 1, 2).conflicts().await;
    ann.is_held_by(&[&ann]).await;
}

/// Fences are times, so they grow even if the server has forgotten the last.
async fn fences_grow_even_if_the_last_is_forgotten(lab: &Lab) {
    for mode in [Mode::Exclusive, Mode::Shared] {
        let [ann] = cast(lab).await;
        let ann = ann.mode(mode);
        let older = ann.locks().await;
        assert_eq!(ann.releases().await, Released::Freed);
        lab.cli(&["DEL", &lab.key(&ann, ":fence")]);
        let newer = ann.locks().await;
        assert!(older < newer, "{older} then {newer}");
        assert!(older.get() > 1_500_000_000_000_000, "a time, not {older}");
        assert_eq!(ann.releases().await, Released::Freed);
        lab.cli(&["SET", &lab.key(&ann, ":fence"), "4000000000000000"]);
        let ahead = ann.locks().await;
        assert_eq!(ahead.get(), 4_000_000_000_000_001);
        assert_eq!(ann.releases().await, Released::Freed);
    }
}

/// A smaller number of permits holds for those who come after it, also while nobody has them.
async fn permits_of_a_smaller_number_hold_for_those_after(lab: &Lab) {
    let [ann, bob, eve] = cast(lab).await;
    let (two, five, last) = (
        permits(&ann, 1, 2),
        permits(&bob, 1, 5),
        permits(&eve, 1, 5),
    );
    two.locks().await;
    five.locks().await;
    last.is_refused().await;
    assert_eq!(
        two.releases_with(|release| release.stays_taken = TTL).await,
        Released::Freed
    );
    last.is_refused().await;
    assert_eq!(five.releases().await, Released::Freed);
    last.locks().await;
    five.is_refused().await;
}

/// A release that names its grant hands over what was asked for, by a message, one after the other.
async fn a_release_by_fence_hands_over(lab: &Lab) {
    let [ann, bob, eve, dan] = cast(lab).await;
    let first = ann.locks().await;
    let (bob, eve) = (bob.depth(2), eve.life(Life::Ttl));
    for waiter in [&bob, &eve, &dan] {
        waiter.stands().await;
    }
    frees(&ann, first).await;
    let second = is_told_of_a_grant(&bob).await;
    assert!(first < second);
    assert_same(&ann.depths().await, &[(bob.owner(), 2)]);
    assert_eq!(ann.line().await, [eve.owner(), dan.owner()]);
    let holder = &ann.entry().await.holders[0];
    assert_eq!((holder.fence, &holder.about), (second, &bob.claim().about));
    assert!(holder.expires_in > TTL / 2);
    frees(&bob, second).await;
    let third = is_told_of_a_grant(&eve).await;
    frees(&eve.through(&ann), third).await;
    let last = is_told_of_a_grant(&dan).await;
    assert_eq!(lab.keys(&ann), ["", ":fence"]);
    assert_eq!(dan.renews(Some(last)).await, Renewed::Kept(last));
    frees(&dan, last).await;
    assert_eq!(lab.keys(&ann), [":fence"]);
}

/// Handing over to the first in line asks little of the server.
async fn a_release_by_fence_hands_over_in_few_calls(lab: &Lab) {
    let lab = lab.alone();
    let [ann, bob] = cast(&lab).await;
    let fence = ann.locks().await;
    bob.stands().await;
    let before = lab.calls();
    frees(&ann, fence).await;
    let calls = lab.calls() - before;
    assert!(calls <= 12, "{calls} calls");
    let fence = is_told_of_a_grant(&bob).await;
    let before = lab.calls();
    frees(&bob, fence).await;
    let calls = lab.calls() - before;
    assert!(calls <= 2, "{calls} calls");
}

/// Standing in line behind one holder asks little of the server.
async fn queueing_takes_few_calls(lab: &Lab) {
    let lab = lab.alone();
    let [ann, bob] = cast(&lab).await;
    ann.locks().await;
    let before = lab.calls();
    bob.stands().await;
    let calls = lab.calls() - before;
    assert!(calls <= 12, "{calls} calls");
    let before = lab.calls();
    bob.neighbour().stands().await;
    let calls = lab.calls() - before;
    assert!(calls <= 8, "{calls} calls");
}

/// A release that names its grant passes over the dead.
async fn a_release_by_fence_passes_over_the_dead(lab: &Lab) {
    let [ann, bob, eve] = cast(lab).await;
    let fence = ann.locks().await;
    bob.stands().await;
    eve.stands().await;
    drop(bob);
    until("the dead to be passed over", || async {
        ann.line().await == [eve.owner()]
    })
    .await;
    frees(&ann, fence).await;
    eve.is_held_by(&[&eve]).await;
}

/// A release that names its grant passes over who did not ask again in time.
async fn a_release_by_fence_passes_over_who_is_late(lab: &Lab) {
    let [ann, bob, eve] = cast(lab).await;
    let fence = ann.locks().await;
    bob.stands().await;
    lab.make_late(&ann);
    eve.stands().await;
    frees(&ann, fence).await;
    eve.is_held_by(&[&eve]).await;
}

/// A release that names its grant lets two clients of one owner in together.
async fn a_release_by_fence_sees_to_twins(lab: &Lab) {
    let [ann, bob, eve, dan] = cast(lab).await;
    let twin = bob.through(&eve);
    let fence = ann.locks().await;
    bob.stands().await;
    dan.stands().await;
    twin.stands().await;
    frees(&ann, fence).await;
    bob.is_held_by(&[&bob, &twin]).await;
}

/// A release that names its grant to somebody with a short lease tells who is behind it.
async fn a_release_by_fence_to_a_short_lease_calls_the_next(lab: &Lab) {
    let [ann, bob, eve] = cast(lab).await;
    let fence = ann.locks().await;
    bob.ttl(lab.short()).stands().await;
    eve.stands().await;
    frees(&ann, fence).await;
    eve.turn().await;
}

/// A release that names its grant lowers, or leaves the name taken, if it says so.
async fn a_release_by_fence_keeps_to_what_it_says(lab: &Lab) {
    let [ann, bob] = cast(lab).await;
    let fence = ann.depth(2).locks().await;
    let lowered = ann.releases_with(|release| {
        release.fence = Some(fence);
        release.depth = 1;
    });
    assert_eq!(lowered.await, Released::Lowered);
    ann.is_held_by(&[&ann]).await;
    let kept = ann.releases_with(|release| {
        release.fence = Some(fence);
        release.stays_taken = TTL;
    });
    assert_eq!(kept.await, Released::Freed);
    bob.is_refused().await;
}

/// A release that names its grant frees the name if those who waited have left.
async fn a_release_by_fence_after_everybody_left(lab: &Lab) {
    let [ann, bob] = cast(lab).await;
    let fence = ann.locks().await;
    bob.stands().await;
    bob.withdraws().await;
    frees(&ann, fence).await;
    bob.locks().await;
}

/// A release that names its grant hands over for a moment where that has to be confirmed.
async fn a_release_by_fence_has_to_be_confirmed(lab: &Lab) {
    let confirm = Duration::from_secs(2);
    let lab = lab.confirming(confirm);
    let [ann, bob] = cast(&lab).await;
    let fence = ann.locks().await;
    bob.stands().await;
    frees(&ann, fence).await;
    assert!(ann.entry().await.holders[0].expires_in <= confirm);
    bob.turn().await;
}

/// The fences of hand-overs are times, and grow whatever the server remembers of the last.
async fn fences_grow_in_a_release_by_fence(lab: &Lab) {
    let [ann, bob] = cast(lab).await;
    let mut fence = ann.locks().await;
    let key = lab.key(&ann, ":fence");
    let (mut holder, mut next) = (&ann, &bob);
    for last in [None, Some("1000"), Some("4000000000000000")] {
        next.stands().await;
        match last {
            None => lab.cli(&["DEL", &key]),
            Some(last) => lab.cli(&["SET", &key, last]),
        };
        frees(holder, fence).await;
        let newer = is_told_of_a_grant(next).await;
        assert!(fence < newer, "{fence} then {newer}");
        (fence, holder, next) = (newer, next, holder);
    }
    assert_eq!(fence.get(), 4_000_000_000_000_001);
}

/// Who waits is not taken for dead as soon as the lease in front of it has ended.
async fn the_living_have_time_to_ask_again(lab: &Lab) {
    for mode in [Mode::Exclusive, Mode::Shared] {
        let [ann, bob] = cast(lab).await;
        let short = lab.short() * 3;
        ann.ttl(short).locks().await;
        bob.mode(mode).stands().await;
        sleep(short * 3 / 2).await;
        assert_eq!(ann.line().await, [bob.owner()]);
    }
}

/// When a grant leaves, the smallest number of permits of all that are left holds.
async fn the_smallest_number_of_permits_left_holds(lab: &Lab) {
    let [ann, bob, eve, dan] = cast(lab).await;
    let (three, four, five) = (
        permits(&ann, 1, 3),
        permits(&bob, 1, 4),
        permits(&eve, 1, 5),
    );
    for party in [&three, &four, &five] {
        party.locks().await;
    }
    assert_eq!(five.releases().await, Released::Freed);
    five.locks().await;
    permits(&dan, 1, 5).is_refused().await;
}

/// A holder with a long reason, which a server keeps in another order, can have a twin.
async fn a_long_reason_does_not_confuse_twins(lab: &Lab) {
    for _ in 0..12 {
        let [ann, eve] = cast(lab).await;
        let ann = ann.but(|claim| claim.about.reason = Some("long".repeat(100).into()));
        let twin = ann.through(&eve);
        ann.locks().await;
        twin.locks().await;
        ann.is_held_by(&[&ann, &twin]).await;
    }
}

/// A holder that did not ask to be told of claims is not, also beside a twin.
async fn who_did_not_ask_to_be_told_is_not(lab: &Lab) {
    let [ann, bob, eve] = cast(lab).await;
    let twin = ann.through(&bob).told_if_wanted();
    ann.locks().await;
    twin.locks().await;
    eve.is_refused().await;
    twin.is_called_back().await;
    ann.is_not_called_back().await;
}

/// A lone exclusive holder is renewed by two calls, however it went in and entered again.
async fn a_lone_holder_is_renewed_in_few_calls(lab: &Lab) {
    let lab = lab.alone();
    let [ann, bob] = cast(&lab).await;
    ann.locks().await;
    bob.stands().await;
    lab.expire(&ann);
    let Ok(Answer::Granted(fence)) = bob.asks(Wait::InLine).await else {
        panic!("its turn has come");
    };
    for party in [&bob, &bob.depth(2)] {
        assert_eq!(party.locks().await, fence);
        let before = lab.calls();
        assert_eq!(bob.renews(Some(fence)).await, Renewed::Kept(fence));
        assert_eq!(lab.calls() - before, 2);
    }
}

/// Entering again beside other holders changes the depth alone, and one release is enough.
async fn re_entry_beside_others_counts_once(lab: &Lab) {
    let [ann, bob, eve] = cast(lab).await;
    let (ann, bob) = (permits(&ann, 1, 2), permits(&bob, 1, 2));
    ann.locks().await;
    bob.locks().await;
    ann.depth(2).locks().await;
    assert_same(&ann.depths().await, &[(ann.owner(), 2), (bob.owner(), 1)]);
    assert_eq!(ann.releases().await, Released::Freed);
    assert_same(&ann.depths().await, &[(bob.owner(), 1)]);
    permits(&eve, 1, 2).locks().await;
    ann.mode(Mode::Shared).is_refused().await;
}

/// Permits of a name that stays taken by nobody come back, although their owner has new ones.
async fn a_name_taken_by_nobody_gives_its_permits_back(lab: &Lab) {
    let [ann, bob] = cast(lab).await;
    let (ann, bob) = (permits(&ann, 1, 2), permits(&bob, 1, 2));
    ann.locks().await;
    let kept = ann.releases_with(|release| release.stays_taken = lab.short() * 3);
    assert_eq!(kept.await, Released::Freed);
    ann.locks().await;
    bob.is_refused().await;
    bob.locks_in_time().await;
    ann.is_held_by(&[&ann, &bob]).await;
}

/// What an operator left of a lease does not end the next.
async fn old_ends_do_not_end_a_new_lease(lab: &Lab) {
    let [ann, bob, eve] = cast(lab).await;
    ann.mode(Mode::Shared).ttl(lab.short()).locks().await;
    bob.mode(Mode::Shared).ttl(TTL / 4).locks().await;
    lab.cli(&["DEL", &lab.key(&ann, "")]);
    eve.locks().await;
    sleep(lab.short() * 2).await;
    let told = bob.mode(Mode::Shared).stands().await;
    assert!(told > TTL / 2, "told {told:?}");
    ann.is_refused().await;
    eve.is_held_by(&[&eve]).await;
}

/// A depth is lowered, by a release or a withdrawal, also beside other holders.
async fn depths_beside_others_are_lowered(lab: &Lab) {
    let [ann, bob, eve] = cast(lab).await;
    let (ann, bob) = (permits(&ann, 1, 2), permits(&bob, 1, 2));
    ann.depth(4).locks().await;
    bob.locks().await;
    assert_eq!(ann.releases_to(3).await, Released::Lowered);
    assert_same(&ann.depths().await, &[(ann.owner(), 3), (bob.owner(), 1)]);
    ann.depth(3).withdraws().await;
    assert_same(&ann.depths().await, &[(ann.owner(), 2), (bob.owner(), 1)]);
    assert_eq!(ann.releases().await, Released::Freed);
    permits(&eve, 1, 2).locks().await;
}

/// A renewal beside other holders makes the lease last.
async fn a_renewal_beside_others_lasts(lab: &Lab) {
    let [ann, bob] = cast(lab).await;
    let (ann, bob) = (ann.mode(Mode::Shared), bob.mode(Mode::Shared));
    let fence = ann.ttl(TTL / 4).locks().await;
    bob.locks().await;
    assert_eq!(ann.renews(Some(fence)).await, Renewed::Kept(fence));
    let left = ann.entry().await.holders[0].expires_in;
    assert!(left > TTL / 2, "{left:?} left");
}

/// Withdrawing a claim for a greater depth than there is changes nothing.
async fn withdrawing_a_deeper_claim_raises_nothing(lab: &Lab) {
    let [ann, bob] = cast(lab).await;
    for mode in [Mode::Exclusive, Mode::Shared] {
        let ann = ann.mode(mode);
        ann.locks().await;
        ann.depth(3).withdraws().await;
        bob.is_held_by(&[&ann]).await;
        assert_eq!(ann.releases().await, Released::Freed);
    }
}

/// Another client of the same owner does not renew or free a lease that it has no part in.
async fn only_the_client_that_has_a_lease_renews_it(lab: &Lab) {
    let [ann, bob] = cast(lab).await;
    for mode in [Mode::Exclusive, Mode::Shared] {
        let ann = ann.mode(mode);
        let twin = ann.through(&bob);
        let fence = ann.ttl(TTL / 4).locks().await;
        for named in [None, Some(fence)] {
            assert_eq!(twin.renews(named).await, Renewed::Lost(Loss::Gone));
            let released = twin.releases_with(|release| release.fence = named);
            assert_eq!(released.await, Released::NotHeld(Loss::Gone));
        }
        assert!(ann.entry().await.holders[0].expires_in <= TTL / 4);
        assert_eq!(ann.releases().await, Released::Freed);
    }
}

/// A release or a renewal of a claim whose turn came by time finds the lease.
async fn a_release_or_renewal_at_ones_turn_finds_the_lease(lab: &Lab) {
    let [ann, bob] = cast(lab).await;
    ann.locks().await;
    bob.stands().await;
    lab.expire(&ann);
    assert!(matches!(bob.renews(None).await, Renewed::Kept(_)));
    assert_eq!(bob.releases().await, Released::Freed);
    ann.locks().await;
    bob.stands().await;
    lab.expire(&ann);
    assert_eq!(bob.releases().await, Released::Freed);
}

/// A name that stays taken by nobody counts as another's, but for its last owner.
async fn a_name_taken_by_nobody_is_taken(lab: &Lab) {
    for mode in [Mode::Exclusive, Mode::Shared] {
        let [ann, bob] = cast(lab).await;
        let ann = ann.mode(mode);
        ann.locks().await;
        let kept = ann.releases_with(|release| release.stays_taken = TTL);
        assert_eq!(kept.await, Released::Freed);
        assert_eq!(ann.renews(None).await, Renewed::Lost(Loss::Gone));
        assert_eq!(bob.renews(None).await, Renewed::Lost(Loss::TakenOver));
    }
}

/// A claim of the holder's own client does not call a lease back.
async fn a_neighbours_claim_does_not_call_back(lab: &Lab) {
    let [ann, bob] = cast(lab).await;
    let ann = ann.told_if_wanted();
    let fence = ann.locks().await;
    ann.neighbour().is_refused().await;
    ann.neighbour().stands().await;
    ann.is_not_called_back().await;
    bob.is_refused().await;
    assert_eq!(ann.is_called_back().await, fence);
}

/// Somebody in line whose place was removed by hand is passed over.
async fn a_missing_place_is_passed_over(lab: &Lab) {
    let [ann, bob, eve, dan] = cast(lab).await;
    let twin = bob.through(&dan);
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
    assert_eq!(
        ann.ttl(TTL / 4).renews(Some(fence)).await,
        Renewed::Kept(fence)
    );
    assert_eq!(ann.releases().await, Released::Freed);
    bob.is_held_by(&[&bob]).await;
    assert_eq!(bob.releases().await, Released::Freed);
    eve.is_held_by(&[&eve]).await;
}

/// The next in line who lives is told to ask again, past the dead and those without a place.
async fn a_missing_place_behind_the_dead_is_passed_over(lab: &Lab) {
    let [ann, bob, eve, dan] = cast(lab).await;
    let fence = ann.locks().await;
    bob.stands().await;
    dan.stands().await;
    eve.stands().await;
    let id = lab.cli(&["LINDEX", &lab.key(&ann, ":line"), "1"]);
    lab.cli(&["HDEL", &lab.key(&ann, ":places"), &id]);
    drop(bob);
    until("the dead to be passed over", || async {
        ann.line().await == [eve.owner()]
    })
    .await;
    let shorter = ann.ttl(TTL / 4);
    assert_eq!(shorter.renews(Some(fence)).await, Renewed::Kept(fence));
    let told = timeout(Duration::from_secs(1), eve.driver().news()).await;
    assert!(matches!(told, Ok(News::AskAgain(Some(_)))), "told {told:?}");
}

/// The first in line is told to ask again when a lease becomes shorter, and not when it grows.
async fn nobody_is_told_twice_to_ask_again(lab: &Lab) {
    let [ann, bob, eve] = cast(lab).await;
    let fence = ann.locks().await;
    bob.stands().await;
    eve.stands().await;
    ann.ttl(TTL / 4).renews(Some(fence)).await;
    let told = timeout(Duration::from_secs(1), bob.driver().news()).await;
    assert!(matches!(told, Ok(News::AskAgain(Some(_)))), "told {told:?}");
    ann.ttl(TTL / 2).renews(Some(fence)).await;
    hears_nothing(&bob).await;
}

/// Whose turn comes with its own request confirms it by that.
async fn a_confirmed_grant_by_the_answer_comes_without_a_message(lab: &Lab) {
    a_grant_by_the_answer_comes_without_a_message(&lab.confirming(Duration::from_secs(5))).await;
}

/// Where it cannot be known who listens, those are listed and waited for whom this server does not
/// know.
async fn who_may_listen_elsewhere_is_listed(lab: &Lab) {
    let lab = lab.confirming(Duration::from_secs(5));
    let [ann, bob, eve] = cast(&lab).await;
    ann.mode(Mode::Shared).locks().await;
    bob.stands().await;
    let owner = bob.owner();
    drop(bob);
    sleep(Duration::from_millis(100)).await;
    assert_eq!(ann.line().await, [owner]);
    eve.mode(Mode::Shared).is_refused().await;
}

/// A holder that asks again and would wait enters again.
async fn a_holder_that_would_wait_enters_again(lab: &Lab) {
    let [ann, bob] = cast(lab).await;
    let fence = ann.locks().await;
    assert!(matches!(ann.asks(Wait::InLine).await, Ok(Answer::Granted(same)) if same == fence));
    bob.stands().await;
    assert!(matches!(ann.asks(Wait::InLine).await, Ok(Answer::Granted(same)) if same == fence));
    assert_eq!(ann.line().await, [bob.owner()]);
}

/// A client whose twin has left the line keeps its one place when it asks again.
async fn a_twin_that_asks_again_keeps_one_place(lab: &Lab) {
    let [ann, bob, eve] = cast(lab).await;
    let twin = bob.through(&eve);
    ann.locks().await;
    bob.stands().await;
    twin.stands().await;
    bob.withdraws().await;
    twin.stands().await;
    assert_eq!(ann.line().await, [twin.owner()]);
}

/// Releases a lease by its fence.
async fn frees(party: &Party, fence: Fence) {
    let released = party.releases_with(|release| release.fence = Some(fence));
    assert_eq!(released.await, Released::Freed);
}

/// Waits for the message that a claim was granted.
async fn is_told_of_a_grant(party: &Party) -> Fence {
    loop {
        let told = timeout(Duration::from_secs(1), party.driver().news()).await;
        match told {
            Ok(News::Granted { owner, fence, .. }) if owner == party.owner() => return fence,
            Ok(_) => {}
            Err(_) => panic!("not told of a grant"),
        }
    }
}

/// Fails if a client is told anything.
async fn hears_nothing(party: &Party) {
    let news = timeout(Duration::from_millis(100), party.driver().news()).await;
    assert!(news.is_err(), "told {news:?}");
}

/// Only a string lock's owner renews and frees it.
async fn string_locks_compare(lab: &Lab) {
    let key = format!("string:{}", crate::Owner::unique());
    let release = |owner: &str| lab.cli(&["EVAL", &lab.text("string_release"), "1", &key, owner]);
    let extend = |owner: &str| {
        lab.cli(&[
            "EVAL",
            &lab.text("string_extend"),
            "1",
            &key,
            owner,
            "60000",
        ])
    };
    assert_eq!((release("ann"), extend("ann")), ("0".into(), "0".into()));
    lab.cli(&["SET", &key, "ann", "PX", "10000"]);
    assert_eq!((release("bob"), extend("bob")), ("0".into(), "0".into()));
    assert_eq!(extend("ann"), "1");
    assert!(lab.cli(&["PTTL", &key]).parse::<u64>().unwrap() > 10_000);
    assert_eq!(release("ann"), "1");
    assert_eq!(lab.cli(&["EXISTS", &key]), "0");
}

/// A string lock is granted to one owner, again if it asks again, with fences that grow.
async fn string_fences_grow(lab: &Lab) {
    let key = format!("string:{}", crate::Owner::unique());
    let acquire = |owner: &str, ttl: &str| -> u64 {
        let last = format!("{key}:fence");
        let script = lab.text("string_acquire");
        let answer = lab.cli(&[
            "EVAL", &script, "2", &key, &last, owner, ttl, "64", "3600000",
        ]);
        answer.parse().unwrap()
    };
    let first = acquire("ann", "10000");
    assert!(first > 1_500_000_000_000_000, "a time, not {first}");
    assert_eq!(acquire("bob", "10000"), 0);
    let again = acquire("ann", "60000");
    assert!(again >= first + 64);
    assert!(lab.cli(&["PTTL", &key]).parse::<u64>().unwrap() > 10_000);
    lab.cli(&["SET", &format!("{key}:fence"), "1000"]);
    assert!(acquire("ann", "10000") > again);
    // The clock went back, or so many were set aside.
    lab.cli(&["SET", &format!("{key}:fence"), "4000000000000000"]);
    assert_eq!(acquire("ann", "10000"), 4_000_000_000_000_001);
    assert_eq!(acquire("ann", "10000"), 4_000_000_000_000_065);
}

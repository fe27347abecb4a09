//! What only the scripts do: where no rule of the suite notices a change, one of these does.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::Test;
use super::lab::Lab;
use crate::conformance::Fixture as _;
use crate::conformance::modes::permits;
use crate::conformance::stage::{Party, TTL, cast, until};
use crate::driver::{Answer, Life, Loss, Mode, News, Released, Renewed, Wait};

macro_rules! scenarios {
    ($($name:ident,)+) => {
        /// All scenarios by name.
        pub(super) const ALL: &[(&str, Test)] = &[$((stringify!($name), |lab| Box::pin($name(lab)))),+];
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
    ann.ttl(lab.short()).locks().await;
    bob.stands().await;
    sleep(lab.short() * 2).await;
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
    ann.ttl(lab.short()).locks().await;
    reader.stands().await;
    bob.conflicts().await;
    sleep(lab.short() * 2).await;
    bob.conflicts().await;
    assert_eq!(ann.entry().await.holders[0].mode, Mode::Shared);
    let told = timeout(Duration::from_secs(1), reader.driver().news()).await;
    assert!(matches!(told, Ok(News::Granted { .. })), "told {told:?}");
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
        ann.ttl(lab.short()).locks().await;
        bob.ttl(TTL / 4).stands().await;
        sleep(lab.short() * 2).await;
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
    let [ann, bob, eve] = cast(lab).await;
    let fence = ann.locks().await;
    bob.stands().await;
    eve.stands().await;
    assert_eq!(
        ann.ttl(lab.short() * 3).renews(Some(fence)).await,
        Renewed::Kept(fence)
    );
    bob.stands().await;
    bob.withdraws().await;
    eve.turn().await;
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
        assert_eq!(ann.line().await, [owner.clone()]);
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
    let [ann, bob] = cast(lab).await;
    ann.locks().await;
    bob.stands().await;
    for key in [":line", ":places"] {
        let left = lab.pttl(&ann, key);
        assert!(
            left > 3_600_000 && left < 2 * 3_600_000,
            "{left} ms left of {key}"
        );
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
    // The clock went back, or so many were set aside.
    lab.cli(&["SET", &format!("{key}:fence"), "4000000000000000"]);
    assert_eq!(acquire("ann", "10000"), 4_000_000_000_000_001);
    assert_eq!(acquire("ann", "10000"), 4_000_000_000_000_065);
}

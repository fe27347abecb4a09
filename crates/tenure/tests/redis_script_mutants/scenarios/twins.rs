//! Claims of one owner in two clients.

use super::{frees, scenarios, until_waited_for_by};
use crate::conformance::modes::permits;
use crate::conformance::party::{TTL, cast};
use crate::driver::{Loss, Mode, Released, Renewed};
use crate::store::redis::mutants::lab::Lab;

scenarios![
    the_living_behind_a_dead_twin_go_in,
    twins_that_keep_the_name_count_once,
    twins_that_keep_the_name_together_count_once,
    a_release_by_fence_sees_to_twins,
    a_twin_that_asks_again_keeps_one_place,
    who_joins_when_it_asks_again_leaves_the_line,
    only_the_client_that_has_a_lease_renews_it,
    a_name_that_stays_taken_is_not_its_named_owners,
];

/// A dead client of an owner that is granted the lock does not make the living ones behind it wait.
async fn the_living_behind_a_dead_twin_go_in(lab: &Lab) {
    let [ann, bob, eve, dan] = cast(lab).await;
    let (bob, eve) = (bob.named().mode(Mode::Shared), eve.mode(Mode::Shared));
    let twin = bob.twin(&dan);
    ann.locks().await;
    twin.stands().await;
    bob.stands().await;
    eve.stands().await;
    drop((twin, dan));
    until_waited_for_by(&ann, &[&bob, &eve]).await;
    ann.frees().await;
    bob.is_held_by(&[&bob, &eve]).await;
}

/// Two clients of one owner that both keep the name taken, or one of them, take its permits once.
async fn twins_that_keep_the_name_count_once(lab: &Lab) {
    let [ann, bob, eve] = cast(lab).await;
    let ann = permits(&ann.named(), 1, 2);
    let twin = ann.twin(&bob);
    let (eve, dan) = (permits(&eve, 1, 2), permits(&bob, 1, 2));
    ann.locks().await;
    twin.locks().await;
    let keep = TTL / 6;
    assert_eq!(
        ann.releases_with(|release| release.stays_taken = keep)
            .await,
        Released::Freed { left: 1 }
    );
    eve.locks().await;
    dan.is_refused().await;
    lab.pass(&ann, keep * 2);
    dan.is_refused().await;
    assert_eq!(
        twin.releases_with(|release| release.stays_taken = keep)
            .await,
        Released::Freed { left: 0 }
    );
    dan.is_refused().await;
    lab.pass(&ann, keep * 2);
    let fence = dan.locks().await;
    assert_eq!(dan.locks().await, fence, "asking again changes nothing");
    eve.frees().await;
    dan.frees().await;
    assert_eq!(lab.keys(&ann), [":fence"]);
}

/// Two claims of one owner that keep the name taken at the same time take its permits once, until
/// the last of them has ended.
async fn twins_that_keep_the_name_together_count_once(lab: &Lab) {
    let [ann, bob, eve] = cast(lab).await;
    let ann = permits(&ann.named(), 1, 2);
    let twin = ann.twin(&bob);
    let (eve, dan) = (permits(&eve, 1, 2), permits(&bob, 1, 2));
    for party in [&ann, &twin, &eve] {
        party.locks().await;
    }
    for (party, keep, left) in [(&ann, TTL / 6, 1), (&twin, TTL / 2, 0)] {
        let kept = party.releases_with(|release| release.stays_taken = keep);
        assert_eq!(kept.await, Released::Freed { left });
    }
    for _ in 0..2 {
        dan.is_refused().await;
        lab.pass(&ann, TTL / 3);
    }
    dan.locks().await;
    dan.is_held_by(&[&eve, &dan]).await;
}

/// A release with a fence grants to two clients of one owner together.
async fn a_release_by_fence_sees_to_twins(lab: &Lab) {
    let [ann, bob, eve, dan] = cast(lab).await;
    let bob = bob.named();
    let twin = bob.twin(&eve);
    let fence = ann.locks().await;
    bob.stands().await;
    dan.stands().await;
    twin.stands().await;
    frees(&ann, fence).await;
    bob.is_held_by(&[&bob, &twin]).await;
}

/// A client whose twin has left the line keeps its single place when it asks again.
async fn a_twin_that_asks_again_keeps_one_place(lab: &Lab) {
    let [ann, bob, eve] = cast(lab).await;
    let bob = bob.named();
    let twin = bob.twin(&eve);
    ann.locks().await;
    bob.stands().await;
    twin.stands().await;
    bob.withdraws().await;
    twin.stands().await;
    ann.is_waited_for_by(&[&twin]).await;
}

/// A claim that was not granted together with its owner is granted when it asks again, and leaves
/// the line.
async fn who_joins_when_it_asks_again_leaves_the_line(lab: &Lab) {
    let [ann, bob, eve, dan] = cast(lab).await;
    let bob = bob.named();
    let twin = bob.twin(&eve);
    ann.locks().await;
    for party in [&bob, &twin, &dan] {
        party.stands().await;
    }
    // As if it had been away when its owner was granted the lock.
    lab.cli(&["HDEL", &lab.key(&ann, ":places"), "\u{2}"]);
    ann.frees().await;
    bob.is_waited_for_by(&[&twin, &dan]).await;
    assert!(twin.stands_or_enters().await.is_some());
    bob.is_waited_for_by(&[&dan]).await;
    bob.is_held_by(&[&bob, &twin]).await;
    assert_eq!(bob.releases().await, Released::Freed { left: 1 });
    twin.frees().await;
    dan.turn().await;
}

/// Another client that knows the claim can neither renew nor release its lease.
async fn only_the_client_that_has_a_lease_renews_it(lab: &Lab) {
    let [ann, bob] = cast(lab).await;
    for mode in [Mode::Exclusive, Mode::Shared] {
        let ann = ann.mode(mode);
        let fence = ann.ttl(TTL / 4).locks().await;
        let twin = ann.through(&bob);
        for named in [None, Some(fence)] {
            assert_eq!(twin.renews(named).await, Renewed::Lost(Loss::Gone));
            let released = twin.releases_with(|release| release.fence = named);
            assert_eq!(released.await, Released::NotHeld(Loss::Gone));
        }
        assert!(ann.entry().await.holders[0].expires_in <= TTL / 4);
        ann.frees().await;
    }
}

/// A name that stays taken after its release is refused to its named owner too, whichever of the
/// owner's claims was released like this.
async fn a_name_that_stays_taken_is_not_its_named_owners(lab: &Lab) {
    for together in [false, true] {
        let [ann, bob, eve] = cast(lab).await;
        let ann = ann.named();
        let (twin, third) = (ann.twin(&bob), ann.twin(&eve));
        ann.locks().await;
        if together {
            twin.locks().await;
        }
        let kept = ann.releases_with(|release| release.stays_taken = TTL).await;
        let left = u32::from(together);
        assert_eq!(kept, Released::Freed { left });
        if together {
            twin.frees().await;
        }
        third.is_refused().await;
        ann.is_refused().await;
        assert_eq!(third.entry().await.holders[0].depth, 0);
    }
}

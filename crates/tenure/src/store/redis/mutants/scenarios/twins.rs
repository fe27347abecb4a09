//! Two clients of one owner.

use super::{frees, scenarios};
use crate::conformance::modes::permits;
use crate::conformance::stage::{TTL, cast, until};
use crate::driver::{Loss, Mode, Released, Renewed};
use crate::store::redis::mutants::lab::Lab;

scenarios![
    the_living_behind_a_dead_twin_go_in,
    twins_that_keep_the_name_count_once,
    a_release_by_fence_sees_to_twins,
    a_twin_that_asks_again_keeps_one_place,
    a_long_reason_does_not_confuse_twins,
    only_the_client_that_has_a_lease_renews_it,
];

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

/// Two clients of one owner that both keep the name taken, or one of them, take its permits once.
async fn twins_that_keep_the_name_count_once(lab: &Lab) {
    let [ann, bob, eve] = cast(lab).await;
    let ann = permits(&ann, 1, 2);
    let twin = ann.through(&bob);
    let (eve, dan) = (permits(&eve, 1, 2), permits(&bob, 1, 2));
    ann.locks().await;
    twin.locks().await;
    let keep = TTL / 6;
    assert_eq!(
        ann.releases_with(|release| release.stays_taken = keep)
            .await,
        Released::Freed
    );
    eve.locks().await;
    dan.is_refused().await;
    lab.pass(&ann, keep * 2);
    dan.is_refused().await;
    assert_eq!(
        twin.releases_with(|release| release.stays_taken = keep)
            .await,
        Released::Freed
    );
    dan.is_refused().await;
    lab.pass(&ann, keep * 2);
    let fence = dan.locks().await;
    assert_eq!(dan.locks().await, fence, "asking again changes nothing");
    assert_eq!(eve.releases().await, Released::Freed);
    assert_eq!(dan.releases().await, Released::Freed);
    assert_eq!(lab.keys(&ann), [":fence"]);
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

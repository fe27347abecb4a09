//! Fences grow, and knowing a fence alone gives no rights.

use super::{frees, is_told_of_a_grant, scenarios};
use crate::conformance::party::{TTL, cast};
use crate::driver::{Loss, Mode, Released, Renewed};
use crate::store::redis::mutants::lab::Lab;

scenarios![
    fences_grow_even_if_the_last_is_forgotten,
    fences_grow_in_a_release_by_fence,
    a_neighbour_with_the_fence_changes_nothing,
];

/// Fences are times, so they grow even if the server has forgotten the last one.
async fn fences_grow_even_if_the_last_is_forgotten(lab: &Lab) {
    for mode in [Mode::Exclusive, Mode::Shared] {
        let [ann] = cast(lab).await;
        let ann = ann.mode(mode);
        let older = ann.locks().await;
        ann.frees().await;
        lab.cli(&["DEL", &lab.key(&ann, ":fence")]);
        let newer = ann.locks().await;
        assert!(older < newer, "{older} then {newer}");
        assert!(older.get() > 1_500_000_000_000_000, "a time, not {older}");
        ann.frees().await;
        lab.cli(&["SET", &lab.key(&ann, ":fence"), "4000000000000000"]);
        let ahead = ann.locks().await;
        assert_eq!(ahead.get(), 4_000_000_000_000_001);
        ann.frees().await;
    }
}

/// The fences of handovers are times, and grow whatever the server remembers of the last one.
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
        let newer = is_told_of_a_grant(next).await.fence;
        assert!(fence < newer, "{fence} then {newer}");
        (fence, holder, next) = (newer, next, holder);
    }
    assert_eq!(fence.get(), 4_000_000_000_000_001);
}

/// Another claim of the same client changes nothing, although it knows the fence.
async fn a_neighbour_with_the_fence_changes_nothing(lab: &Lab) {
    let [ann, eve] = cast(lab).await;
    for ann in [ann.ttl(TTL / 4), ann.named().ttl(TTL / 4)] {
        let fence = ann.locks().await;
        let is_named = ann.claim().owner.is_some();
        let twin = ann.twin(&eve);
        if is_named {
            twin.locks().await;
        }
        let neighbour = ann.neighbour();
        assert_eq!(
            neighbour.renews(Some(fence)).await,
            Renewed::Lost(Loss::TakenOver)
        );
        let released = neighbour.releases_with(|release| release.fence = Some(fence));
        assert_eq!(released.await, Released::NotHeld(Loss::TakenOver));
        assert!(ann.entry().await.holders[0].expires_in <= TTL / 4);
        assert_eq!(
            twin.releases().await == Released::Freed { left: 1 },
            is_named
        );
        ann.frees().await;
    }
}

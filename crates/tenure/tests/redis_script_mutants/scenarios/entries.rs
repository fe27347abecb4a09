//! Claims of owners that already hold the name.

use super::{is_told_of_a_grant, scenarios};
use crate::conformance::modes::permits;
use crate::conformance::party::{TTL, cast};
use crate::driver::{Answer, Mode, Released, Wait};
use crate::store::redis::mutants::lab::Lab;

scenarios![
    re_entry_beside_others_counts_once,
    a_holder_that_would_wait_enters_again,
    each_claim_of_an_owner_is_released_by_itself,
    only_the_first_claim_of_an_owner_has_more_fences,
    a_place_of_an_owner_that_goes_in_has_one_fence,
    a_claim_without_an_owner_is_granted_alone,
    an_owner_without_a_lease_leaves_nothing_behind,
];

/// Another claim of an owner beside other holders takes no more permits, and the name is held until
/// the last of them is released.
async fn re_entry_beside_others_counts_once(lab: &Lab) {
    let [ann, bob, eve] = cast(lab).await;
    let (ann, bob) = (permits(&ann.named(), 1, 2), permits(&bob, 1, 2));
    ann.locks().await;
    bob.locks().await;
    let again = ann.nested();
    again.locks().await;
    bob.is_held_by(&[&ann, &bob, &again]).await;
    assert_eq!(ann.releases().await, Released::Freed { left: 1 });
    permits(&eve, 1, 2).is_refused().await;
    again.frees().await;
    bob.is_held_by(&[&bob]).await;
    permits(&eve, 1, 2).locks().await;
    ann.mode(Mode::Shared).is_refused().await;
}

/// A granted claim that asks again as if it would wait has its lease.
async fn a_holder_that_would_wait_enters_again(lab: &Lab) {
    let [ann, bob] = cast(lab).await;
    let fence = ann.locks().await;
    let has = |answer| matches!(answer, Ok(Answer::Granted(grant)) if grant.fence == fence);
    assert!(has(ann.asks(Wait::InLine).await));
    bob.stands().await;
    assert!(has(ann.asks(Wait::InLine).await));
    ann.is_waited_for_by(&[&bob]).await;
}

/// Claims of one owner have one lease each: a release or a withdrawal ends the one that it names,
/// and reports how many are left.
async fn each_claim_of_an_owner_is_released_by_itself(lab: &Lab) {
    for mode in [
        Mode::Exclusive,
        Mode::Shared,
        Mode::Permits { take: 1, of: 1 },
    ] {
        let [ann, bob] = cast(lab).await;
        let ann = ann.named().mode(mode);
        let claims = [ann.nested(), ann.twin(&bob), ann.nested(), ann.nested()];
        for claim in &claims {
            claim.locks().await;
        }
        let [one, two, three, four] = &claims;
        let owner = ann.owner();
        let shown = || lab.cli(&["HGET", &lab.key(&ann, ""), owner.as_str()]);
        assert_eq!(shown(), "4");
        assert_eq!(two.releases().await, Released::Freed { left: 3 });
        assert!(matches!(two.releases().await, Released::NotHeld(_)));
        assert_eq!(shown(), "3");
        three.withdraws().await;
        assert_eq!(shown(), "2");
        bob.is_held_by(&[one, four]).await;
        let kept = one.releases_with(|release| release.stays_taken = TTL / 4);
        assert_eq!(kept.await, Released::Freed { left: 1 });
        assert_eq!(shown(), "1");
        four.frees().await;
        bob.is_refused().await;
        lab.pass(&ann, TTL / 3);
        bob.locks().await;
    }
}

/// Only the claim that a grant was made for has the fences reserved with it, however often it asks.
async fn only_the_first_claim_of_an_owner_has_more_fences(lab: &Lab) {
    let [ann, bob] = cast(lab).await;
    let ann = ann.named().but(|claim| claim.fences = 5);
    let twin = ann.twin(&bob);
    for _ in 0..2 {
        assert_eq!(ann.is_granted().await.fences, 5);
        let joined = twin.is_granted().await;
        assert_eq!((joined.fence, joined.fences), (ann.locks().await, 1));
    }
    assert_eq!(ann.releases().await, Released::Freed { left: 1 });
    assert_eq!(twin.is_granted().await.fences, 1);
}

/// A claim that is granted by a message learns how many fences it has, and for how long.
async fn a_place_of_an_owner_that_goes_in_has_one_fence(lab: &Lab) {
    let [ann, bob, eve, dan] = cast(lab).await;
    let first = bob.named().but(|claim| claim.fences = 5).ttl(TTL / 4);
    let (second, third) = (first.twin(&eve).ttl(TTL / 2), first.twin(&dan));
    ann.locks().await;
    for party in [&first, &second, &third] {
        party.stands().await;
    }
    ann.frees().await;
    let granted = is_told_of_a_grant(&first).await;
    assert_eq!((granted.fences, granted.valid), (5, TTL / 4));
    let joined = is_told_of_a_grant(&second).await;
    assert_eq!((joined.fences, joined.valid), (1, TTL / 2));
    assert_eq!(granted.fence, joined.fence);
    is_told_of_a_grant(&third).await;
    ann.is_held_by(&[&first, &second, &third]).await;
}

/// A claim without an owner shares with nobody, in any mode that excludes others.
async fn a_claim_without_an_owner_is_granted_alone(lab: &Lab) {
    let [ann, bob] = cast(lab).await;
    for mode in [Mode::Exclusive, Mode::Permits { take: 1, of: 1 }] {
        let (ann, bob) = (ann.mode(mode), bob.mode(mode));
        ann.locks().await;
        ann.neighbour().is_refused().await;
        bob.is_refused().await;
        ann.frees().await;
    }
}

/// A named owner leaves nothing behind in the line or in the lease.
async fn an_owner_without_a_lease_leaves_nothing_behind(lab: &Lab) {
    let [ann, bob, eve] = cast(lab).await;
    let (bob, eve) = (bob.named(), eve.named());
    ann.locks().await;
    bob.stands().await;
    eve.stands().await;
    bob.withdraws().await;
    bob.stands().await;
    ann.frees().await;
    let places = lab.cli(&["HKEYS", &lab.key(&ann, ":places")]);
    assert!(!places.contains(eve.owner().as_str()), "{places:?}");
    assert!(!places.contains('\u{2}'), "nobody has two places");
    eve.turn().await;
    eve.frees().await;
    bob.turn().await;
    bob.frees().await;
    assert_eq!(lab.keys(&ann), [":fence"]);
}

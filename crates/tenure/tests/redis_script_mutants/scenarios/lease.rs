//! The contents of a lease, its renewal, and what it leaves behind.

use super::scenarios;
use crate::conformance::modes::permits;
use crate::conformance::party::{Party, TTL, cast};
use crate::driver::{Loss, Mode, Released, Renewed};
use crate::store::redis::mutants::lab::Lab;

scenarios![
    only_the_fence_is_left_behind,
    owners_of_any_letters_are_told_and_listed,
    a_renewal_beside_others_lasts,
    a_release_or_renewal_at_ones_turn_finds_the_lease,
    a_release_or_renewal_at_ones_turn_beside_others_finds_the_lease,
    a_claim_stays_taken_once,
    a_name_taken_by_nobody_is_taken,
];

/// After everything is released, only the last fence is left, and that expires.
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
        ann.frees().await;
        eve.turn().await;
        eve.frees().await;
        bob.turn().await;
        bob.frees().await;
        let twins = [bob.named(), eve.named()].map(|party| [party.twin(&ann), party.twin(&bob)]);
        for twin in twins.iter().flatten() {
            twin.stands_or_enters().await;
        }
        let [[one, two], [three, four]] = twins;
        assert_eq!(one.releases().await, Released::Freed { left: 1 });
        two.frees().await;
        three.withdraws().await;
        four.withdraws().await;
        assert_eq!(lab.keys(&ann), [":fence"]);
        assert!(lab.pttl(&ann, ":fence") > 0);
    }
}

/// Owners with spaces, colons, percent signs and letters of any script are reported and listed.
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
        "M x",
        "ä🔒",
        "7",
        "^$().[]*+?",
    ] {
        let [ann, bob, eve] = cast(lab).await;
        let owner = crate::Owner::named(text).unwrap();
        let named = |party: &Party| {
            party
                .but(|claim| claim.owner = Some(owner.clone()))
                .told_if_wanted()
        };
        let (bob, twin) = (named(&bob), named(&eve));
        ann.locks().await;
        bob.stands().await;
        ann.is_waited_for_by(&[&bob]).await;
        ann.frees().await;
        let fence = bob.turn().await.fence;
        bob.is_held_by(&[&bob]).await;
        twin.locks().await;
        ann.is_refused().await;
        assert_eq!(bob.is_called_back().await, fence);
        assert_eq!(
            twin.releases_with(|release| release.stays_taken = TTL)
                .await,
            Released::Freed { left: 1 }
        );
        let evicted = ann.evicts().await;
        let owners: Vec<_> = evicted.iter().map(|holder| &holder.owner).collect();
        assert_eq!(owners, [&owner, &owner]);
        assert_eq!(bob.loses().await, (fence, Loss::Evicted));
        bob.locks().await;
        bob.frees().await;
    }
}

/// A renewal beside other holders extends the lease.
async fn a_renewal_beside_others_lasts(lab: &Lab) {
    let [ann, bob] = cast(lab).await;
    let (ann, bob) = (ann.mode(Mode::Shared), bob.mode(Mode::Shared));
    let fence = ann.ttl(TTL / 4).locks().await;
    bob.locks().await;
    ann.extends(fence).await;
    let left = ann.entry().await.holders[0].expires_in;
    assert!(left > TTL / 2, "{left:?} left");
}

/// A release or a renewal of a claim whose turn came by the passing of time finds the lease.
async fn a_release_or_renewal_at_ones_turn_finds_the_lease(lab: &Lab) {
    let [ann, bob] = cast(lab).await;
    ann.locks().await;
    bob.stands().await;
    lab.expire(&ann);
    assert!(matches!(bob.renews(None).await, Renewed::Extended { .. }));
    bob.frees().await;
    ann.locks().await;
    bob.stands().await;
    lab.expire(&ann);
    bob.frees().await;
}

/// The same if one of several leases has expired.
async fn a_release_or_renewal_at_ones_turn_beside_others_finds_the_lease(lab: &Lab) {
    for renews in [false, true] {
        let [ann, bob, eve] = cast(lab).await.map(|party| permits(&party, 1, 2));
        ann.locks().await;
        eve.ttl(TTL / 4).locks().await;
        bob.stands().await;
        lab.pass(&ann, TTL / 3);
        if renews {
            assert!(matches!(bob.renews(None).await, Renewed::Extended { .. }));
        }
        bob.frees().await;
        ann.is_held_by(&[&ann]).await;
    }
}

/// A claim that was asked for after its release, and stays taken once more, takes its permits once.
async fn a_claim_stays_taken_once(lab: &Lab) {
    let [ann, bob] = cast(lab).await;
    for ann in [permits(&ann, 1, 3), permits(&ann.nested().named(), 1, 3)] {
        let bob = permits(&bob, 1, 3);
        bob.locks().await;
        // A late copy of the request for the claim, each time.
        let copy = ann.but(|_| {});
        for party in [&ann, &copy] {
            party.locks().await;
            let kept = party.releases_with(|release| release.stays_taken = TTL / 4);
            assert_eq!(kept.await, Released::Freed { left: 0 });
        }
        assert_eq!(bob.entry().await.holders.len(), 2);
        lab.pass(&ann, TTL / 3);
        let rest = permits(&bob.neighbour(), 2, 3);
        rest.locks().await;
        rest.frees().await;
        bob.frees().await;
    }
}

/// A name that stays taken by nobody counts as held by somebody else, except for its last owner.
async fn a_name_taken_by_nobody_is_taken(lab: &Lab) {
    for mode in [Mode::Exclusive, Mode::Shared] {
        let [ann, bob] = cast(lab).await;
        let ann = ann.mode(mode);
        ann.locks().await;
        let kept = ann.releases_with(|release| release.stays_taken = TTL);
        assert_eq!(kept.await, Released::Freed { left: 0 });
        assert_eq!(ann.renews(None).await, Renewed::Lost(Loss::Gone));
        assert_eq!(bob.renews(None).await, Renewed::Lost(Loss::TakenOver));
    }
}

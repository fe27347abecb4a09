//! Grants, repeated requests, re-entry, and requests of strangers.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::Fixture;
use super::needs::{Need, lacks};
use super::party::{TTL, cast, fresh_name, name};
use crate::driver::{Answer, Claim, Driver, Life, Loss, Released, Renewed, Wait};
use crate::name::{ClaimId, Fence, Name};

/// While one owner holds a name, another is refused; after the release it is granted.
pub async fn an_exclusive_lock_refuses_a_second_owner(fixture: &dyn Fixture) {
    let [ann, bob] = cast(fixture).await;
    ann.locks().await;
    bob.is_refused().await;
    ann.neighbour().is_refused().await;
    ann.frees().await;
    bob.locks().await;
}

/// A claim that is refused as busy has no place in line, and leaves the holder unchanged.
pub async fn a_busy_claim_changes_nothing(fixture: &dyn Fixture) {
    let [ann, bob] = cast(fixture).await;
    let fence = ann.locks().await;
    bob.is_refused().await;
    let entry = ann.entry().await;
    assert!(entry.waiters.is_empty(), "{:?}", entry.waiters);
    assert_eq!(entry.holders.len(), 1);
    assert_eq!(entry.holders[0].fence, fence);
    ann.frees().await;
    assert!(ann.entry().await.holders.is_empty());
}

/// If several clients make claims at the same moment, exactly one is granted.
pub async fn one_of_many_claims_at_once_is_granted(fixture: &dyn Fixture) {
    let parties: [_; 4] = cast(fixture).await;
    for _ in 0..10 {
        let mut claims = JoinSet::new();
        for party in parties.iter().chain(&parties) {
            let claim = party.claim().with_id(ClaimId::unique()).with_wait(Wait::No);
            claims.spawn(attempt(Arc::clone(party.driver()), claim));
        }
        let granted: Vec<_> = claims.join_all().await.into_iter().flatten().collect();
        assert_eq!(granted.len(), 1, "granted to {granted:?}");
        for (driver, claim) in granted {
            driver.withdraw(&claim).await.expect("the store answers");
        }
    }
}

/// Makes a claim that does not wait; returns it if it was granted.
async fn attempt(driver: Arc<dyn Driver>, claim: Claim) -> Option<(Arc<dyn Driver>, Claim)> {
    match driver.acquire(&claim).await.expect("the store answers") {
        Answer::Granted(_) => Some((driver, claim)),
        Answer::Busy => None,
        other @ Answer::Queued { .. } => panic!("a claim that does not wait got {other:?}"),
    }
}

/// Names that look alike, or that are special in some store, are separate locks.
pub async fn unusual_names_are_distinct_locks(fixture: &dyn Fixture) {
    let [ann, bob] = cast(fixture).await;
    let base = fresh_name();
    let mut holders = Vec::new();
    for name in unusual(base.as_str()) {
        let ann = ann.at(name);
        ann.locks().await;
        holders.push(ann);
    }
    for ann in holders {
        let bob = bob.at(ann.claim().name);
        bob.is_refused().await;
        assert_eq!(ann.entry().await.holders.len(), 1);
        ann.frees().await;
        bob.locks().await;
    }
}

fn unusual(base: &str) -> Vec<Name> {
    let tails = [
        "",
        "a",
        "A",
        "aa",
        "ä",
        "a\u{308}",
        "ß",
        "ss",
        "🔒",
        "*",
        "?",
        "[a]",
        "a*",
        "%",
        "_",
        "a%",
        "{a}",
        "{}",
        "}{",
        "/",
        "/a",
        "//a",
        "/a/",
        "/../a",
        "/.",
        "/..",
        "\\",
        "\\a",
        " ",
        "a ",
        " a",
        ":",
        "a:b",
        "a:line",
        "'",
        "\"",
        "`",
        "$a",
        "#",
        "&",
        "=",
        ";--",
        "\u{202e}a",
    ];
    let mut names: Vec<_> = tails.iter().map(|t| name(&format!("{base}{t}"))).collect();
    for last in ['x', 'y'] {
        let mut longest = format!("{base}{}", "x".repeat(Name::MAX_BYTES));
        longest.truncate(Name::MAX_BYTES - 1);
        longest.push(last);
        names.push(name(&longest));
    }
    names.extend(["%", "{", "[", "/"].map(|head| name(&format!("{head}{base}"))));
    names
}

/// Repeating a claim that was granted returns the same fence, and counts once.
pub async fn the_same_claim_asked_twice_is_granted_once(fixture: &dyn Fixture) {
    let [ann, bob] = cast(fixture).await;
    let first = ann.locks().await;
    let again = ann.locks().await;
    assert_eq!(first, again);
    ann.is_held_by(&[&ann]).await;
    ann.frees().await;
    bob.locks().await;
}

/// Repeating a claim restarts the lease.
pub async fn asking_again_restarts_the_lease(fixture: &dyn Fixture) {
    let [ann] = cast(fixture).await;
    ann.ttl(TTL / 4).locks().await;
    ann.locks().await;
    let left = ann.entry().await.holders[0].expires_in;
    assert!(left > TTL / 2, "asked for {TTL:?}, {left:?} are left");
}

/// An owner that holds the name re-enters it with another claim, which has the same fence;
/// repeating that claim does not count again.
pub async fn re_entry_is_one_more_claim_of_the_owner(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::SharedOwners]).await {
        return;
    }
    let [ann, bob] = cast(fixture).await;
    let ann = ann.named();
    let (second, third) = (ann.nested(), ann.nested());
    let fence = ann.locks().await;
    assert_eq!(second.locks().await, fence);
    ann.is_held_by(&[&ann, &second]).await;
    for _ in 0..2 {
        assert_eq!(third.locks().await, fence);
        ann.is_held_by(&[&ann, &second, &third]).await;
    }
    bob.is_refused().await;
    bob.named().is_refused().await;
}

/// A holder re-enters at once, even while others wait in line.
pub async fn re_entry_does_not_wait_in_line(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::SharedOwners]).await {
        return;
    }
    let [ann, bob] = cast(fixture).await;
    let ann = ann.named();
    let first = ann.locks().await;
    bob.stands().await;
    assert_eq!(ann.nested().locks().await, first);
    ann.is_waited_for_by(&[&bob]).await;
}

/// A release frees the claim that it names, and reports how many claims of its owner are left; the
/// name is free after the last.
pub async fn a_release_frees_one_claim_of_its_owner(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::SharedOwners]).await {
        return;
    }
    let [ann, bob] = cast(fixture).await;
    let ann = ann.named();
    let (second, third) = (ann.nested(), ann.nested());
    for party in [&ann, &second, &third] {
        party.locks().await;
    }
    assert_eq!(second.releases().await, Released::Freed { left: 2 });
    ann.is_held_by(&[&ann, &third]).await;
    assert!(matches!(second.releases().await, Released::NotHeld(_)));
    ann.is_held_by(&[&ann, &third]).await;
    bob.is_refused().await;
    assert_eq!(ann.releases().await, Released::Freed { left: 1 });
    bob.is_refused().await;
    third.frees().await;
    assert!(ann.entry().await.holders.is_empty());
    bob.locks().await;
}

/// Late requests about a claim that is over do not affect a later claim of the same owner.
pub async fn requests_about_an_old_claim_leave_a_new_one_of_its_owner_alone(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::SharedOwners]).await {
        return;
    }
    let [ann, bob] = cast(fixture).await;
    let ann = ann.named();
    let old = ann.nested();
    let fence = old.locks().await;
    old.frees().await;
    let old = old.through(&ann);
    ann.ttl(TTL / 4).locks().await;
    for _ in 0..2 {
        for named in [None, Some(fence)] {
            let released = old.releases_with(|release| release.fence = named);
            assert!(matches!(released.await, Released::NotHeld(_)));
            assert!(matches!(old.renews(named).await, Renewed::Lost(_)));
        }
        old.withdraws().await;
        ann.is_held_by(&[&ann]).await;
    }
    let left = ann.entry().await.holders[0].expires_in;
    assert!(left <= TTL / 4, "the lease was made longer: {left:?}");
    bob.is_refused().await;
    bob.stands().await;
    old.withdraws().await;
    ann.is_held_by(&[&ann]).await;
    ann.is_waited_for_by(&[&bob]).await;
}

/// Two claims of one owner in line have separate places; withdrawing one leaves the other.
pub async fn two_places_of_one_owner_are_two_claims(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::SharedOwners, Need::FirstCome]).await {
        return;
    }
    let [ann, bob] = cast(fixture).await;
    let bob = bob.named();
    let (second, third) = (bob.nested(), bob.nested());
    ann.locks().await;
    for party in [&bob, &second, &third] {
        party.stands().await;
    }
    ann.is_waited_for_by(&[&bob, &second, &third]).await;
    bob.withdraws().await;
    ann.is_waited_for_by(&[&second, &third]).await;
    ann.frees().await;
    let fence = second.turn().await.fence;
    assert_eq!(third.turn().await.fence, fence);
    ann.is_held_by(&[&second, &third]).await;
    second.withdraws().await;
    ann.is_held_by(&[&third]).await;
}

/// A repeated release reports that the lease is gone.
pub async fn a_second_release_says_gone(fixture: &dyn Fixture) {
    let [ann] = cast(fixture).await;
    let fence = ann.locks().await;
    ann.frees().await;
    assert_eq!(ann.releases().await, Released::NotHeld(Loss::Gone));
    let released = ann.releases_with(|release| release.fence = Some(fence));
    assert_eq!(released.await, Released::NotHeld(Loss::Gone));
}

/// A stranger's release changes nothing, whichever fence it names.
pub async fn a_strangers_release_changes_nothing(fixture: &dyn Fixture) {
    let [ann, bob, eve] = cast(fixture).await;
    let fence = ann.locks().await;
    bob.stands().await;
    for stranger in [&eve, &bob, &ann.neighbour()] {
        for named in [None, Some(fence)] {
            let released = stranger.releases_with(|release| release.fence = named);
            assert_eq!(released.await, Released::NotHeld(Loss::TakenOver));
        }
    }
    for named in [None, Some(fence)] {
        // This is another client that knows the id.
        let stranger = ann.through(&eve);
        let released = stranger.releases_with(|release| release.fence = named);
        assert!(matches!(released.await, Released::NotHeld(_)));
    }
    ann.is_held_by(&[&ann]).await;
    ann.is_waited_for_by(&[&bob]).await;
}

/// A stranger's renewal changes nothing, whichever fence it names.
pub async fn a_strangers_renewal_changes_nothing(fixture: &dyn Fixture) {
    let [ann, eve] = cast(fixture).await;
    let fence = ann.ttl(TTL / 4).locks().await;
    for named in [None, Some(fence)] {
        assert_eq!(eve.renews(named).await, Renewed::Lost(Loss::TakenOver));
    }
    let left = ann.entry().await.holders[0].expires_in;
    assert!(left <= TTL / 4, "the lease was made longer: {left:?}");
    ann.is_held_by(&[&ann]).await;
}

/// A stranger's withdrawal changes nothing, neither the holder nor the line.
pub async fn a_strangers_withdrawal_changes_nothing(fixture: &dyn Fixture) {
    let [ann, bob, eve] = cast(fixture).await;
    ann.locks().await;
    bob.stands().await;
    eve.withdraws().await;
    bob.neighbour().withdraws().await;
    ann.is_held_by(&[&ann]).await;
    ann.is_waited_for_by(&[&bob]).await;
}

/// A release or renewal that names a fence other than the claim's changes nothing.
pub async fn an_old_fence_changes_nothing(fixture: &dyn Fixture) {
    let [ann] = cast(fixture).await;
    let before = ann.neighbour();
    let old = before.locks().await;
    before.frees().await;
    let new = ann.ttl(TTL / 4).locks().await;
    let released = ann.releases_with(|release| release.fence = Some(old));
    assert!(matches!(released.await, Released::NotHeld(_)));
    assert!(matches!(ann.renews(Some(old)).await, Renewed::Lost(_)));
    let holder = &ann.entry().await.holders[0];
    assert_eq!(holder.fence, new);
    assert!(holder.expires_in <= TTL / 4, "the old fence renewed it");
    let released = ann.releases_with(|release| release.fence = Some(new));
    assert_eq!(released.await, Released::Freed { left: 0 });
}

/// Claims of one owner in two clients hold the name together, with one fence; both have to be
/// released.
pub async fn two_clients_share_an_owner(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::SharedOwners]).await {
        return;
    }
    let [ann, bob] = cast(fixture).await;
    let ann = ann.named();
    let twin = ann.twin(&bob);
    let fence = ann.locks().await;
    assert!(matches!(twin.releases().await, Released::NotHeld(_)));
    assert_eq!(twin.locks().await, fence);
    ann.is_held_by(&[&ann, &twin]).await;
    assert_eq!(ann.releases().await, Released::Freed { left: 1 });
    bob.is_refused().await;
    assert!(matches!(ann.releases().await, Released::NotHeld(_)));
    twin.is_held_by(&[&twin]).await;
    twin.frees().await;
    bob.locks().await;
}

/// Two waiting clients that share an owner are granted the name together, with one fence, ahead of
/// those between them in line; neither of them is left in the line.
pub async fn two_clients_of_one_owner_go_in_together(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::SharedOwners, Need::FirstCome]).await {
        return;
    }
    let [ann, bob, eve, dan] = cast(fixture).await;
    let bob = bob.named();
    let twin = bob.twin(&eve);
    ann.locks().await;
    bob.stands().await;
    dan.stands().await;
    twin.stands().await;
    ann.frees().await;
    let fence = bob.turn().await.fence;
    assert_eq!(twin.turn().await.fence, fence);
    ann.is_waited_for_by(&[&dan]).await;
    assert_eq!(bob.releases().await, Released::Freed { left: 1 });
    dan.neighbour().is_refused().await;
    twin.frees().await;
    assert!(dan.turn().await.fence > fence);
    dan.frees().await;
    assert!(ann.entry().await.holders.is_empty(), "a ghost went in");
}

/// Withdrawing a claim that was granted frees the name for the next in line.
pub async fn withdrawing_a_granted_claim_lets_the_next_in(fixture: &dyn Fixture) {
    let [ann, bob, eve] = cast(fixture).await;
    ann.locks().await;
    bob.stands().await;
    eve.stands().await;
    ann.withdraws().await;
    bob.turn().await;
    bob.withdraws().await;
    eve.turn().await;
    eve.is_held_by(&[&eve]).await;
}

/// Withdrawing one claim of an owner leaves its others, and is idempotent.
pub async fn withdrawing_one_claim_leaves_the_others_of_its_owner(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::SharedOwners]).await {
        return;
    }
    let [ann, bob] = cast(fixture).await;
    let ann = ann.named();
    let (second, third) = (ann.nested(), ann.nested());
    let fence = ann.locks().await;
    second.locks().await;
    third.locks().await;
    for _ in 0..2 {
        third.withdraws().await;
        ann.is_held_by(&[&ann, &second]).await;
    }
    second.withdraws().await;
    ann.is_held_by(&[&ann]).await;
    assert_eq!(ann.entry().await.holders[0].fence, fence);
    bob.is_refused().await;
    ann.withdraws().await;
    bob.locks().await;
}

/// Withdrawing a claim that never existed changes nothing, whether the name is free or held.
pub async fn withdrawing_what_never_was_changes_nothing(fixture: &dyn Fixture) {
    let [ann, bob] = cast(fixture).await;
    ann.withdraws().await;
    assert!(ann.entry().await.holders.is_empty());
    let fence = ann.locks().await;
    ann.neighbour().withdraws().await;
    bob.withdraws().await;
    ann.through(&bob).withdraws().await;
    ann.life(Life::Ttl).withdraws().await;
    ann.is_held_by(&[&ann]).await;
    let held: Vec<Fence> = ann.entry().await.holders.iter().map(|h| h.fence).collect();
    assert_eq!(held, [fence]);
}

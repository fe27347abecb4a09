//! Who is granted a name, asking twice, entering again, and what strangers cannot do.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::Fixture;
use super::stage::{TTL, assert_same, cast, fresh_name, name};
use crate::driver::{Answer, Claim, Driver, Life, Loss, Released, Renewed, Wait};
use crate::name::{Fence, Name, Owner};

/// While one owner holds a name, another is refused; after the release it is not.
pub async fn an_exclusive_lock_refuses_a_second_owner(fixture: &dyn Fixture) {
    let [ann, bob] = cast(fixture).await;
    ann.locks().await;
    bob.is_refused().await;
    ann.neighbour().is_refused().await;
    assert_eq!(ann.releases().await, Released::Freed);
    bob.locks().await;
}

/// A claim that is told "busy" has no place in line and leaves the holder as it was.
pub async fn a_busy_claim_changes_nothing(fixture: &dyn Fixture) {
    let [ann, bob] = cast(fixture).await;
    let fence = ann.locks().await;
    bob.is_refused().await;
    let entry = ann.entry().await;
    assert!(entry.waiters.is_empty(), "{:?}", entry.waiters);
    assert_eq!(entry.holders.len(), 1);
    assert_eq!(entry.holders[0].fence, fence);
    assert_eq!(ann.releases().await, Released::Freed);
    assert!(ann.entry().await.holders.is_empty());
}

/// Of claims that several clients make at the same moment, exactly one is granted.
pub async fn one_of_many_claims_at_once_is_granted(fixture: &dyn Fixture) {
    let parties: [_; 4] = cast(fixture).await;
    for _ in 0..10 {
        let mut claims = JoinSet::new();
        for party in parties.iter().chain(&parties) {
            let claim = Claim {
                owner: Owner::unique(),
                wait: Wait::No,
                ..party.claim().clone()
            };
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

/// Names that look alike, or special to some store, are locks of their own.
pub async fn unusual_names_are_distinct_locks(fixture: &dyn Fixture) {
    let [ann, bob] = cast(fixture).await;
    let base = fresh_name();
    for name in unusual(base.as_str()) {
        ann.at(name).locks().await;
    }
    for name in unusual(base.as_str()) {
        let (ann, bob) = (ann.at(name.clone()), bob.at(name));
        bob.is_refused().await;
        assert_eq!(ann.entry().await.holders.len(), 1);
        assert_eq!(ann.releases().await, Released::Freed);
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

/// Asking again with a claim that was granted gives the same fence, and counts once.
pub async fn the_same_claim_asked_twice_is_granted_once(fixture: &dyn Fixture) {
    let [ann, bob] = cast(fixture).await;
    let first = ann.locks().await;
    let again = ann.locks().await;
    assert_eq!(first, again);
    ann.is_held_by(&[&ann]).await;
    assert_eq!(ann.releases().await, Released::Freed);
    bob.locks().await;
}

/// Asking again restarts the lease.
pub async fn asking_again_restarts_the_lease(fixture: &dyn Fixture) {
    let [ann] = cast(fixture).await;
    ann.ttl(TTL / 4).locks().await;
    ann.locks().await;
    let left = ann.entry().await.holders[0].expires_in;
    assert!(left > TTL / 2, "asked for {TTL:?}, {left:?} are left");
}

/// Entering again has the depth that was asked for, however often it is asked.
pub async fn re_entry_has_the_depth_that_was_asked_for(fixture: &dyn Fixture) {
    let [ann, bob] = cast(fixture).await;
    let first = ann.locks().await;
    for depth in [2, 3, 3] {
        assert_eq!(ann.depth(depth).locks().await, first);
        assert_same(&ann.depths().await, &[(ann.owner(), depth)]);
    }
    bob.is_refused().await;
}

/// A holder enters again at once, also while others stand in line.
pub async fn re_entry_does_not_wait_in_line(fixture: &dyn Fixture) {
    let [ann, bob] = cast(fixture).await;
    let first = ann.locks().await;
    bob.stands().await;
    assert_eq!(ann.depth(2).locks().await, first);
    assert_eq!(ann.line().await, [bob.owner()]);
}

/// A release lowers the depth to the one asked for, and frees the name at 0.
pub async fn a_release_lowers_to_the_depth_asked_for(fixture: &dyn Fixture) {
    let [ann, bob] = cast(fixture).await;
    ann.depth(3).locks().await;
    for depth in [2, 1, 1] {
        assert_eq!(ann.releases_to(depth).await, Released::Lowered);
        assert_same(&ann.depths().await, &[(ann.owner(), depth)]);
        bob.is_refused().await;
    }
    assert_eq!(ann.releases_to(2).await, Released::Lowered);
    assert_same(&ann.depths().await, &[(ann.owner(), 1)]);
    assert_eq!(ann.releases_to(0).await, Released::Freed);
    assert!(ann.entry().await.holders.is_empty());
    bob.locks().await;
}

/// A release that is sent again says that the lease is gone.
pub async fn a_second_release_says_gone(fixture: &dyn Fixture) {
    let [ann] = cast(fixture).await;
    let fence = ann.locks().await;
    assert_eq!(ann.releases().await, Released::Freed);
    assert_eq!(ann.releases().await, Released::NotHeld(Loss::Gone));
    let released = ann.releases_with(|release| release.fence = Some(fence));
    assert_eq!(released.await, Released::NotHeld(Loss::Gone));
    assert_eq!(
        ann.releases_to(1).await,
        Released::NotHeld(Loss::Gone),
        "nothing is left to lower"
    );
}

/// A stranger's release changes nothing, whichever fence it names.
pub async fn a_strangers_release_changes_nothing(fixture: &dyn Fixture) {
    let [ann, bob, eve] = cast(fixture).await;
    let fence = ann.depth(2).locks().await;
    bob.stands().await;
    for stranger in [&eve, &bob, &ann.neighbour()] {
        for named in [None, Some(fence)] {
            for depth in [0, 1] {
                let released = stranger.releases_with(|release| {
                    release.fence = named;
                    release.depth = depth;
                });
                assert_eq!(released.await, Released::NotHeld(Loss::TakenOver));
            }
        }
    }
    assert_same(&ann.depths().await, &[(ann.owner(), 2)]);
    assert_eq!(ann.line().await, [bob.owner()]);
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
    assert_eq!(ann.line().await, [bob.owner()]);
}

/// A release or renewal that names an earlier grant of the same owner changes nothing.
pub async fn an_old_fence_changes_nothing(fixture: &dyn Fixture) {
    let [ann] = cast(fixture).await;
    let old = ann.locks().await;
    assert_eq!(ann.releases().await, Released::Freed);
    let new = ann.ttl(TTL / 4).locks().await;
    for depth in [0, 1] {
        let released = ann.releases_with(|release| {
            release.fence = Some(old);
            release.depth = depth;
        });
        assert!(matches!(released.await, Released::NotHeld(_)));
    }
    assert!(matches!(ann.renews(Some(old)).await, Renewed::Lost(_)));
    let holder = &ann.entry().await.holders[0];
    assert_eq!(holder.fence, new);
    assert!(holder.expires_in <= TTL / 4, "the old fence renewed it");
    let released = ann.releases_with(|release| release.fence = Some(new));
    assert_eq!(released.await, Released::Freed);
}

/// Two clients that share an owner share its grant; each counts its own depth, and both must
/// release.
pub async fn two_clients_share_an_owner(fixture: &dyn Fixture) {
    let [ann, bob] = cast(fixture).await;
    let twin = ann.through(&bob);
    let fence = ann.depth(2).locks().await;
    assert_eq!(twin.releases().await, Released::NotHeld(Loss::Gone));
    assert_eq!(twin.locks().await, fence);
    let both = [(ann.owner(), 2), (ann.owner(), 1)];
    assert_same(&ann.depths().await, &both);
    assert_eq!(ann.releases().await, Released::Freed);
    bob.is_refused().await;
    assert_eq!(ann.releases().await, Released::NotHeld(Loss::Gone));
    assert_eq!(twin.releases().await, Released::Freed);
    bob.locks().await;
}

/// Two clients that share an owner and stand in line go in together, with one fence, past those
/// that stand between them; nothing of them is left in line.
pub async fn two_clients_of_one_owner_go_in_together(fixture: &dyn Fixture) {
    let [ann, bob, eve, dan] = cast(fixture).await;
    let twin = bob.through(&eve);
    ann.locks().await;
    bob.stands().await;
    dan.stands().await;
    twin.stands().await;
    assert_eq!(ann.releases().await, Released::Freed);
    let fence = bob.turn().await.fence;
    assert_eq!(twin.turn().await.fence, fence);
    assert_eq!(ann.line().await, [dan.owner()]);
    assert_eq!(bob.releases().await, Released::Freed);
    dan.is_refused().await;
    assert_eq!(twin.releases().await, Released::Freed);
    assert!(dan.turn().await.fence > fence);
    assert_eq!(dan.releases().await, Released::Freed);
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

/// Withdrawing a deeper claim only lowers the depth, and a repeat lowers it no further.
pub async fn withdrawing_re_entry_only_lowers_it(fixture: &dyn Fixture) {
    let [ann, bob] = cast(fixture).await;
    let fence = ann.locks().await;
    ann.depth(2).locks().await;
    ann.depth(3).locks().await;
    for _ in 0..2 {
        ann.depth(3).withdraws().await;
        assert_same(&ann.depths().await, &[(ann.owner(), 2)]);
    }
    ann.depth(2).withdraws().await;
    ann.is_held_by(&[&ann]).await;
    assert_eq!(ann.entry().await.holders[0].fence, fence);
    bob.is_refused().await;
    ann.withdraws().await;
    bob.locks().await;
}

/// Withdrawing a claim that never was changes nothing, on a free name and on a held one.
pub async fn withdrawing_what_never_was_changes_nothing(fixture: &dyn Fixture) {
    let [ann, bob] = cast(fixture).await;
    ann.withdraws().await;
    assert!(ann.entry().await.holders.is_empty());
    let fence = ann.locks().await;
    ann.depth(2).withdraws().await;
    bob.withdraws().await;
    ann.life(Life::Ttl).withdraws().await;
    ann.is_held_by(&[&ann]).await;
    let held: Vec<Fence> = ann.entry().await.holders.iter().map(|h| h.fence).collect();
    assert_eq!(held, [fence]);
}

//! Which modes are compatible.

use super::Fixture;
use super::needs::{Need, lacks};
use super::party::{Party, cast};
use crate::driver::{Mode, Released};

/// Shared holders hold together, and a writer is refused until the last of them has released.
pub async fn shared_holders_go_together_and_exclude_a_writer(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::Shared]).await {
        return;
    }
    let [ann, bob, eve] = cast(fixture).await;
    let (ann, bob) = (ann.mode(Mode::Shared), bob.mode(Mode::Shared));
    ann.locks().await;
    bob.locks().await;
    ann.is_held_by(&[&ann, &bob]).await;
    eve.is_refused().await;
    ann.frees().await;
    eve.is_refused().await;
    bob.frees().await;
    eve.locks().await;
}

/// While a writer holds the name, readers are refused.
pub async fn a_writer_excludes_readers(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::Shared]).await {
        return;
    }
    let [ann, bob] = cast(fixture).await;
    let reader = bob.mode(Mode::Shared);
    ann.locks().await;
    reader.is_refused().await;
    ann.frees().await;
    reader.locks().await;
}

/// Permits are granted up to their number and no further.
pub async fn permits_are_granted_up_to_their_number(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::Permits]).await {
        return;
    }
    let [ann, bob, eve] = cast(fixture).await;
    let (ann, bob, eve) = (
        permits(&ann, 2, 4),
        permits(&bob, 1, 4),
        permits(&eve, 2, 4),
    );
    ann.locks().await;
    bob.locks().await;
    eve.is_refused().await;
    let single = permits(&eve, 1, 4);
    single.locks().await;
    single.frees().await;
    eve.is_refused().await;
    bob.frees().await;
    eve.locks().await;
    ann.is_held_by(&[&ann, &eve]).await;
}

/// If claims name different numbers of permits, the smallest applies to all.
pub async fn permits_keep_to_the_smallest_number(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::Permits]).await {
        return;
    }
    let [ann, bob, eve] = cast(fixture).await;
    let (ann, bob) = (permits(&ann, 1, 5), permits(&bob, 1, 2));
    ann.locks().await;
    bob.locks().await;
    let eve = permits(&eve, 1, 5);
    eve.is_refused().await;
    bob.frees().await;
    eve.locks().await;
    bob.is_refused().await;
}

/// Two clients that share an owner share its permits.
pub async fn two_clients_of_one_owner_share_its_permits(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::Permits, Need::SharedOwners]).await {
        return;
    }
    let [ann, bob] = cast(fixture).await;
    let ann = permits(&ann.named(), 2, 3);
    let twin = ann.twin(&bob);
    let bob = permits(&bob, 1, 3);
    assert_eq!(ann.locks().await, twin.locks().await);
    bob.locks().await;
    permits(&bob.neighbour(), 1, 3).is_refused().await;
}

/// An exclusive holder and holders of permits exclude each other.
pub async fn exclusive_and_permits_exclude_each_other(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::Permits]).await {
        return;
    }
    let [ann, bob] = cast(fixture).await;
    excludes(&ann, &permits(&bob, 1, 5)).await;
    excludes(&permits(&ann, 1, 5), &bob).await;
}

/// Shared holders and holders of permits exclude each other.
pub async fn shared_and_permits_exclude_each_other(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::Permits, Need::Shared]).await {
        return;
    }
    let [ann, bob] = cast(fixture).await;
    excludes(&ann.mode(Mode::Shared), &permits(&bob, 1, 5)).await;
    excludes(&permits(&ann, 1, 5), &bob.mode(Mode::Shared)).await;
}

/// An owner that holds a name exclusively may also read it; this is re-entry.
pub async fn reading_under_a_write_lock_is_re_entry(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::Shared, Need::SharedOwners]).await {
        return;
    }
    let [ann, bob] = cast(fixture).await;
    let ann = ann.named();
    let fence = ann.locks().await;
    let reader = ann.nested().mode(Mode::Shared);
    assert_eq!(reader.locks().await, fence);
    ann.is_held_by(&[&ann, &reader]).await;
    bob.mode(Mode::Shared).is_refused().await;
    assert_eq!(reader.releases().await, Released::Freed { left: 1 });
    assert_eq!(ann.entry().await.holders[0].mode, Mode::Exclusive);
    bob.mode(Mode::Shared).is_refused().await;
}

/// An owner that holds a name in one mode gets a conflict when it asks for another that the first
/// does not cover, and keeps what it has.
pub async fn a_mode_that_is_not_covered_is_a_conflict(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::Shared, Need::SharedOwners]).await {
        return;
    }
    let [ann, bob] = cast(fixture).await;
    let ann = ann.named();
    let shared = ann.nested().mode(Mode::Shared);
    shared.locks().await;
    ann.conflicts().await;
    ann.twin(&bob).conflicts().await;
    let entry = ann.entry().await;
    assert!(entry.waiters.is_empty(), "{:?}", entry.waiters);
    assert_eq!(entry.holders[0].mode, Mode::Shared);
    ann.is_held_by(&[&shared]).await;
    shared.frees().await;
    ann.locks().await;
}

/// An owner that holds permits gets a conflict when it asks for another mode or number.
pub async fn permits_cover_no_other_mode(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::SharedOwners, Need::Shared, Need::Permits]).await {
        return;
    }
    let [ann] = cast(fixture).await;
    let ann = ann.named();
    permits(&ann, 1, 2).locks().await;
    ann.nested().conflicts().await;
    ann.nested().mode(Mode::Shared).conflicts().await;
    permits(&ann.nested(), 2, 2).conflicts().await;
    ann.is_held_by(&[&ann]).await;
}

/// A claim in line whose owner is granted another number of permits waits until those are released:
/// it would share a grant that it did not ask for.
pub async fn other_permits_of_an_owner_wait_until_it_is_out(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::SharedOwners, Need::Permits]).await {
        return;
    }
    let [ann, bob, eve] = cast(fixture).await;
    let ann = permits(&ann, 3, 3);
    let bob = permits(&bob.named(), 1, 3);
    let twin = permits(&bob.twin(&eve), 2, 3);
    ann.locks().await;
    bob.stands().await;
    twin.stands().await;
    ann.frees().await;
    bob.turn().await;
    bob.is_held_by(&[&bob]).await;
    bob.is_waited_for_by(&[&twin]).await;
    assert_eq!(bob.releases().await, Released::Freed { left: 0 });
    twin.turn().await;
    permits(&ann.neighbour(), 2, 3).is_refused().await;
    permits(&ann.neighbour(), 1, 3).locks().await;
}

/// The largest number of permits works like any other.
pub async fn all_of_the_largest_number_of_permits_exclude_others(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::Permits]).await {
        return;
    }
    let [ann, bob] = cast(fixture).await;
    permits(&ann, u32::MAX, u32::MAX).locks().await;
    permits(&bob, u32::MAX, u32::MAX).is_refused().await;
    permits(&bob, 1, u32::MAX).is_refused().await;
}

pub(crate) fn permits(party: &Party, take: u32, of: u32) -> Party {
    party.mode(Mode::Permits { take, of })
}

async fn excludes(first: &Party, second: &Party) {
    first.locks().await;
    second.is_refused().await;
    first.frees().await;
    second.locks().await;
    second.frees().await;
}

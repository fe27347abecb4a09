//! Semaphores whose claims name different numbers of permits.

use super::scenarios;
use crate::conformance::modes::permits;
use crate::conformance::party::{TTL, cast};
use crate::driver::Released;
use crate::store::redis::mutants::lab::Lab;

scenarios![
    permits_of_many_numbers_are_counted,
    permits_of_a_smaller_number_hold_for_those_after,
    the_smallest_number_of_permits_left_holds,
    permits_under_a_write_lock_are_a_conflict,
    a_name_taken_by_nobody_gives_its_permits_back,
];

/// Claims with different numbers of permits respect the smallest number among the holders.
async fn permits_of_many_numbers_are_counted(lab: &Lab) {
    let [ann, bob, eve, dan] = cast(lab).await;
    let (three, two) = (permits(&ann, 1, 3), permits(&bob, 1, 2));
    let (also_two, four) = (permits(&eve, 1, 2), permits(&dan, 1, 4));
    three.locks().await;
    two.locks().await;
    also_two.is_refused().await;
    four.is_refused().await;
    two.frees().await;
    also_two.locks().await;
    four.is_refused().await;
    also_two.frees().await;
    four.locks().await;
    let last = permits(&dan.neighbour(), 1, 4);
    assert_eq!(
        three
            .releases_with(|release| release.stays_taken = TTL / 4)
            .await,
        Released::Freed { left: 0 }
    );
    permits(&ann.neighbour(), 1, 3).locks().await;
    last.is_refused().await;
    lab.pass(&ann, TTL / 3);
    permits(&ann.neighbour(), 1, 3).locks().await;
    last.is_refused().await;
}

/// A smaller number of permits also applies to later claims while nobody holds them.
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
        Released::Freed { left: 0 }
    );
    last.is_refused().await;
    five.frees().await;
    last.locks().await;
    five.is_refused().await;
}

/// When a grant ends, the smallest number of permits among the remaining ones applies.
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
    five.frees().await;
    five.locks().await;
    permits(&dan, 1, 5).is_refused().await;
}

/// A writer that asks for permits gets a conflict.
async fn permits_under_a_write_lock_are_a_conflict(lab: &Lab) {
    let [ann] = cast(lab).await;
    let ann = ann.named();
    ann.locks().await;
    permits(&ann.nested(), 1, 2).conflicts().await;
    ann.is_held_by(&[&ann]).await;
}

/// The permits of a name that stays taken by nobody are returned, although their owner has new
/// ones.
async fn a_name_taken_by_nobody_gives_its_permits_back(lab: &Lab) {
    let [ann, bob] = cast(lab).await;
    let (ann, bob) = (permits(&ann.named(), 1, 2), permits(&bob, 1, 2));
    ann.locks().await;
    let kept = ann.releases_with(|release| release.stays_taken = TTL / 4);
    assert_eq!(kept.await, Released::Freed { left: 0 });
    ann.locks().await;
    bob.is_refused().await;
    lab.pass(&ann, TTL / 3);
    bob.locks().await;
    ann.is_held_by(&[&ann, &bob]).await;
}

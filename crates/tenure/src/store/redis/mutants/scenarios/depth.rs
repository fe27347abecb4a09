//! Entering again, and lowering what was entered.

use super::scenarios;
use crate::conformance::modes::permits;
use crate::conformance::stage::{assert_same, cast};
use crate::driver::{Answer, Mode, Released, Wait};
use crate::store::redis::mutants::lab::Lab;

scenarios![
    re_entry_beside_others_counts_once,
    a_holder_that_would_wait_enters_again,
    depths_beside_others_are_lowered,
    withdrawing_a_deeper_claim_raises_nothing,
];

/// Entering again beside other holders changes the depth alone, and one release is enough.
async fn re_entry_beside_others_counts_once(lab: &Lab) {
    let [ann, bob, eve] = cast(lab).await;
    let (ann, bob) = (permits(&ann, 1, 2), permits(&bob, 1, 2));
    ann.locks().await;
    bob.locks().await;
    ann.depth(2).locks().await;
    assert_same(&ann.depths().await, &[(ann.owner(), 2), (bob.owner(), 1)]);
    assert_eq!(ann.releases().await, Released::Freed);
    assert_same(&ann.depths().await, &[(bob.owner(), 1)]);
    permits(&eve, 1, 2).locks().await;
    ann.mode(Mode::Shared).is_refused().await;
}

/// A holder that asks again and would wait enters again.
async fn a_holder_that_would_wait_enters_again(lab: &Lab) {
    let [ann, bob] = cast(lab).await;
    let fence = ann.locks().await;
    assert!(matches!(ann.asks(Wait::InLine).await, Ok(Answer::Granted(same)) if same == fence));
    bob.stands().await;
    assert!(matches!(ann.asks(Wait::InLine).await, Ok(Answer::Granted(same)) if same == fence));
    assert_eq!(ann.line().await, [bob.owner()]);
}

/// A depth is lowered, by a release or a withdrawal, also beside other holders.
async fn depths_beside_others_are_lowered(lab: &Lab) {
    let [ann, bob, eve] = cast(lab).await;
    let (ann, bob) = (permits(&ann, 1, 2), permits(&bob, 1, 2));
    ann.depth(4).locks().await;
    bob.locks().await;
    assert_eq!(ann.releases_to(3).await, Released::Lowered);
    assert_same(&ann.depths().await, &[(ann.owner(), 3), (bob.owner(), 1)]);
    ann.depth(3).withdraws().await;
    assert_same(&ann.depths().await, &[(ann.owner(), 2), (bob.owner(), 1)]);
    assert_eq!(ann.releases().await, Released::Freed);
    permits(&eve, 1, 2).locks().await;
}

/// Withdrawing a claim for a greater depth than there is changes nothing.
async fn withdrawing_a_deeper_claim_raises_nothing(lab: &Lab) {
    let [ann, bob] = cast(lab).await;
    for mode in [Mode::Exclusive, Mode::Shared] {
        let ann = ann.mode(mode);
        ann.locks().await;
        ann.depth(3).withdraws().await;
        bob.is_held_by(&[&ann]).await;
        assert_eq!(ann.releases().await, Released::Freed);
    }
}

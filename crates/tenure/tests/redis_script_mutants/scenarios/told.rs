//! Who is notified that others want the name.

use super::scenarios;
use crate::conformance::party::cast;
use crate::driver::Mode;
use crate::store::redis::mutants::lab::Lab;

scenarios![
    who_left_is_not_told_because_of_its_former_grant,
    who_did_not_ask_to_be_told_is_not,
    a_neighbours_claim_does_not_call_back,
];

/// A holder that asked for notifications with an earlier grant gets none with the next one, for which
/// it did not ask.
async fn who_left_is_not_told_because_of_its_former_grant(lab: &Lab) {
    let [ann, bob, eve] = cast(lab).await;
    let (ann, bob) = (ann.mode(Mode::Shared), bob.mode(Mode::Shared));
    let other = ann.neighbour().told_if_wanted();
    bob.locks().await;
    ann.told_if_wanted().locks().await;
    other.locks().await;
    ann.frees().await;
    let fence = ann.locks().await;
    eve.is_refused().await;
    other.is_called_back().await;
    ann.is_not_called_back().await;
    ann.extends(fence).await;
}

/// A holder that did not ask for notifications gets none, not even beside a twin that did.
async fn who_did_not_ask_to_be_told_is_not(lab: &Lab) {
    let [ann, bob, eve] = cast(lab).await;
    let ann = ann.named();
    let twin = ann.twin(&bob).told_if_wanted();
    ann.locks().await;
    twin.locks().await;
    eve.is_refused().await;
    twin.is_called_back().await;
    ann.is_not_called_back().await;
}

/// A claim of the holder's own client does not recall a lease.
async fn a_neighbours_claim_does_not_call_back(lab: &Lab) {
    let [ann, bob] = cast(lab).await;
    let ann = ann.told_if_wanted();
    let fence = ann.locks().await;
    ann.neighbour().is_refused().await;
    ann.neighbour().stands().await;
    ann.is_not_called_back().await;
    bob.is_refused().await;
    assert_eq!(ann.is_called_back().await, fence);
}

//! Limits on the number of commands that scripts call.

use super::{frees, is_told_of_a_grant, scenarios};
use crate::conformance::party::cast;
use crate::driver::{Answer, Grant, Life, Released, Wait};
use crate::store::redis::mutants::lab::Lab;

scenarios![
    a_free_lock_takes_few_calls,
    a_held_lock_is_renewed_and_released_in_few_calls,
    queueing_takes_few_calls,
    a_release_by_fence_hands_over_in_few_calls,
    a_lone_holder_is_renewed_in_few_calls,
];

/// Locking a free name takes few more commands than a bare lock.
async fn a_free_lock_takes_few_calls(lab: &Lab) {
    let lab = lab.alone();
    let [ann] = cast(&lab).await;
    ann.locks().await;
    ann.withdraws().await;
    let before = lab.calls();
    ann.locks().await;
    let calls = lab.calls() - before;
    assert!(calls <= 5, "{calls} calls");
}

/// A lease that nobody else wants is renewed and released with two calls each.
async fn a_held_lock_is_renewed_and_released_in_few_calls(lab: &Lab) {
    let lab = lab.alone();
    let [ann] = cast(&lab).await;
    for party in [ann.life(Life::Client), ann.life(Life::Ttl)] {
        let fence = party.locks().await;
        let before = lab.calls();
        party.extends(fence).await;
        assert_eq!(lab.calls() - before, 2);
        let before = lab.calls();
        let released = party.releases_with(|release| release.fence = Some(fence));
        assert_eq!(released.await, Released::Freed { left: 0 });
        assert_eq!(lab.calls() - before, 2);
        party.locks().await;
        let before = lab.calls();
        let released = party.releases_with(|release| release.fence = None);
        assert_eq!(released.await, Released::Freed { left: 0 });
        assert_eq!(lab.calls() - before, 2);
    }
}

/// Waiting in line behind one holder takes few commands.
async fn queueing_takes_few_calls(lab: &Lab) {
    let lab = lab.alone();
    let [ann, bob] = cast(&lab).await;
    ann.locks().await;
    let before = lab.calls();
    bob.stands().await;
    let calls = lab.calls() - before;
    assert!(calls <= 13, "{calls} calls");
    let before = lab.calls();
    bob.neighbour().stands().await;
    let calls = lab.calls() - before;
    assert!(calls <= 8, "{calls} calls");
}

/// Handing over to the first in line takes few commands.
async fn a_release_by_fence_hands_over_in_few_calls(lab: &Lab) {
    let lab = lab.alone();
    let [ann, bob] = cast(&lab).await;
    let fence = ann.locks().await;
    bob.stands().await;
    let before = lab.calls();
    frees(&ann, fence).await;
    let calls = lab.calls() - before;
    assert!(calls <= 13, "{calls} calls");
    let fence = is_told_of_a_grant(&bob).await.fence;
    let before = lab.calls();
    frees(&bob, fence).await;
    let calls = lab.calls() - before;
    assert!(calls <= 2, "{calls} calls");
}

/// A lone exclusive holder is renewed with two calls, however it got the lock and asked again.
async fn a_lone_holder_is_renewed_in_few_calls(lab: &Lab) {
    let lab = lab.alone();
    let [ann, bob] = cast(&lab).await;
    ann.locks().await;
    bob.stands().await;
    lab.expire(&ann);
    let Ok(Answer::Granted(Grant { fence, .. })) = bob.asks(Wait::InLine).await else {
        panic!("its turn has come");
    };
    for _ in 0..2 {
        assert_eq!(bob.locks().await, fence);
        let before = lab.calls();
        bob.extends(fence).await;
        assert_eq!(lab.calls() - before, 2);
    }
}

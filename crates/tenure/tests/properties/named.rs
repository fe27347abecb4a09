//! Sequences that once had different results on different stores, for every store.

use tenure::driver::{Life, Mode, Wait};

use crate::model::Ask;
use crate::steps::{By, Case, Named, Pick, Step, Target};

/// Generates a test of each case for each store.
macro_rules! on_every_store {
    ($($case:ident,)+) => {
        mod memory {$(
            #[test]
            fn $case() {
                crate::memory_agrees(crate::steps::Clock::Paused, &super::$case());
            }
        )+}

        #[cfg(target_os = "linux")]
        mod local {$(
            #[test]
            fn $case() {
                crate::local_agrees(&super::$case());
            }
        )+}

        mod redis {$(
            #[test]
            fn $case() {
                crate::redis::redis_agrees(&super::$case());
            }
        )+}
    };
}

on_every_store!(
    a_claim_asked_for_after_its_release_is_a_claim_like_any_other,
    a_claim_for_more_permits_waits_until_its_owner_is_out,
    a_claim_that_stays_taken_twice_takes_no_permit_for_good,
    a_claim_that_stays_taken_twice_keeps_its_place_among_holders,
    a_late_withdrawal_undoes_its_own_claim_alone,
    a_release_ends_what_its_claim_got_by_then,
    depth_counts_the_claims_that_live,
    one_owner_has_its_permits_once,
);

/// A late acquire asks once more; nothing that is over comes back with it.
fn a_claim_asked_for_after_its_release_is_a_claim_like_any_other() -> Case {
    let claims = vec![
        ask(0, Some(0), Mode::Exclusive),
        ask(1, Some(0), Mode::Exclusive),
        ask(2, None, Mode::Exclusive),
    ];
    let steps = vec![
        Step::Acquire(0),
        release(0),
        Step::Acquire(0),
        Step::Acquire(1),
        release(0),
        Step::Acquire(2),
        release(0),
        Step::Acquire(0),
        release(1),
        release(1),
        release(0),
        release(2),
    ];
    Case { claims, steps }
}

/// The fourth fits beside its owner's other claim, but would share a grant of fewer permits than it
/// asks for.
fn a_claim_for_more_permits_waits_until_its_owner_is_out() -> Case {
    let claims = vec![
        ask(0, None, Mode::Exclusive),
        ask(1, Some(1), permits(1)),
        ask(1, Some(1), permits(2)),
        ask(2, None, permits(2)),
    ];
    let steps = vec![
        Step::Acquire(0),
        Step::Acquire(1),
        Step::Acquire(2),
        Step::Acquire(3),
        release(0),
        release(1),
        release(2),
        release(3),
    ];
    Case { claims, steps }
}

/// Others use the name all the time, so that nothing of it is forgotten in between.
fn a_claim_that_stays_taken_twice_takes_no_permit_for_good() -> Case {
    let claims = vec![
        ask(0, None, permits(1)),
        ask(1, None, permits(1)),
        ask(2, None, permits(2)),
    ];
    let stays = |claim| Step::Release {
        target: target(claim),
        stays: 20,
    };
    let steps = vec![
        Step::Acquire(1),
        Step::Acquire(0),
        stays(0),
        Step::Acquire(0),
        stays(0),
        Step::Advance(20),
        Step::Acquire(2),
    ];
    Case { claims, steps }
}

/// It was granted before the one that came last.
fn a_claim_that_stays_taken_twice_keeps_its_place_among_holders() -> Case {
    let claims = vec![ask(0, None, Mode::Shared), ask(1, None, Mode::Shared)];
    let stays = Step::Release {
        target: target(0),
        stays: 20,
    };
    let steps = vec![
        Step::Acquire(0),
        stays.clone(),
        Step::Acquire(0),
        Step::Acquire(1),
        stays,
    ];
    Case { claims, steps }
}

/// Before the next claims of its owner, between them and after them.
fn a_late_withdrawal_undoes_its_own_claim_alone() -> Case {
    let claims = vec![
        ask(0, None, Mode::Exclusive),
        ask(1, Some(0), Mode::Exclusive),
        ask(1, Some(0), Mode::Exclusive),
        ask(2, Some(0), Mode::Exclusive),
        ask(0, None, Mode::Exclusive),
    ];
    let withdraw = |claim| Step::Withdraw {
        claim,
        by: By::Itself,
    };
    let steps = vec![
        withdraw(1),
        Step::Acquire(0),
        Step::Acquire(1),
        Step::Acquire(2),
        withdraw(1),
        Step::Acquire(3),
        withdraw(1),
        release(0),
        withdraw(1),
        Step::Acquire(4),
        release(3),
        withdraw(3),
        withdraw(1),
        Step::Acquire(2),
        release(2),
        withdraw(2),
    ];
    Case { claims, steps }
}

/// One lease that the claim waited for has expired, and another has not; nobody has asked since.
fn a_release_ends_what_its_claim_got_by_then() -> Case {
    let short = Ask {
        ttl: 40,
        ..ask(1, None, permits(1))
    };
    let claims = vec![ask(0, None, permits(1)), short, ask(2, None, permits(2))];
    let steps = vec![
        Step::Acquire(0),
        Step::Acquire(1),
        Step::Acquire(2),
        Step::Advance(40),
        release(2),
        Step::Acquire(1),
        Step::Acquire(2),
        Step::Advance(40),
        Step::Renew(vec![(target(2), 100)]),
    ];
    Case { claims, steps }
}

/// One of two has expired, and nobody has asked since.
fn depth_counts_the_claims_that_live() -> Case {
    let short = Ask {
        ttl: 40,
        ..ask(0, Some(0), Mode::Exclusive)
    };
    let claims = vec![short, ask(1, Some(0), Mode::Exclusive)];
    let steps = vec![
        Step::Acquire(0),
        Step::Acquire(1),
        Step::Advance(40),
        release(1),
    ];
    Case { claims, steps }
}

fn one_owner_has_its_permits_once() -> Case {
    let claims = vec![
        ask(0, Some(0), permits(1)),
        ask(1, Some(0), permits(1)),
        ask(2, None, permits(2)),
        ask(2, None, permits(1)),
    ];
    let steps = vec![
        Step::Acquire(0),
        Step::Acquire(1),
        Step::Acquire(2),
        Step::Acquire(3),
        release(0),
        release(1),
    ];
    Case { claims, steps }
}

fn ask(client: usize, owner: Option<usize>, mode: Mode) -> Ask {
    Ask {
        client,
        name: 0,
        owner,
        mode,
        ttl: 1_000,
        wait: Wait::InLine,
        life: Life::Client,
        fences: 1,
        tells: false,
    }
}

fn permits(take: u32) -> Mode {
    Mode::Permits { take, of: 3 }
}

fn release(claim: usize) -> Step {
    Step::Release {
        target: target(claim),
        stays: 0,
    }
}

fn target(claim: usize) -> Target {
    Target {
        claim,
        by: By::Itself,
        life: Named::Right,
        fence: Pick::Any,
    }
}

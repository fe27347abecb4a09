//! Variant a: every fault except the loss of a node's memory. Fences are unique and grow.

use crate::holds;
use crate::rules::Rule;
use crate::variant::{Amnesia, Clock, Expiry, Redlock, Repeats, Shortcuts};

/// Three attempts, fences up to 3, leases that end at any time.
pub(crate) const FAULTS: Redlock = Redlock {
    attempts: 3,
    highest: 3,
    repeats: &[Repeats::Answered, Repeats::Numbered],
    expiry: Expiry::AnyTime,
    amnesia: Amnesia::Never,
    clock: Clock::STOPPED,
    mistake: None,
    shortcuts: Shortcuts::Taken,
    rules: &[Rule::Unique, Rule::Growing],
};

/// The same with two attempts and fences up to 4.
pub(crate) const TWO_ATTEMPTS: Redlock = Redlock {
    attempts: 2,
    highest: 4,
    ..FAULTS
};

/// Three attempts, but leases end only when they are withdrawn.
pub(crate) const NO_EXPIRY: Redlock = Redlock {
    expiry: Expiry::Never,
    rules: &[Rule::Unique, Rule::Growing, Rule::Exclusive],
    ..FAULTS
};

#[test]
fn fences_of_three_attempts_are_unique_and_grow() {
    holds(FAULTS);
}

#[test]
fn fences_of_two_attempts_are_unique_and_grow() {
    holds(TWO_ATTEMPTS);
}

#[test]
fn one_client_believes_as_long_as_leases_last() {
    holds(NO_EXPIRY);
}

#[test]
fn the_same_holds_without_shortcuts() {
    for variant in [FAULTS, NO_EXPIRY] {
        holds(Redlock {
            attempts: 2,
            highest: 2,
            shortcuts: Shortcuts::Avoided,
            ..variant
        });
    }
}

#[test]
fn every_kind_of_grant_and_fault_is_reached() {
    holds(Redlock {
        attempts: 2,
        rules: &[Rule::Reach],
        ..FAULTS
    });
}

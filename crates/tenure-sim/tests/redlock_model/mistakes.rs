//! Variant d: protocols with a mistake, each of which the checker must find.

use crate::amnesia::{LEADING, ON_TIME, SKEWED};
use crate::breaks;
use crate::faults::{NO_EXPIRY, TWO_ATTEMPTS};
use crate::rules::Rule;
use crate::variant::{Clock, Expiry, Mistake, Redlock};

/// Three attempts whose leases do not end, and fences up to 2.
const SMALL: Redlock = Redlock {
    highest: 2,
    ..NO_EXPIRY
};

/// Clocks that differ, and proposals that are ahead of them by up to 2.
const FAR_AHEAD: Redlock = Redlock {
    highest: 3,
    ..ON_TIME
};

#[test]
fn every_mistake_is_found() {
    use Mistake::*;
    use Rule::{Exclusive, Growing, Unique};

    let table: [(_, _, &[Rule]); _] = [
        (CountsOlderAttempt, SMALL, &[Exclusive, Growing]),
        (NeverSeals, TWO_ATTEMPTS, &[Unique, Growing]),
        (SealsAtOne, TWO_ATTEMPTS, &[Unique, Growing]),
        (SealLowers, TWO_ATTEMPTS, &[Unique]),
        (GivesBackAnyTime, TWO_ATTEMPTS, &[Unique]),
        (IgnoresLast, TWO_ATTEMPTS, &[Unique, Growing]),
        (CountsYoung, SKEWED, &[Growing]),
        (CountsYoung, ON_TIME, &[Exclusive]),
        (CountsGrantsOfYouth, LEADING, &[Unique, Growing]),
        (CountsGivenBack, LEADING, &[Unique]),
        (TrustsProposals, FAR_AHEAD, &[Growing]),
    ];
    for (mistake, variant, rules) in table {
        breaks(Redlock {
            mistake: Some(mistake),
            rules,
            ..variant
        });
    }
}

#[test]
fn a_restart_delay_within_the_skew_is_found() {
    breaks(Redlock {
        clock: Clock {
            restart_delay: 1,
            ..ON_TIME.clock
        },
        rules: &[Rule::Growing],
        ..ON_TIME
    });
}

#[test]
fn a_restart_delay_shorter_than_the_ttl_is_found() {
    breaks(Redlock {
        expiry: Expiry::OnTime { ttl: 2 },
        clock: Clock {
            restart_delay: 1,
            ..ON_TIME.clock
        },
        rules: &[Rule::Exclusive],
        ..ON_TIME
    });
}

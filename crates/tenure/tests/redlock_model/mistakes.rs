//! Variant d: protocols with a mistake, each of which the checker must find.

use crate::amnesia::{ON_TIME, SKEWED};
use crate::breaks;
use crate::faults::{NO_EXPIRY, TWO_ATTEMPTS};
use crate::rules::Rule;
use crate::variant::{Clock, Expiry, Mistake, Redlock};

#[test]
fn every_mistake_is_found() {
    use Mistake::*;
    use Rule::{Exclusive, Growing, Unique};

    let table = [
        (CountsOlderAttempt, NO_EXPIRY, &[Exclusive]),
        (CountsOlderAttempt, NO_EXPIRY, &[Growing]),
        (NeverSeals, TWO_ATTEMPTS, &[Unique]),
        (NeverSeals, TWO_ATTEMPTS, &[Growing]),
        (SealsAtOne, TWO_ATTEMPTS, &[Unique]),
        (SealsAtOne, TWO_ATTEMPTS, &[Growing]),
        (SealLowers, TWO_ATTEMPTS, &[Unique]),
        (IgnoresLast, TWO_ATTEMPTS, &[Unique]),
        (IgnoresLast, TWO_ATTEMPTS, &[Growing]),
        (CountsYoung, SKEWED, &[Growing]),
        (CountsYoung, ON_TIME, &[Exclusive]),
        (CountsGrantsOfYouth, SKEWED, &[Growing]),
        (TrustsProposals, ON_TIME, &[Growing]),
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

//! Variants b and c: nodes lose their memory, without and with protection against it.

use crate::faults::{FAULTS, NO_EXPIRY};
use crate::rules::Rule;
use crate::variant::{Amnesia, Clock, Expiry, Redlock};
use crate::{breaks, holds};

/// Variant c for fences: clocks that differ by 1, and a restart delay of 2.
pub(crate) const SKEWED: Redlock = Redlock {
    attempts: 2,
    highest: 4,
    amnesia: Amnesia::OneByOne,
    clock: Clock {
        end: 2,
        skew: 1,
        lead: 0,
        restart_delay: 2,
    },
    ..FAULTS
};

/// Variant c for fences: clocks that agree, and proposals that are ahead of them by 1.
pub(crate) const LEADING: Redlock = Redlock {
    clock: Clock {
        skew: 0,
        lead: 1,
        ..SKEWED.clock
    },
    ..SKEWED
};

/// Variant c for exclusion: leases end after 1 tick, exactly when everybody believes that they do.
pub(crate) const ON_TIME: Redlock = Redlock {
    expiry: Expiry::OnTime { ttl: 1 },
    amnesia: Amnesia::AnyNode,
    rules: &[Rule::Unique, Rule::Growing, Rule::Exclusive],
    ..SKEWED
};

#[test]
fn amnesia_breaks_every_rule() {
    breaks(Redlock {
        amnesia: Amnesia::OneByOne,
        ..NO_EXPIRY
    });
}

#[test]
fn fences_are_unique_and_grow_by_clocks_that_differ() {
    holds(SKEWED);
}

#[test]
fn fences_are_unique_and_grow_with_proposals_ahead_of_the_clock() {
    holds(LEADING);
}

#[test]
fn one_client_believes_while_leases_end_on_time() {
    holds(ON_TIME);
}

#[test]
fn nodes_that_have_lost_their_memory_vote_again() {
    holds(Redlock {
        rules: &[Rule::Reach],
        ..SKEWED
    });
}

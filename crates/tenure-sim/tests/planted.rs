//! Every planted bug is found within a bounded number of seeds.

use tenure_sim::search::seeds_until_found;
use tenure_sim::{Bug, Scope, Stores};

#[test]
fn every_planted_bug_of_a_single_store_is_found() {
    are_found(|bug| bug.stores() == Stores::Single);
}

#[test]
fn the_old_rule_for_split_votes_is_found_as_a_livelock() {
    let scope = Scope {
        owners: false,
        stores: Stores::Redlock,
        ..Scope::ALL
    };
    let found = seeds_until_found(Bug::RedlockTieByNodeOrder, scope, MOST_SEEDS);
    assert_eq!(found.unwrap().1.promise, "liveness");
}

#[test]
fn planted_bugs_in_what_redlock_gives_back_are_found() {
    are_found(|bug| {
        matches!(
            bug,
            Bug::RedlockLostAnswerMeansNo | Bug::RedlockMinorityKept
        )
    });
}

#[test]
fn planted_bugs_in_how_redlock_counts_are_found() {
    are_found(|bug| {
        matches!(
            bug,
            Bug::RedlockRenewalByMinority | Bug::RedlockYoungNodeCounts
        )
    });
}

#[test]
fn planted_bugs_in_fences_and_times_of_redlock_are_found() {
    are_found(|bug| {
        matches!(
            bug,
            Bug::RedlockFenceNotWritten | Bug::RedlockValidityFromAnswers
        )
    });
}

#[test]
fn planted_bugs_in_fast_statements_of_a_database_are_found() {
    are_found(|bug| {
        matches!(
            bug,
            Bug::SqlExtendRevives | Bug::SqlGiveIgnoresClaim | Bug::SqlTakeIgnoresEnd
        )
    });
}

#[test]
fn planted_bugs_in_how_a_database_writes_rows_are_found() {
    are_found(|bug| {
        matches!(
            bug,
            Bug::SqlInsertOverwrites
                | Bug::SqlSweepHeld
                | Bug::SqlTopForgotten
                | Bug::SqlVersionIgnored
        )
    });
}

#[test]
fn planted_bugs_in_how_a_database_tells_its_clients_are_found() {
    are_found(|bug| {
        matches!(
            bug,
            Bug::SqlLetterLost
                | Bug::SqlLetterWithoutWrite
                | Bug::SqlPresenceGone
                | Bug::SqlTurnNotCounted
        )
    });
}

fn are_found(which: impl Fn(&Bug) -> bool) {
    let mut missed = Vec::new();
    for bug in Bug::ALL.into_iter().filter(which) {
        let scope = Scope {
            owners: bug.needs_owners(),
            stores: bug.stores(),
            ..Scope::ALL
        };
        match seeds_until_found(bug, scope, MOST_SEEDS) {
            Some((seeds, found)) => {
                println!("{:<28} {seeds:>5} seeds  {}", bug.name(), found.promise)
            }
            None => missed.push(bug.name()),
        }
    }
    assert!(
        missed.is_empty(),
        "not found within {MOST_SEEDS} seeds: {missed:?}"
    );
}

/// The rarest bug needs a few hundred.
const MOST_SEEDS: u64 = 1_500;

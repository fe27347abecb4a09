//! Every planted bug is found within a bounded number of seeds.

use tenure_sim::search::seeds_until_found;
use tenure_sim::{Bug, Scope};

#[test]
fn every_planted_bug_is_found() {
    let mut missed = Vec::new();
    for bug in Bug::ALL {
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

/// The rarest needs a few hundred.
const MOST_SEEDS: u64 = 1_500;

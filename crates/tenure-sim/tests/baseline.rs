//! Runs keep their promises, whatever faults they have; `./test` runs many more seeds than these.

use std::collections::BTreeMap;

use tenure_sim::{Scope, Stores, generate, judge, run};

#[test]
fn seeds_keep_their_promises() {
    let mut broken = BTreeMap::new();
    for seed in 0..SEEDS {
        let plan = generate(seed, Scope::ALL);
        let (findings, _) = judge(&plan, &run(&plan, None, false));
        if let Some(found) = findings.into_iter().next() {
            broken.insert(seed, format!("{}: {}", found.promise, found.sentence));
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// The lease stayed at a node that had it under another number than the others.
#[test]
fn an_evicted_lease_is_left_at_no_node() {
    let scope = Scope {
        stores: Stores::Redlock,
        ..Scope::ALL
    };
    let plan = generate(101_591, scope);
    let (findings, _) = judge(&plan, &run(&plan, None, false));
    assert!(findings.is_empty(), "{findings:#?}");
}

/// The release of a semaphore competed with the withdrawals of its own client for most of a second,
/// and lost.
#[test]
fn requests_of_one_client_for_one_name_in_a_database_take_turns() {
    let scope = Scope {
        stores: Stores::Sql,
        ..Scope::ALL
    };
    let plan = generate(17_332, scope);
    let (findings, _) = judge(&plan, &run(&plan, None, false));
    assert!(findings.is_empty(), "{findings:#?}");
}

const SEEDS: u64 = 500;

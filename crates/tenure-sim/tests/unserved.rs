//! A waiter that is never served is found in a simulated history, even if the run ends soon after
//! the faults.

use std::collections::HashSet;

use tenure_checker::{Event, What};
use tenure_sim::{Scope, generate, judge, run};

/// Removes one claim's grant from each run, and everything that followed from it.
#[test]
fn a_claim_that_is_never_served_is_found_unless_its_process_was_killed() {
    let (mut found, mut missed) = (0, Vec::new());
    for seed in 0..SEEDS {
        let plan = generate(seed, Scope::ALL);
        let mut ran = run(&plan, None, false);
        let whole = ran.history.clone();
        let killed: HashSet<u32> = whole.iter().filter_map(killed).collect();
        for (claim, process) in whole.iter().filter_map(granted) {
            let is_left = |event: &&Event| claim_after_its_grant(event) != Some(claim);
            ran.history = whole.iter().filter(is_left).cloned().collect();
            let (findings, _) = judge(&plan, &ran);
            match findings.is_empty() {
                false => found += 1,
                true if killed.contains(&process) => {}
                true => missed.push((seed, claim)),
            }
        }
    }
    assert!(missed.is_empty(), "{found} found, not {missed:?}");
    assert!(found > 100, "only {found} grants");
}

fn granted(event: &Event) -> Option<(u64, u32)> {
    match event.what {
        What::Granted { claim, .. } => Some((claim, event.process)),
        _ => None,
    }
}

fn killed(event: &Event) -> Option<u32> {
    match &event.what {
        What::Fault { kind, target } if kind == "kill" => *target,
        _ => None,
    }
}

/// Returns the claim of an event that would not exist if the claim had never been granted.
fn claim_after_its_grant(event: &Event) -> Option<u64> {
    match event.what {
        What::Granted { claim, .. }
        | What::Wrote { claim, .. }
        | What::Lost { claim }
        | What::Excused { claim, .. }
        | What::Releasing { claim }
        | What::Released { claim, .. } => Some(claim),
        _ => None,
    }
}

const SEEDS: u64 = 100;

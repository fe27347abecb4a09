//! Histories that `tenure torture` recorded (4 processes, 2 names, 3 or 4 s, all faults that the
//! store supports), and the same histories with one grant removed: the checker finds each, or the
//! history itself shows why it cannot.

use std::collections::HashSet;
use std::path::Path;

use serde::Deserialize;
use tenure_checker::{Event, Expect, Freed, History, What, check};

const RECORDED: [&str; 3] = ["torture_local", "torture_redis", "torture_redlock"];

/// The first line of a recorded history.
#[derive(Deserialize)]
struct Head {
    expect: Expect,
}

fn read(name: &str) -> (Expect, History) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded");
    let text = std::fs::read_to_string(folder.join(format!("{name}.jsonl"))).unwrap();
    let (head, events) = text.split_once('\n').unwrap();
    let head: Head = serde_json::from_str(head).unwrap();
    let events = events.lines().map(serde_json::from_str);
    (head.expect, events.collect::<Result<_, _>>().unwrap())
}

/// Returns the granted claims, and the processes that asked for them.
fn granted(history: &[Event]) -> impl Iterator<Item = (u64, u32)> {
    history.iter().filter_map(|event| match event.what {
        What::Granted { claim, .. } => Some((claim, event.process)),
        _ => None,
    })
}

/// Returns the processes that a fault has killed: their waiters need not be answered.
fn killed(history: &[Event]) -> HashSet<u32> {
    let kills = history.iter().filter_map(|event| match &event.what {
        What::Fault { kind, target } if kind == "kill" => *target,
        _ => None,
    });
    kills.collect()
}

#[test]
fn recorded_histories_are_valid() {
    for name in RECORDED {
        let (expect, history) = read(name);
        let verdict = check(&history, &expect);
        assert!(verdict.is_valid(), "{name}: {verdict}");
    }
}

/// A waiter that is never served: its grant is removed, and everything that followed from it.
#[test]
fn a_claim_that_is_never_served_is_found_unless_its_process_was_killed() {
    for name in RECORDED {
        let (expect, history) = read(name);
        let killed = killed(&history);
        let (mut found, mut missed) = (0, Vec::new());
        for (claim, process) in granted(&history) {
            let mut served = history.clone();
            served.retain(|event| of(event) != Some(claim) || is_before_the_grant(event));
            match check(&served, &expect).is_valid() {
                false => found += 1,
                true if killed.contains(&process) => {}
                true => missed.push(claim),
            }
        }
        assert!(missed.is_empty(), "{name}: {found} found, not {missed:?}");
        assert!(found > 50, "{name}: only {found} grants");
    }
}

/// Only the grant is removed. A claim that is released afterwards without reporting that it freed
/// anything looks like a call that was dropped while it waited.
#[test]
fn a_grant_that_is_missing_is_found_unless_its_claim_looks_dropped() {
    for name in RECORDED {
        let (expect, history) = read(name);
        let killed = killed(&history);
        let (mut found, mut missed) = (0, Vec::new());
        for (claim, process) in granted(&history) {
            let mut spoiled = history.clone();
            spoiled.retain(
                |event| !matches!(event.what, What::Granted { claim: it, .. } if it == claim),
            );
            let looks_dropped = spoiled
                .iter()
                .filter(|event| of(event) == Some(claim))
                .all(|event| is_before_the_grant(event) || is_let_go(event));
            match check(&spoiled, &expect).is_valid() {
                false => found += 1,
                true if looks_dropped || killed.contains(&process) => {}
                true => missed.push(claim),
            }
        }
        assert!(missed.is_empty(), "{name}: {found} found, not {missed:?}");
        assert!(found > 50, "{name}: only {found} grants");
    }
}

fn is_before_the_grant(event: &Event) -> bool {
    matches!(event.what, What::Asked { .. } | What::Queued { .. })
}

/// Returns whether the event is part of a release that did not report that it freed anything.
fn is_let_go(event: &Event) -> bool {
    match event.what {
        What::Releasing { .. } => true,
        What::Released { freed, .. } => matches!(freed, Freed::NotHeld | Freed::Unknown),
        _ => false,
    }
}

/// Returns the claim that an event is about.
fn of(event: &Event) -> Option<u64> {
    match event.what {
        What::Asked { claim, .. }
        | What::Queued { claim }
        | What::Granted { claim, .. }
        | What::Wrote { claim, .. }
        | What::Lost { claim }
        | What::Excused { claim, .. }
        | What::Releasing { claim }
        | What::Released { claim, .. } => Some(claim),
        _ => None,
    }
}

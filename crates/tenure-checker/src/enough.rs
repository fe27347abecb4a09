//! Decides whether a run had enough grants, writes and faults for a verdict.

use std::collections::BTreeMap;

use crate::claims::View;
use crate::history::{What, Written};
use crate::verdict::{Promise, Statistics};

/// Counts what happened.
pub(crate) fn count(view: &View<'_>) -> Statistics {
    let mut counted = Statistics {
        claims: view.claims.len(),
        ..Statistics::default()
    };
    for claim in &view.claims {
        let granted = claim.granted.is_some();
        counted.granted += usize::from(granted);
        counted.contended += usize::from(granted && (claim.blocked || claim.queued.is_some()));
        counted.refused += usize::from(claim.refused.is_some());
        counted.unknown += usize::from(claim.unknown.is_some());
        counted.lost += usize::from(claim.lost.is_some());
    }
    for event in view.events {
        match &event.what {
            What::Wrote { outcome, .. } => match outcome {
                Written::Accepted => counted.writes += 1,
                Written::Stale => counted.stale += 1,
            },
            What::Fault { kind, .. } => *counted.faults.entry(kind.clone()).or_default() += 1,
            _ => {}
        }
    }
    counted
}

/// Returns what the run lacks, one sentence each.
pub(crate) fn missing(view: &View<'_>, counted: &Statistics) -> Vec<String> {
    let mut reasons = too_few(view, counted);
    if view.expect.promises.is_empty() {
        reasons.push("no promise was asked for".to_owned());
    }
    if view.expect.asks_for(Promise::Liveness) {
        reasons.extend(unhealed(view));
    }
    reasons
}

/// Returns what happened too rarely, one sentence each.
pub(crate) fn too_few(view: &View<'_>, counted: &Statistics) -> Vec<String> {
    let expect = view.expect;
    let mut reasons = Vec::new();
    let mut at_least = |what: &str, seen: usize, wanted: usize| {
        if seen < wanted {
            reasons.push(format!("{what}: {seen} seen, at least {wanted} wanted"));
        }
    };
    at_least("too few grants", counted.granted, expect.grants);
    at_least("too little contention", counted.contended, expect.contended);
    at_least("too few writes", counted.writes, expect.writes);
    let mut faults: BTreeMap<&str, usize> = BTreeMap::new();
    for kind in &expect.faults {
        *faults.entry(kind).or_default() += 1;
    }
    for (kind, wanted) in faults {
        let seen = counted.faults.get(kind).copied().unwrap_or(0);
        at_least(&format!("the fault {kind} did not land"), seen, wanted);
    }
    reasons
}

/// Returns why liveness cannot be judged: faults explain any wait.
fn unhealed(view: &View<'_>) -> Option<String> {
    let Some(healed) = view.healed else {
        return Some(
            "nobody said that the faults are over, so every wait may be theirs".to_owned(),
        );
    };
    if view.faults.last().is_some_and(|last| *last > healed) {
        return Some("a fault came after the faults were said to be over".to_owned());
    }
    let mut open = view.pauses.values().filter_map(|pauses| pauses.last());
    open.any(|pause| pause.over.is_none_or(|over| over > healed))
        .then(|| "a process was still paused when the faults were said to be over".to_owned())
}

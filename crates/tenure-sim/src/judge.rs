//! Judges a run by the checker, and by what was observed at the boundary.

use std::collections::BTreeSet;
use std::time::Duration;

use tenure_checker::{Event, Expect, Mode, Promise, Statistics, Verdict, What, check};

use crate::plan::Plan;
use crate::run::Ran;

/// A promise that a run broke.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The promise, as one word.
    pub promise: String,
    /// What happened, in one sentence.
    pub sentence: String,
    /// The few events that prove it, if the history shows it.
    pub events: Vec<Event>,
}

/// Returns the promises that a run broke, and counts what happened.
pub fn judge(plan: &Plan, ran: &Ran) -> (Vec<Finding>, Statistics) {
    let verdict = check(&ran.history, &expect(plan));
    let mut findings: Vec<Finding> = ran
        .breaches
        .iter()
        .map(|breach| Finding {
            promise: breach.promise.to_owned(),
            sentence: breach.sentence.clone(),
            events: Vec::new(),
        })
        .collect();
    // Findings of the checker have a proof, so they come first.
    let proven = verdict.findings().iter();
    let proven = proven.filter(|found| !is_without_order(plan, ran, found));
    let proven = proven.map(|found| Finding {
        promise: word(found.promise).to_owned(),
        sentence: found.sentence.clone(),
        events: found.events.clone(),
    });
    findings.splice(0..0, proven);
    if let Verdict::Unknown { reasons, .. } = &verdict {
        findings.push(Finding {
            promise: "inconclusive".to_owned(),
            sentence: reasons.join("; "),
            events: Vec::new(),
        });
    }
    (findings, verdict.statistics().clone())
}

/// Returns whether a finding is about fences without an order.
///
/// Where servers vote, these are the fences of readers, and those of one owner, whose claims that
/// hold together may have two. In a database that has crashed, these are the fences of one owner
/// that shares a lease again because its release was undone.
fn is_without_order(plan: &Plan, ran: &Ran, found: &tenure_checker::Finding) -> bool {
    let undoes = plan.is_sql() && plan.has_crashes();
    if !(plan.is_redlock() || undoes) || found.promise != Promise::GrowingFences {
        return false;
    }
    let claims = found.events.iter().filter_map(|event| match event.what {
        What::Granted { claim, .. } => Some(claim),
        _ => None,
    });
    let claims: Vec<u64> = claims.collect();
    let mut owners = BTreeSet::new();
    let mut are_readers = true;
    for event in &ran.history {
        if let What::Asked {
            claim, owner, mode, ..
        } = &event.what
            && claims.contains(claim)
        {
            owners.insert(owner);
            are_readers &= *mode == Mode::Shared;
        }
    }
    (are_readers && !undoes) || owners.len() == 1
}

/// Returns what is promised under the faults of a plan.
fn expect(plan: &Plan) -> Expect {
    // A lease may be passed on inside a process for 5 ms, and messages take time.
    let slack = Duration::from_millis(5 + plan.slowest_way_ms(3) + 5);
    let expect = Expect::new()
        .grants(0)
        .patience(plan.patience())
        .order_slack(slack);
    let keeps = plan.locks().iter().any(|lock| lock.keep_ms > 0);
    // A grant that takes as long as its ttl to arrive may have expired by then, and is then asked
    // for again.
    let shortest = plan
        .locks()
        .iter()
        .map(|lock| lock.ttl_ms.min(lock.max_hold_ms.unwrap_or(u64::MAX)))
        .min();
    let in_time = shortest.is_none_or(|ttl_ms| 8 * plan.setting.slowest_ms < ttl_ms);
    // A claim that an operator evicts before it has learned of its grant joins the line again.
    // Where servers vote, no order is promised.
    if plan.is_watched() && !keeps && !plan.evicts() && in_time {
        expect
    } else {
        // A claim whose message is late or lost joins the line later than it was asked.
        expect.without(Promise::Order)
    }
}

fn word(promise: Promise) -> &'static str {
    match promise {
        Promise::Exclusion => "exclusion",
        Promise::NoLostUpdate => "no-lost-update",
        Promise::FencedWrites => "fenced-writes",
        Promise::GrowingFences => "growing-fences",
        Promise::OwnerOnly => "owner-only",
        Promise::Order => "order",
        Promise::Liveness => "liveness",
        Promise::NothingLeft => "nothing-left",
        Promise::HonestErrors => "honest-errors",
        _ => "other",
    }
}

//! Runs cases, first with the broken lock and then with tenure, and has the checker judge them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::thread;

use serde::Serialize;
use tenure_checker::{History, Promise, Statistics, Verdict, check};

use super::case::Case;
use super::experiment::Experiment;
use super::messages::Who;
use crate::terminal::progress_bar;
use tenure_cli::{Failure, Result};

/// The outcome of a case.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    #[serde(flatten)]
    pub(super) case: &'static Case,
    pub(super) broken: Judged,
    pub(super) tenure: Judged,
    /// Whether the broken lock was flagged for the right reason and for no other.
    pub(super) flagged: bool,
    /// Whether the broken lock was flagged and tenure was not.
    pub(super) as_expected: bool,
}

/// One experiment: what happened, and the verdict.
#[derive(Debug, Serialize)]
pub(super) struct Judged {
    #[serde(flatten)]
    pub(super) verdict: Verdict,
    pub(super) history: History,
}

/// Runs a few cases at a time in parallel, and reports them in order.
pub(super) fn all(
    cases: &[&'static Case],
    mut report: impl FnMut(Outcome) -> Result<()>,
) -> Result<()> {
    let (next, given_up) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (sender, results) = channel();
    let bar = progress_bar(cases.len() as u64, "cases");
    let reported = thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(cases.len()) {
            let (sender, next, given_up) = (sender.clone(), &next, &given_up);
            scope.spawn(move || {
                while let Some(case) = cases.get(next.fetch_add(1, SeqCst)) {
                    // Nobody receives it after a failure.
                    if given_up.load(SeqCst) || sender.send((case.name, run(case))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        // Outcomes that arrived before it was their turn.
        let mut early = BTreeMap::new();
        let mut order = cases.iter();
        let mut due = order.next();
        for (name, outcome) in results {
            bar.inc(1);
            early.insert(name, outcome.inspect_err(|_| given_up.store(true, SeqCst))?);
            while let Some(outcome) = due.and_then(|case| early.remove(case.name)) {
                bar.suspend(|| report(outcome))?;
                due = order.next();
            }
        }
        Ok(())
    });
    bar.finish_and_clear();
    reported
}

/// Runs one case with the broken lock and with tenure.
fn run(case: &'static Case) -> Result<Outcome> {
    let broken = judge(case, Who::Broken(case.name.to_owned()))?;
    let tenure = judge(case, Who::Tenure)?;
    let flagged = broken.verdict.broken() == [case.breaks];
    let as_expected = flagged && tenure.verdict.is_valid();
    Ok(Outcome {
        case,
        broken,
        tenure,
        flagged,
        as_expected,
    })
}

/// Runs one experiment. If it fails, it is inconclusive, unless no experiment is possible at all.
fn judge(case: &Case, who: Who) -> Result<Judged> {
    let mut lab = Experiment::new(who, case.ttl);
    let ended = (case.run)(&mut lab).and_then(|()| lab.end());
    let history = lab.into_history();
    let verdict = match ended {
        Ok(()) => proven(case, check(&history, &case.expect())),
        Err(error) if error.is_missing() => {
            let sentence = format!("the lab needs servers of its own: {error}");
            return Err(Failure::unavailable(sentence));
        }
        Err(error) => unknown(error.to_string()),
    };
    Ok(Judged { verdict, history })
}

/// Makes the verdict inconclusive if a fault did not happen: a broken promise then proves nothing
/// about it.
fn proven(case: &Case, verdict: Verdict) -> Verdict {
    let landed = &verdict.statistics().faults;
    match case.faults.iter().find(|kind| !landed.contains_key(**kind)) {
        Some(kind) => unknown(format!("the fault {kind} did not land")),
        None => verdict,
    }
}

fn unknown(reason: String) -> Verdict {
    Verdict::Unknown {
        reasons: vec![reason],
        statistics: Statistics::default(),
    }
}

/// Returns the verdict in words.
pub(super) fn words(verdict: &Verdict) -> String {
    let promises = |broken: Vec<Promise>| {
        let broken: Vec<_> = broken.iter().map(Promise::to_string).collect();
        broken.join(", ")
    };
    match verdict {
        Verdict::Valid { .. } => "valid".to_owned(),
        Verdict::Broken { .. } => format!("broken: {}", promises(verdict.broken())),
        Verdict::Unknown { .. } => "inconclusive".to_owned(),
    }
}

/// An experiment mostly waits, so a few of them share the CPUs well.
const AT_ONCE: usize = 4;

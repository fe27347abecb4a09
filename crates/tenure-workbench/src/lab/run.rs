//! Plays cases, the broken lock first and then tenure, and lets the checker judge them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::thread;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use tenure_checker::{History, Promise, Statistics, Verdict, check};

use super::case::Case;
use super::scene::Scene;
use super::wire::Who;
use tenure_cli::error::{Failure, Result};
use tenure_cli::exit_code;

/// What came of a case.
#[derive(Debug)]
pub(super) struct Played {
    pub(super) case: &'static Case,
    pub(super) broken: Play,
    pub(super) tenure: Play,
}

/// One play: what happened, and what it proves.
#[derive(Debug, Serialize)]
pub(super) struct Play {
    #[serde(flatten)]
    pub(super) verdict: Verdict,
    pub(super) history: History,
}

impl Played {
    /// Whether the broken lock was flagged for the right reason, and for no other.
    pub(super) fn is_flagged(&self) -> bool {
        self.broken.verdict.broken() == [self.case.breaks]
    }

    /// Whether it was flagged, and tenure was not.
    pub(super) fn is_as_expected(&self) -> bool {
        self.is_flagged() && self.tenure.verdict.is_valid()
    }
}

/// Plays cases side by side, a few at a time, and tells of each in order.
pub(super) fn all(
    cases: &[&'static Case],
    mut tell: impl FnMut(Played) -> Result<()>,
) -> Result<()> {
    let (next, given_up) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (sender, results) = channel();
    let bar = progress(cases.len());
    let told = thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(cases.len()) {
            let (sender, next, given_up) = (sender.clone(), &next, &given_up);
            scope.spawn(move || {
                while let Some(case) = cases.get(next.fetch_add(1, SeqCst)) {
                    // Nobody listens after a failure.
                    if given_up.load(SeqCst) || sender.send((case.name(), play(case))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        // Those that came before their turn.
        let mut early = BTreeMap::new();
        let mut order = cases.iter();
        let mut due = order.next();
        for (name, played) in results {
            bar.inc(1);
            early.insert(name, played.inspect_err(|_| given_up.store(true, SeqCst))?);
            while let Some(played) = due.and_then(|case| early.remove(case.name())) {
                bar.suspend(|| tell(played))?;
                due = order.next();
            }
        }
        Ok(())
    });
    bar.finish_and_clear();
    told
}

/// Plays one case with the broken lock and with tenure.
fn play(case: &'static Case) -> Result<Played> {
    Ok(Played {
        case,
        broken: judge(case, Who::Recipe(case.recipe))?,
        tenure: judge(case, Who::Tenure)?,
    })
}

/// Plays once; what goes wrong in a play makes it prove nothing, unless no play is possible at all.
fn judge(case: &Case, who: Who) -> Result<Play> {
    let mut scene = Scene::new(who, case.ttl);
    let played = (case.play)(&mut scene);
    let history = scene.into_history();
    let verdict = match played {
        Ok(()) => proven(case, check(&history, &case.expect())),
        Err(upset) if upset.is_missing() => {
            let sentence = format!("the lab needs servers of its own: {upset}");
            return Err(Failure::new(exit_code::UNAVAILABLE, sentence));
        }
        Err(upset) => unknown(upset.to_string()),
    };
    Ok(Play { verdict, history })
}

/// A broken promise says nothing of a fault that did not land.
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

/// The verdict in words.
pub(super) fn words(verdict: &Verdict) -> String {
    let promises = |broken: Vec<Promise>| {
        let broken: Vec<_> = broken.iter().map(Promise::to_string).collect();
        broken.join(", ")
    };
    match verdict {
        Verdict::Valid { .. } => "valid".to_owned(),
        Verdict::Broken { .. } => format!("broken: {}", promises(verdict.broken())),
        Verdict::Unknown { .. } => "unknown".to_owned(),
    }
}

/// A bar on stderr, if that is a terminal.
fn progress(cases: usize) -> ProgressBar {
    let bar = ProgressBar::new(cases as u64);
    let style = ProgressStyle::with_template("{elapsed_precise} {bar:30} {pos}/{len} cases");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    if !bar.is_hidden() {
        bar.enable_steady_tick(std::time::Duration::from_millis(500));
    }
    bar
}

/// Most of a play is waiting, so a few of them share the processors well.
const AT_ONCE: usize = 4;

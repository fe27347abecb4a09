//! Runs several checks at once, each with its own thread and runtime.
//!
//! Checks block their thread, because they start servers and call `redis-cli`, and they measure
//! leases of 150 ms: on one thread each would delay the others.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, Once, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime;
use tokio::time::timeout;

use super::lab::Lab;
use super::{RULES, Rule, Test, scenarios};

/// A test that may detect a change.
#[derive(Debug, Clone, Copy)]
pub(super) enum Check {
    Rule(Rule),
    Scenario(Test),
}

/// Returns all checks by name.
pub(super) fn checks() -> BTreeMap<&'static str, Check> {
    // A list of all names shows what other wrong scripts left on the same server.
    let rules = RULES.iter().filter(|(name, _)| !LISTS_ALL.contains(name));
    let rules = rules.map(|(name, rule)| (*name, Check::Rule(*rule)));
    let scenarios = scenarios::all();
    let scenarios = scenarios.map(|(name, test)| (*name, Check::Scenario(*test)));
    rules.chain(scenarios).collect()
}

/// A check to run, and its scripts.
#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) name: &'static str,
    pub(super) check: Check,
    pub(super) lab: Lab,
    /// The longest time that it may take.
    pub(super) limit: Duration,
}

/// The result of a check.
#[derive(Debug)]
pub(super) enum Verdict {
    Passed(Duration),
    /// With its message.
    Failed(String),
    Late,
}

impl Job {
    /// Runs the check again, with no other check in parallel.
    pub(super) fn run_again(&self) -> Verdict {
        let verdict = self.run();
        eprintln!("again: {}, changed {}: {verdict:?}", self.name, self.lab);
        verdict
    }

    /// Runs the check on this thread.
    pub(super) fn run(&self) -> Verdict {
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.unwrap();
        let started = Instant::now();
        let ended = in_silence(|| {
            runtime.block_on(async {
                let check = match self.check {
                    Check::Rule(rule) => rule(&self.lab),
                    Check::Scenario(test) => test(&self.lab),
                };
                timeout(self.limit, check).await
            })
        });
        match ended {
            Ok(Ok(())) => Verdict::Passed(started.elapsed()),
            Ok(Err(_)) => Verdict::Late,
            Err(said) => Verdict::Failed(said),
        }
    }
}

/// Runs several jobs at once, and reports how each ended; after a break the remaining ones are not
/// started.
pub(super) fn run_until(jobs: Vec<Job>, mut ended: impl FnMut(Job, Verdict) -> ControlFlow<()>) {
    let jobs = &Mutex::new(jobs.into_iter());
    let (verdicts, all) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            let verdicts = verdicts.clone();
            scope.spawn(move || {
                loop {
                    let Some(job) = jobs.lock().unwrap().next() else {
                        return;
                    };
                    let verdict = job.run();
                    // Nobody receives it any more.
                    if verdicts.send((job, verdict)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(verdicts);
        for (job, verdict) in all {
            if ended(job, verdict).is_break() {
                return;
            }
        }
    });
}

/// Runs jobs, several at once.
pub(super) fn run_all(jobs: Vec<Job>) -> Vec<(Job, Verdict)> {
    let mut all = Vec::new();
    run_until(jobs, |job, verdict| {
        all.push((job, verdict));
        ControlFlow::Continue(())
    });
    all
}

/// Runs code that may panic; returns the message instead of printing it.
fn in_silence<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let silent = SAID.with_borrow_mut(|said| match said {
                Some(said) => {
                    said.push(panic.to_string());
                    true
                }
                None => false,
            });
            if !silent {
                loud(panic);
            }
        }));
    });
    SAID.set(Some(Vec::new()));
    let ended = catch_unwind(AssertUnwindSafe(run));
    let said = SAID.take().unwrap_or_default();
    ended.map_err(|_| said.join("; "))
}

thread_local! {
    /// The panic messages of this thread, while they are not printed.
    static SAID: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// How many checks run at once: most of the time they wait.
const AT_ONCE: usize = 8;

const LISTS_ALL: &[&str] = &[
    "names_used_once_leave_nothing_in_the_list",
    "the_list_is_sorted_and_filtered_by_name",
];

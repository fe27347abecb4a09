//! Runs many seeds on several threads, and stops at a finding.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tenure_checker::Statistics;

use crate::bugs::Bug;
use crate::generate::{Scope, generate};
use crate::judge::{Finding, judge};
use crate::run::run;

/// Which seeds to run, and when to stop.
#[derive(Debug, Clone, Copy)]
pub struct Search {
    /// The first seed.
    pub from: u64,
    /// How many seeds to run.
    pub seeds: u64,
    /// How long to run, if there is a limit.
    pub time: Option<Duration>,
    /// How many threads to use.
    pub threads: u64,
    /// A mistake to switch on.
    pub bug: Option<Bug>,
    /// Which parts of the API to use.
    pub scope: Scope,
    /// Whether to continue after a finding.
    pub keep_going: bool,
}

/// The result of a search.
#[derive(Debug, Default)]
pub struct Searched {
    /// How many seeds were run.
    pub seeds: u64,
    /// The first finding of each seed.
    pub found: BTreeMap<u64, Finding>,
    /// Counts of what happened in all runs.
    pub coverage: Coverage,
}

/// Counts of what happened in all runs.
#[derive(Debug, Default, Clone)]
pub struct Coverage {
    /// Claims.
    pub claims: usize,
    /// Grants.
    pub granted: usize,
    /// Grants that had to wait.
    pub contended: usize,
    /// Losses that holders noticed.
    pub lost: usize,
    /// Faults that happened, by class.
    pub faults: BTreeMap<String, usize>,
}

impl Search {
    /// Runs the seeds; calls `progress` from time to time with the number of finished seeds.
    pub fn run(&self, progress: impl Fn(u64, &BTreeMap<u64, Finding>) + Sync) -> Searched {
        let next = AtomicU64::new(0);
        let stop = AtomicBool::new(false);
        let all = Mutex::new(Searched::default());
        let start = Instant::now();
        std::thread::scope(|threads| {
            for _ in 0..self.threads.max(1) {
                threads.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let over = self.time.is_some_and(|time| start.elapsed() >= time);
                        if number >= self.seeds || over {
                            return;
                        }
                        let (found, counted) = self.one(self.from + number);
                        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                        all.seeds += 1;
                        all.coverage.add(&counted);
                        if let Some(found) = found {
                            all.found.insert(self.from + number, found);
                            if !self.keep_going {
                                stop.store(true, Ordering::Relaxed);
                            }
                        }
                        if all.seeds % 1000 == 0 {
                            progress(all.seeds, &all.found);
                        }
                    }
                });
            }
        });
        all.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn one(&self, seed: u64) -> (Option<Finding>, Statistics) {
        let plan = generate(seed, self.scope);
        let ran = run(&plan, self.bug, false);
        let (findings, counted) = judge(&plan, &ran);
        (findings.into_iter().next(), counted)
    }
}

/// Returns how many seeds it takes until a planted bug breaks a promise that the same run keeps
/// without it.
///
/// Errors of the engine itself do not count. Returns `None` if `most` seeds are not enough.
pub fn seeds_until_found(bug: Bug, scope: Scope, most: u64) -> Option<(u64, Finding)> {
    for seed in 0..most {
        let plan = generate(seed, scope);
        let (with, _) = judge(&plan, &run(&plan, Some(bug), false));
        if with.is_empty() {
            continue;
        }
        let (without, _) = judge(&plan, &run(&plan, None, false));
        let known: Vec<_> = without.iter().map(|found| &found.promise).collect();
        let new = with.iter().find(|found| !known.contains(&&found.promise));
        if let Some(found) = new {
            return Some((seed + 1, found.clone()));
        }
    }
    None
}

impl Coverage {
    fn add(&mut self, counted: &Statistics) {
        self.claims += counted.claims;
        self.granted += counted.granted;
        self.contended += counted.contended;
        self.lost += counted.lost;
        for (kind, count) in &counted.faults {
            *self.faults.entry(kind.clone()).or_default() += count;
        }
    }
}

//! Runs many seeds on several threads, and stops at what it finds.

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
    /// How many seeds.
    pub seeds: u64,
    /// How long, if there is a limit.
    pub time: Option<Duration>,
    /// How many threads.
    pub threads: u64,
    /// A mistake to switch on.
    pub bug: Option<Bug>,
    /// Which parts of the API to use.
    pub scope: Scope,
    /// Whether to go on after a finding.
    pub keep_going: bool,
}

/// What came of a search.
#[derive(Debug, Default)]
pub struct Searched {
    /// How many seeds were run.
    pub seeds: u64,
    /// What was found, by seed: the first finding of each.
    pub found: BTreeMap<u64, Finding>,
    /// What happened in all runs, counted.
    pub coverage: Coverage,
}

/// What happened in all runs, counted.
#[derive(Debug, Default, Clone)]
pub struct Coverage {
    /// Claims.
    pub claims: usize,
    /// Grants.
    pub granted: usize,
    /// Grants that somebody had to wait for.
    pub contended: usize,
    /// Losses that holders noticed.
    pub lost: usize,
    /// Faults that landed, by class.
    pub faults: BTreeMap<String, usize>,
}

impl Search {
    /// Runs the seeds; `progress` is told now and then how many are done.
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

/// Returns how many seeds it takes until a planted bug breaks a promise that the same run keeps without it.
///
/// What the engine itself gets wrong does not count. `None` if `most` seeds are not enough.
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

//! Makes the plan of a broken run smaller while the same promise stays broken.

use crate::bugs::Bug;
use crate::judge::{Finding, judge};
use crate::plan::{Cut, End, How, NodeClock, Plan, Step, StorePlan, Take};
use crate::run::run;

/// Returns the smallest plan that was found, and its finding.
pub fn shrink(plan: &Plan, finding: &Finding, bug: Option<Bug>) -> (Plan, Finding) {
    let mut best = (plan.clone(), finding.clone());
    let mut tries = MOST_TRIES;
    loop {
        let mut smaller = None;
        for candidate in candidates(&best.0) {
            if tries == 0 {
                return best;
            }
            tries -= 1;
            if let Some(found) = breaks(&candidate, &finding.promise, bug) {
                smaller = Some((candidate, found));
                break;
            }
        }
        match smaller {
            Some(smaller) => best = smaller,
            None => return best,
        }
    }
}

/// Returns the finding of a plan that breaks this promise.
fn breaks(plan: &Plan, promise: &str, bug: Option<Bug>) -> Option<Finding> {
    let ran = run(plan, bug, false);
    let (findings, _) = judge(plan, &ran);
    findings.into_iter().find(|found| found.promise == promise)
}

/// Returns plans that are a little smaller, the most promising first.
fn candidates(plan: &Plan) -> Vec<Plan> {
    let mut all = Vec::new();
    let mut with = |change: &dyn Fn(&mut Plan)| {
        let mut smaller = plan.clone();
        change(&mut smaller);
        if smaller != *plan {
            all.push(smaller);
        }
    };
    for client in 0..plan.clients.len() {
        with(&|plan| plan.clients[client].tasks.clear());
        with(&|plan| plan.clients[client].after_restart.clear());
    }
    with(&|plan| plan.messages.clear());
    with(&|plan| plan.faults.clear());
    for fault in 0..plan.faults.len() {
        with(&|plan| _ = plan.faults.remove(fault));
    }
    for fault in 0..plan.messages.len() {
        with(&|plan| _ = plan.messages.remove(fault));
    }
    for client in 0..plan.clients.len() {
        let idle = &plan.clients[client];
        if idle.tasks.is_empty() && idle.after_restart.is_empty() {
            with(&|plan| plan.remove_client(client));
        }
    }
    for client in 0..plan.clients.len() {
        for task in 0..plan.clients[client].tasks.len() {
            with(&|plan| drop(plan.clients[client].tasks.remove(task)));
            let steps = plan.clients[client].tasks[task].steps.len();
            with(&|plan| plan.clients[client].tasks[task].steps.truncate(steps / 2));
            for step in 0..steps {
                with(&|plan| drop(plan.clients[client].tasks[task].steps.remove(step)));
            }
            for step in 0..steps {
                for change in SIMPLER {
                    with(&|plan| {
                        if let Step::Take(take) = &mut plan.clients[client].tasks[task].steps[step]
                        {
                            change(take);
                        }
                    });
                }
            }
            with(&|plan| plan.clients[client].tasks[task].start_ms = 0);
        }
        for task in 0..plan.clients[client].after_restart.len() {
            let steps = plan.clients[client].after_restart[task].steps.len();
            for step in 0..steps {
                with(&|plan| drop(plan.clients[client].after_restart[task].steps.remove(step)));
            }
        }
        with(&|plan| plan.clients[client].ppm = 0);
        with(&|plan| plan.clients[client].order.sort_unstable());
        with(&|plan| plan.clients[client].unreachable.clear());
    }
    with(&|plan| plan.setting.store_ppm = 0);
    with(&|plan| {
        if let StorePlan::Redlock { nodes, .. } = &mut plan.store {
            nodes.fill(NodeClock {
                ahead_ms: 0,
                ppm: 0,
            });
        }
    });
    with(&|plan| {
        if let StorePlan::Sql { sweeps, .. } = &mut plan.store {
            *sweeps = false;
        }
    });
    with(&|plan| (plan.setting.fastest_ms, plan.setting.slowest_ms) = (1, 1));
    all
}

/// Ways to make one call simpler.
const SIMPLER: [fn(&mut Take); 8] = [
    |take| take.inner = None,
    |take| take.cut = None,
    |take| take.hold_ms = 0,
    |take| take.hold_ms /= 2,
    |take| take.end = End::Release,
    |take| {
        if take.how != How::Try {
            take.how = How::Lock;
        }
    },
    |take| {
        if let How::Retry { times, .. } = &mut take.how {
            *times = (*times / 2).max(1);
        }
    },
    |take| {
        (
            take.lock.keep_ms,
            take.lock.at_least_ms,
            take.lock.max_hold_ms,
        ) = (0, 0, None);
        if let Some(Cut::Polls(polls)) = &mut take.cut {
            *polls = 1;
        }
    },
];

/// The maximum number of runs for one finding.
const MOST_TRIES: usize = 3_000;

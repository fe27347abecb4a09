//! One run: faults while the clients work, then no more faults, and the final checks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use tenure::{Client, Name};
use tenure_checker::{Expect, History, What, lacks};

use tenure_cli::output::millis;
use tenure_cli::{Failure, Result};

use crate::terminal::progress_line;

use super::clients::Clients;
use super::fault_injector::FaultInjector;
use super::messages::Setup;
use super::recorder::Recorder;
use super::target::Target;
use super::{Plan, final_checks, line_watcher, register_server};
use crate::clock::now_us;
use crate::history;

/// Runs a torture, and returns what it must show and what happened.
pub(super) async fn run(target: Target, plan: &Plan) -> Result<(Expect, History)> {
    let expect = expect(&target, plan);
    let client = tenure::open(&target.direct).await?;
    let names = names(plan)?;
    let recorder = Arc::new(Recorder::default());
    let setup = Setup {
        process: 0,
        seed: plan.seed,
        names: names.iter().map(|name| name.as_str().to_owned()).collect(),
        ttl: plan.ttl,
        owners: owners(),
        register: register_server::start(&recorder)?,
    };
    let clients = Clients::start(&target.urls, setup, plan.processes, &recorder)?;
    let run = Run {
        plan,
        clients: Arc::new(clients),
        target: Arc::new(target),
        client,
        names,
        recorder,
        progress: progress_line(),
    };
    run.run_with_faults(&expect).await?;
    run.finish_clients().await?;
    run.check_the_store().await;
    run.progress.finish_and_clear();
    Ok((expect, run.recorder.history()))
}

/// A run in progress.
#[derive(Debug)]
struct Run<'a> {
    plan: &'a Plan,
    clients: Arc<Clients>,
    target: Arc<Target>,
    /// Inspects the store, bypassing all faults.
    client: Client,
    names: Vec<Name>,
    recorder: Arc<Recorder>,
    progress: ProgressBar,
}

impl Run<'_> {
    /// Injects faults while the clients work; no fault is active afterwards.
    async fn run_with_faults(&self, expect: &Expect) -> Result<()> {
        let injector = FaultInjector::start(self.plan, &self.clients, &self.target, &self.recorder);
        let ended = tokio::select! {
            ended = self.wait_for_the_end(expect) => ended,
            () = line_watcher::watch(&self.client, &self.names, self.plan.ttl, &self.recorder) => Ok(()),
        };
        self.progress.set_message("the faults end");
        let healed = in_background(move || injector.stop()).await;
        ended?;
        healed?;
        self.note(What::Healed);
        Ok(())
    }

    /// Waits until the time is over and enough has happened for a verdict, or the run cannot continue.
    async fn wait_for_the_end(&self, expect: &Expect) -> Result<()> {
        let begun = Instant::now();
        let mut end = begun + self.plan.time;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let is_long = begun.elapsed() >= LONGEST * self.plan.time;
                if is_long || lacks(&self.recorder.so_far(), expect).is_empty() {
                    return Ok(());
                }
                end += self.plan.time / 2;
                continue;
            }
            if let Some(sentence) = self.recorder.failed() {
                return Err(Failure::unavailable(sentence));
            }
            self.clients.replace_the_crashed()?;
            let counts = self.recorder.counts();
            self.progress.set_message(format!(
                "{} grants, {} faults, {} s left",
                counts.grants,
                counts.faults,
                left.as_secs() + 1
            ));
            tokio::time::sleep(left.min(TICK)).await;
        }
    }

    /// Makes all clients finish what they have started.
    async fn finish_clients(&self) -> Result<()> {
        self.progress
            .set_message("no more faults, the clients finish");
        let (clients, patience) = (Arc::clone(&self.clients), patience(self.plan));
        // A little longer than the checker permits, so that the history shows that it took too
        // long.
        in_background(move || clients.finish(patience + SECOND)).await?;
        if let Some(sentence) = self.recorder.failed() {
            return Err(Failure::unavailable(sentence));
        }
        Ok(())
    }

    /// Checks whether every name is free, and whether anything is left.
    async fn check_the_store(&self) {
        self.progress
            .set_message("looking whether anything is left");
        let (names, recorder) = (&self.names, &self.recorder);
        let patience = patience(self.plan);
        let ttl = self.plan.ttl;
        final_checks::probe(&self.client, names, ttl, patience + SECOND, recorder).await;
        final_checks::find_left_over(&self.client, names, &self.target, patience, recorder).await;
        self.note(What::Ended { crashed: false });
    }

    fn note(&self, what: What) {
        self.recorder.note(history::now(0, what));
    }
}

/// Returns what the run must show.
fn expect(target: &Target, plan: &Plan) -> Expect {
    let mut expect = Expect::new()
        .only(target.promises(&plan.faults))
        .grants(least(100, plan.time))
        .contended(least(30, plan.time))
        .writes(least(20, plan.time))
        .patience(patience(plan))
        .order_slack(ORDER_SLACK);
    if target.store.votes {
        expect = expect.readers_share_fences().owners_have_several_fences();
    }
    for fault in &plan.faults {
        expect = expect.fault(fault.to_string());
    }
    expect
}

/// Returns the minimum number of events of a kind for a run of this length, if a run of 15 seconds
/// needs `each`. A shorter run needs less than its share, because most of it is the first fault of
/// each kind, but at least one.
fn least(each: u64, time: Duration) -> usize {
    let (time, quarter) = (millis(time), millis(15 * SECOND));
    let short = time.min(quarter);
    let share = each * time / quarter;
    let share = share * short * short / quarter / quarter;
    usize::try_from(share.max(each / 10)).unwrap_or(usize::MAX)
}

/// Returns how long anything may take after the faults: leases and places of dead clients expire by
/// themselves, some of them one after another.
fn patience(plan: &Plan) -> Duration {
    30 * SECOND + 10 * plan.ttl
}

/// Returns names that nobody else uses.
fn names(plan: &Plan) -> Result<Vec<Name>> {
    let run = format!("{}-{:x}", std::process::id(), now_us());
    let names = (1..=plan.names).map(|number| Name::new(&format!("tenure-torture/{run}/{number}")));
    Ok(names.collect::<tenure::Result<_>>()?)
}

/// Returns owners that all clients share and nobody else uses.
fn owners() -> Vec<String> {
    let run = format!("{}-{:x}", std::process::id(), now_us());
    let numbers = 1..=OWNERS;
    numbers
        .map(|number| format!("job/{run}/{number}"))
        .collect()
}

/// Runs blocking work on a separate thread.
async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Failure::unavailable(format!("a part of the torture failed: {error}")))?
}

/// Few enough that several processes have the same owner at the same time, and enough that owners
/// exclude each other.
const OWNERS: u32 = 2;

const SECOND: Duration = Duration::from_secs(1);

/// How many times the planned time a run may take if too little has happened for a verdict, as on a busy machine.
const LONGEST: u32 = 4;

const TICK: Duration = Duration::from_millis(200);

/// A lease may be passed on inside a process for 5 ms, and a grant is recorded a moment after it
/// was made.
const ORDER_SLACK: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_run_has_to_show_less_than_its_share() {
        let least = |seconds| least(100, seconds * SECOND);
        assert_eq!(
            [least(5), least(10), least(15), least(60)],
            [10, 29, 100, 400]
        );
    }
}

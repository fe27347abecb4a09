//! One run: the storm, the healing, the quiet, the look at what is left.

use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use tenure::{Client, Name};
use tenure_checker::{Event, Expect, History, What};

use tenure_cli::error::{Failure, Result};
use tenure_cli::exit_code;
use tenure_cli::output::millis;

use super::clock::now_us;
use super::crew::Crew;
use super::nemesis::Nemesis;
use super::recorder::Recorder;
use super::register::Register;
use super::stage::Stage;
use super::wire::Order;
use super::{Plan, ending, watcher};

/// Makes a run, and returns what was to be expected of it and what happened.
pub(super) async fn run(stage: Stage, plan: &Plan) -> Result<(Expect, History)> {
    let expect = expect(&stage, plan);
    let client = tenure::open(stage.direct()).await?;
    let names = names(plan)?;
    let recorder = Arc::new(Recorder::default());
    let register = Register::start(&recorder)?;
    let order = Order {
        process: 0,
        seed: plan.seed,
        names: names.iter().map(|name| name.as_str().to_owned()).collect(),
        ttl: plan.ttl,
        owners: owners(),
        register: register.port(),
    };
    let crew = Crew::start(stage.urls(), order, plan.processes, &recorder)?;
    let run = Run {
        plan,
        crew: Arc::new(crew),
        stage: Arc::new(stage),
        client,
        names,
        recorder,
        progress: progress(),
    };
    run.storm().await?;
    run.quiet().await?;
    run.look().await;
    run.progress.finish_and_clear();
    Ok((expect, run.recorder.history()))
}

/// A run under way.
#[derive(Debug)]
struct Run<'a> {
    plan: &'a Plan,
    crew: Arc<Crew>,
    stage: Arc<Stage>,
    /// Looks at the store, past all faults.
    client: Client,
    names: Vec<Name>,
    recorder: Arc<Recorder>,
    progress: ProgressBar,
}

impl Run<'_> {
    /// Makes faults while the clients work; afterwards all is whole.
    async fn storm(&self) -> Result<()> {
        let nemesis = Nemesis::start(self.plan, &self.crew, &self.stage, &self.recorder);
        let stormed = tokio::select! {
            stormed = self.wait_for_the_end() => stormed,
            () = watcher::watch(&self.client, &self.names, self.plan.ttl, &self.recorder) => Ok(()),
        };
        self.progress.set_message("the faults end");
        let healed = in_background(move || nemesis.stop()).await;
        stormed?;
        healed?;
        self.note(What::Healed);
        Ok(())
    }

    /// Waits until the storm is over, or cannot go on.
    async fn wait_for_the_end(&self) -> Result<()> {
        let end = Instant::now() + self.plan.time;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            if let Some(sentence) = self.recorder.failed() {
                return Err(Failure::new(exit_code::UNAVAILABLE, sentence));
            }
            self.crew.replace_the_crashed()?;
            let counts = self.recorder.counts();
            self.progress.set_message(format!(
                "storm: {} grants, {} faults, {} s left",
                counts.grants,
                counts.faults,
                left.as_secs() + 1
            ));
            tokio::time::sleep(left.min(TICK)).await;
        }
    }

    /// Lets all clients finish what they have begun.
    async fn quiet(&self) -> Result<()> {
        self.progress
            .set_message("all is healed, the clients finish");
        let (crew, patience) = (Arc::clone(&self.crew), patience(self.plan));
        // A little longer than what is judged: the history has to say that it was too long.
        in_background(move || crew.finish(patience + SECOND)).await?;
        if let Some(sentence) = self.recorder.failed() {
            return Err(Failure::new(exit_code::UNAVAILABLE, sentence));
        }
        Ok(())
    }

    /// Looks whether every name is free, and whether anything is left.
    async fn look(&self) {
        self.progress
            .set_message("looking whether anything is left");
        let (names, recorder) = (&self.names, &self.recorder);
        let patience = patience(self.plan);
        let ttl = self.plan.ttl;
        ending::probe(&self.client, names, ttl, patience + SECOND, recorder).await;
        let address = self.stage.address();
        ending::look_for_rests(&self.client, names, address, patience, recorder).await;
        self.note(What::Ended { crashed: false });
    }

    fn note(&self, what: What) {
        self.recorder.note(Event {
            at_us: now_us(),
            process: 0,
            what,
        });
    }
}

/// What the run has to show.
fn expect(stage: &Stage, plan: &Plan) -> Expect {
    let mut expect = Expect::new()
        .only(stage.promises(&plan.faults))
        .grants(least(100, plan.time))
        .contended(least(30, plan.time))
        .writes(least(20, plan.time))
        .patience(patience(plan))
        .order_slack(ORDER_SLACK);
    if stage.votes_on_fences() {
        expect = expect.readers_share_fences().owners_have_several_fences();
    }
    for fault in &plan.faults {
        expect = expect.fault(fault.word());
    }
    expect
}

/// How much there has to be of what there is `each` of in a quarter of a minute; less than its share if the storm is
/// shorter, since most of it is then the first fault of each kind; but never nothing.
fn least(each: u64, time: Duration) -> usize {
    let (time, quarter) = (millis(time), millis(15 * SECOND));
    let short = time.min(quarter);
    let share = each * time / quarter;
    let share = share * short * short / quarter / quarter;
    usize::try_from(share.max(each / 10)).unwrap_or(usize::MAX)
}

/// How long anything may take when all is healed: leases and places of the dead end by themselves, some one after another.
fn patience(plan: &Plan) -> Duration {
    30 * SECOND + 10 * plan.ttl
}

/// Names that nobody else has.
fn names(plan: &Plan) -> Result<Vec<Name>> {
    let run = format!("{}-{:x}", std::process::id(), now_us());
    let names = (1..=plan.names).map(|number| Name::new(&format!("tenure-torture/{run}/{number}")));
    Ok(names.collect::<tenure::Result<_>>()?)
}

/// Owners that all clients share, and nobody else has.
fn owners() -> Vec<String> {
    let run = format!("{}-{:x}", std::process::id(), now_us());
    let numbers = 1..=OWNERS;
    numbers
        .map(|number| format!("job/{run}/{number}"))
        .collect()
}

/// Does what blocks on a thread of its own.
async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| {
        let sentence = format!("a part of the torture failed: {error}");
        Failure::new(exit_code::UNAVAILABLE, sentence)
    })?
}

/// A line on stderr, if that is a terminal.
fn progress() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{elapsed_precise} {spinner} {msg}") {
        bar.set_style(style);
    }
    if !bar.is_hidden() {
        bar.enable_steady_tick(TICK);
    }
    bar
}

/// So few that several processes have the same one at the same time, and so many that they exclude each other.
const OWNERS: u32 = 2;

const SECOND: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(200);

/// A lease may be passed on inside a process for 5 ms, and a grant is noted a moment after it was made.
const ORDER_SLACK: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_storm_has_to_show_less_than_its_share() {
        let least = |seconds| least(100, seconds * SECOND);
        assert_eq!(
            [least(5), least(10), least(15), least(60)],
            [10, 29, 100, 400]
        );
    }
}

//! `bench`: measures a store beside the bare floors of the same machine, in one run.
//!
//! Every measurement runs in processes of its own, which are this program again (`child`). This
//! process only starts them, tells them when to begin, and counts (`measure`). What a kind of
//! store is compared with, and what it aims for, stands in `kind`.

use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use tenure_cli::duration;
use tenure_cli::error::{Failure, Result};
use tenure_cli::exit_code;
use tenure_cli::output::print_json;
use tenure_cli::store::Store;

mod child;
mod clock;
mod contender;
mod detour;
mod figures;
mod kind;
mod line;
mod machine;
mod measure;
mod nodes;
mod player;
mod raw;
mod report;
mod wire;
mod workload;

pub(crate) use child::play;
pub(crate) use clock::now_ns;
pub(crate) use contender::redis::client as redis_client;
pub(crate) use nodes::Nodes;

use kind::Kind;
use machine::Machine;
use measure::Bench;
use report::{Report, Round, Runs, Times};
use workload::Workload;

/// Measure the store, next to bare locks of the same machine
///
/// Runs every workload in rounds, tenure and what it is compared with in turn, and reports the
/// median of the rounds, the range in brackets, and the median of the rounds' ratios to the floor:
/// what a lock without promises costs, or the store itself under easier terms. An aim that is missed is
/// no error. Names begin with tenure-bench/ and are free afterwards; Redis remembers their last fences
/// for an hour. A run on a busy machine says little: let it be quiet. The file of a local store keeps
/// the size that it grew to. For Redis, start a server that serves nobody else, best on this machine:
///
/// redis-server --port 7379 --save '' --appendonly no
///
/// For redlock://, start several of them. Nodes do not count in their first minute, so add
/// restart_delay=off to the URL, or wait. In the workload dead the last node refuses connections, and
/// in slow each of its answers takes 20 ms longer. They are compared with the store's own pair, with a
/// vote of the other nodes alone, and slow also with the same detour to the last node without delay.
/// Each of their rounds is made of eight short ones, in which all take turns.
///
/// Servers on this machine share its cores with each other and with their clients, so that the more of
/// them there are, the later each answers. On machines of their own they would not, but be some way
/// apart: --away 1ms leads all who are measured to each server by a port of this machine that hands on
/// its answers 1 ms later.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  tenure bench
  tenure bench --store local:/some/folder --only pair,handover
  tenure bench --store redis://127.0.0.1:7379/
  tenure bench --store 'redlock://127.0.0.1:7379,127.0.0.1:7380,127.0.0.1:7381?restart_delay=off'
  tenure bench --store 'redlock://127.0.0.1:7379,127.0.0.1:7380,127.0.0.1:7381?restart_delay=off' \
    --away 1ms --only pair,dead,slow
  tenure bench --json | jq '.workloads[].lines[] | select(.met == false)'")]
pub(crate) struct BenchArgs {
    /// How many rounds; workloads that take long are measured in the last only
    #[arg(long, value_name = "NUMBER", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    /// How long to measure each workload in a round; less than 1s makes the long ones smaller too
    #[arg(long = "for", value_name = "DURATION", value_parser = duration::parse, default_value = "1s")]
    time: Duration,

    /// Measure as if each server were this far away: every answer of it comes so much later
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    away: Option<Duration>,

    /// Only these workloads, with commas between them
    #[arg(long, value_name = "WORKLOADS", value_delimiter = ',')]
    only: Vec<Workload>,

    /// Print JSON: an object {store, machine, workloads}
    #[arg(long)]
    json: bool,
}

/// Measures the store and prints what came of it.
pub(crate) async fn bench(store: &Store, args: BenchArgs) -> Result<ExitCode> {
    if args.time < SHORTEST || args.time > LONGEST {
        let sentence = "--for is between 10ms and 10m; write for example --for 1s";
        return Err(Failure::new(exit_code::USAGE, sentence));
    }
    if args.away.is_some_and(|away| !AWAY.contains(&away)) {
        let sentence = "--away is between 1ms and 100ms; write for example --away 1ms";
        return Err(Failure::new(exit_code::USAGE, sentence));
    }
    let (seen, away) = match args.away {
        Some(away) => (detour::away(store, away)?, away),
        None => (Store::of(store.url()), Duration::ZERO),
    };
    let client = store.open().await?;
    let kind = kind::of(store.url(), seen.url(), away)?;
    let workloads = chosen(kind.as_ref(), &args.only)?;
    let machine = Machine::look();
    let bench = Bench::new(&seen, client, kind.as_ref(), args.time);
    let runs = run(&bench, kind.as_ref(), &workloads, args.rounds).await?;
    let times = Times {
        away: args.away,
        each: args.time,
    };
    let report = Report::new(store.shown(), machine, times, kind.as_ref(), &runs);
    match args.json {
        true => print_json(&report)?,
        false => report.print()?,
    }
    Ok(exit_code::DONE)
}

/// The workloads that were asked for, in the order in which they are best measured.
fn chosen(kind: &dyn Kind, only: &[Workload]) -> Result<Vec<Workload>> {
    let possible = |workload: &Workload| {
        let mut lines = kind.lines().into_iter();
        lines.any(|line| line.workload == *workload)
    };
    if let Some(unable) = only.iter().find(|workload| !possible(workload)) {
        let name = unable.name();
        let sentence = format!("{name} cannot be measured on this store; leave it out of --only");
        return Err(Failure::new(exit_code::USAGE, sentence));
    }
    let wanted = |workload: &Workload| only.is_empty() || only.contains(workload);
    let all = Workload::ALL.into_iter();
    Ok(all.filter(possible).filter(wanted).collect())
}

/// Measures round by round; who goes first alternates, but what may change the store goes last.
async fn run(
    bench: &Bench<'_>,
    kind: &dyn Kind,
    workloads: &[Workload],
    rounds: u32,
) -> Result<Vec<Runs>> {
    let mut runs: Vec<_> = workloads.iter().copied().map(Runs::new).collect();
    let steps = |runs: &Runs| {
        let each = kind.subjects(runs.workload).len();
        each as u64 * u64::from(runs.workload.rounds(rounds))
    };
    let progress = progress(runs.iter().map(steps).sum());
    for round in 0..rounds {
        for runs in &mut runs {
            if !runs.workload.is_in(round, rounds) {
                continue;
            }
            let mut subjects = kind.subjects(runs.workload);
            if round % 2 == 1 || runs.workload == Workload::Many {
                subjects.reverse();
            }
            let (workload, now) = (runs.workload, format!("round {} of {rounds}", round + 1));
            let show = |what| {
                progress.set_message(format!("{now}: {}, {what}", workload.name()));
            };
            if workload.takes_turns() {
                show("all by turns");
                runs.rounds.extend(bench.by_turns(&subjects)?);
                progress.inc(subjects.len() as u64);
            } else {
                let mut measured = Round::new();
                for subject in &subjects {
                    show(subject.label);
                    measured.insert(subject.label, bench.measure(subject).await?);
                    progress.inc(1);
                }
                runs.rounds.push(measured);
            }
            if round + 1 == rounds && counts(kind, workload) {
                show("its commands");
                for subject in &subjects {
                    let counted = bench.count(subject).await?;
                    runs.add_to_last(subject.label, counted, "commands");
                }
            }
        }
    }
    progress.finish_and_clear();
    Ok(runs)
}

/// Whether the report says how many commands a workload takes.
fn counts(kind: &dyn Kind, workload: Workload) -> bool {
    let mut lines = kind.lines().into_iter();
    lines.any(|line| line.workload == workload && line.figure.starts_with("commands"))
}

/// A bar on stderr, if that is a terminal.
fn progress(steps: u64) -> ProgressBar {
    let bar = ProgressBar::new(steps);
    let style = ProgressStyle::with_template("{elapsed_precise} {bar:30} {pos}/{len} {msg}");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    if !bar.is_hidden() {
        bar.enable_steady_tick(TICK);
    }
    bar
}

const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(600);
/// Not as long as a request may take.
const AWAY: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_millis(100);
const TICK: Duration = Duration::from_millis(500);

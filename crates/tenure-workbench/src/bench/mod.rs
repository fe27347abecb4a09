//! `bench`: measures a store beside bare locks on the same machine, in one run.
//!
//! Every measurement runs in separate processes, which are this program again (`child`). This
//! process only starts them, tells them when to begin, and counts (`measure`). The comparisons and
//! aims of each store are in `stores`.

use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tenure::url::StoreUrl;

use tenure_cli::output::{millis, print_json};
use tenure_cli::{Failure, Result, Store, duration, exit_code};

mod child;
mod contender;
mod detour;
mod figures;
mod machine;
mod measure;
mod messages;
mod report;
mod report_row;
mod stores;
mod worker;
mod workload;

pub(crate) use child::run as run_child;

use machine::Machine;
use measure::Bench;
use report::{Report, Round, Runs};
use stores::{BenchStore, Opened};
use workload::Workload;

use crate::terminal::progress_bar;

/// Measure the store next to bare locks on the same machine
///
/// Runs every workload in rounds, tenure and what it is compared with in turn. Reports the median of
/// the rounds, the range in brackets, and the median of the ratios to the floor: what a lock without
/// promises costs, or the store itself under easier conditions. A missed aim is no error. Names begin
/// with tenure-bench/ and are free afterwards; Redis keeps their last fences for an hour. Measure on a
/// quiet machine. The file of a local store keeps the size that it grew to. For Redis, start a server
/// for the benchmark alone, best on this machine:
///
/// redis-server --port 7379 --save '' --appendonly no
///
/// For mysql:// and postgres://, use a database with room for 100 connections; the names and their rows
/// are removed afterwards, those of tenure an hour after their last use.
///
/// For redlock://, start several Redis servers. Nodes do not vote in their first minute, so add
/// restart_delay=off to the URL, or wait. In the workload dead the last node refuses connections, and
/// in slow each of its replies takes 20 ms longer. Both are compared with the store's own pair and with
/// a vote of the other nodes alone, slow also with the same detour to the last node without the delay.
/// Each of their rounds consists of eight short ones, in which all take turns.
///
/// Servers on this machine share its cores with each other and with their clients: the more servers,
/// the later each replies. On machines of their own they would not, but be some distance away:
/// --away 1ms sends all who are measured through a port of this machine to each server, which delays
/// its replies by 1 ms.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  tenure bench
  tenure bench --store local:/some/directory --only pair,handover
  tenure bench --store redis://127.0.0.1:7379/
  tenure bench --store postgres://user:password@127.0.0.1/database
  tenure bench --store 'redlock://127.0.0.1:7379,127.0.0.1:7380,127.0.0.1:7381?restart_delay=off'
  tenure bench --store 'redlock://127.0.0.1:7379,127.0.0.1:7380,127.0.0.1:7381?restart_delay=off' \
    --away 1ms --only pair,dead,slow
  tenure bench --json | jq '.workloads[].lines[] | select(.met == false)'")]
pub(crate) struct BenchArgs {
    /// How many rounds; long workloads are measured in the last one only
    #[arg(long, value_name = "NUMBER", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    /// How long to measure each workload in a round; less than 1s shortens the long ones too
    #[arg(long = "for", value_name = "DURATION", value_parser = duration::parse, default_value = "1s")]
    time: Duration,

    /// Delay every reply of each server by this much, as if it were far away
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    away: Option<Duration>,

    /// Only these workloads, separated by commas
    #[arg(long, value_name = "WORKLOADS", value_delimiter = ',')]
    only: Vec<Workload>,

    /// Print JSON: an object {store, machine, workloads}
    #[arg(long)]
    json: bool,
}

/// Measures the store and prints the report.
pub(crate) async fn bench(store: &Store, args: BenchArgs) -> Result<ExitCode> {
    if args.time < SHORTEST || args.time > LONGEST {
        let sentence = "--for is between 10ms and 10m; write for example --for 1s";
        return Err(Failure::usage(sentence));
    }
    if args.away.is_some_and(|away| !AWAY.contains(&away)) {
        let sentence = "--away is between 1ms and 100ms; write for example --away 1ms";
        return Err(Failure::usage(sentence));
    }
    let (seen, away) = match args.away {
        Some(away) => (detour::away(store, away)?, away),
        None => (Store::of(store.url()), Duration::ZERO),
    };
    let client = store.open().await?;
    let measured = stores::of(&Opened {
        url: StoreUrl::parse(store.url())?,
        seen: StoreUrl::parse(seen.url())?,
        away,
    })?;
    let workloads = chosen(measured.as_ref(), &args.only)?;
    let machine = Machine::look();
    let bench = Bench {
        store: &seen,
        client,
        measured: measured.as_ref(),
        time: args.time,
        counter: None,
    };
    let runs = run(&bench, &workloads, args.rounds).await?;
    let report = Report {
        store: store.shown(),
        version: env!("CARGO_PKG_VERSION"),
        machine,
        for_ms: millis(args.time),
        away_ms: args.away.map(millis),
        workloads: report::workloads(&runs, &measured.rows()),
        missing: measured.missing(),
    };
    match args.json {
        true => print_json(&report)?,
        false => report.print()?,
    }
    Ok(exit_code::DONE)
}

/// Returns the requested workloads, in the best order to measure them.
fn chosen(measured: &dyn BenchStore, only: &[Workload]) -> Result<Vec<Workload>> {
    let possible = |workload: &Workload| {
        let mut rows = measured.rows().into_iter();
        rows.any(|row| row.workload == *workload)
    };
    if let Some(unable) = only.iter().find(|workload| !possible(workload)) {
        let name = unable.name();
        let sentence = format!("{name} cannot be measured on this store; leave it out of --only");
        return Err(Failure::usage(sentence));
    }
    let wanted = |workload: &Workload| only.is_empty() || only.contains(workload);
    let all = Workload::value_variants().iter().copied();
    Ok(all.filter(possible).filter(wanted).collect())
}

/// Measures round by round. The order alternates, but workloads that may change the store come
/// last.
async fn run(bench: &Bench<'_>, workloads: &[Workload], rounds: u32) -> Result<Vec<Runs>> {
    let store = bench.measured;
    let mut runs: Vec<_> = workloads
        .iter()
        .map(|workload| Runs::new(*workload))
        .collect();
    let steps = |runs: &Runs| {
        let each = stores::subjects(store, runs.workload).len();
        each as u64 * u64::from(runs.workload.rounds(rounds))
    };
    let progress = progress_bar(runs.iter().map(steps).sum(), "");
    for round in 0..rounds {
        for runs in &mut runs {
            if !runs.workload.is_in(round, rounds) {
                continue;
            }
            let mut subjects = stores::subjects(store, runs.workload);
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
            if round + 1 == rounds && counts(store, workload) {
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

/// Returns whether the report shows how many commands a workload takes.
fn counts(measured: &dyn BenchStore, workload: Workload) -> bool {
    let mut rows = measured.rows().into_iter();
    rows.any(|row| row.workload == workload && row.figure.starts_with("commands"))
}

const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(600);
/// Shorter than the timeout of a request.
const AWAY: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_millis(100);

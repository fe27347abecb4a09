//! `torture`: many processes on one store, injected faults, and a verdict from the events of all of
//! them.
//!
//! The clients are this program again (`client`). This process starts them (`clients`), injects
//! faults (`fault_injector`), keeps the resource that the lock protects (`register_server`), and
//! observes the store's lines (`line_watcher`). All events form one history (`recorder`), which the
//! checker judges.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::{Serialize, Serializer};
use tenure_checker::check;

use tenure_cli::output::millis;
use tenure_cli::{Failure, Result, Store, duration};

mod client;
mod clients;
mod fault;
mod fault_injector;
mod final_checks;
mod history_file;
mod line_watcher;
mod links;
mod messages;
mod recorder;
mod register_server;
mod report;
mod run;
mod stop;
mod stores;
mod target;

pub(crate) use client::run as run_client;

use fault::Fault;
use report::Report;
use stores::TortureStore;
use target::Target;

/// Torture the store with many processes and faults, and check its promises
///
/// Client processes lock, work and release as fast as they can, in all modes: as owners that they
/// share, with short timeouts, by calls that are cancelled, and by leases by hand that one takes and
/// another releases. Meanwhile faults are injected:
///
///   kill        a client is killed with signal 9, and another one started
///   pause       a client is stopped for half a ttl to three, and continues
///   reply-loss  the store does what it is asked, and its replies are lost
///   cut         all connections to a server are closed
///   freeze      nothing gets through for less than a ttl or more, and then all of it
///   restart     a server is killed and started again with its data; only with --server
///
/// A checker judges the whole history. The verdict is the exit code:
///
///   0  valid
///   1  broken, with the promise and the events that prove it
///   3  inconclusive: too few grants, writes or faults; "unknown" in JSON
///
/// Names begin with tenure-torture/ and are gone afterwards.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(after_long_help = "\
Examples:
  tenure torture --for 15s
  tenure torture --server redis --for 60s
  tenure torture --server postgres --for 60s
  tenure torture --server redlock --faults kill,restart --seed 7
  tenure torture --store redis://127.0.0.1:7379/ --for 10m --history run.jsonl
  tenure torture --check run.jsonl")]
pub(crate) struct TortureArgs {
    /// How long faults are injected, or up to four times as long if too little has happened for a verdict; some
    /// seconds of final checks follow
    #[arg(long = "for", value_name = "DURATION", value_parser = duration::parse, default_value = "60s")]
    time: Duration,

    /// How many client processes
    #[arg(long, value_name = "NUMBER", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=200))]
    processes: u32,

    /// How many names they lock
    #[arg(long, value_name = "NUMBER", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    names: u32,

    /// How long a lease lasts unless renewed
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "1s")]
    ttl: Duration,

    /// Which faults, separated by commas; all that are possible on this store if not given
    #[arg(
        long,
        value_name = "FAULTS",
        value_delimiter = ',',
        hide_possible_values = true
    )]
    faults: Vec<Fault>,

    /// Seed of the random choices; a random number if not given
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,

    /// Start servers, and use them instead of --store
    #[arg(long, value_name = "SERVERS", value_parser = stores::own_servers())]
    server: Option<&'static TortureStore>,

    /// Write the history to a file, one event per line
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,

    /// Only judge a file of --history again
    #[arg(long, value_name = "FILE", conflicts_with_all = ["history", "server", "faults", "seed"])]
    check: Option<PathBuf>,

    /// Print JSON: an object {of, run, events, verdict, statistics, findings, reasons}
    #[arg(long)]
    json: bool,
}

/// Tortures the store and prints the verdict.
pub(crate) async fn torture(store: &Store, args: TortureArgs) -> Result<ExitCode> {
    if let Some(path) = &args.check {
        let (expect, history) = history_file::read(path)?;
        let report = Report {
            of: path.display().to_string(),
            run: None,
            events: history.len(),
            verdict: check(&history, &expect),
        };
        return report.print(args.json);
    }
    let plan = plan(store, &args)?;
    let target = Target::new(store, args.server, &plan)?;
    let shown = target.shown.clone();
    let (expect, history) = run::run(target, &plan).await?;
    if let Some(path) = &args.history {
        history_file::write(path, &expect, &history)?;
    }
    let report = Report {
        of: shown,
        run: Some(plan),
        events: history.len(),
        verdict: check(&history, &expect),
    };
    report.print(args.json)
}

/// The settings of a run, as JSON shows them.
#[derive(Debug, Serialize)]
struct Plan {
    seed: u64,
    #[serde(rename = "for_ms", serialize_with = "as_millis")]
    time: Duration,
    #[serde(rename = "ttl_ms", serialize_with = "as_millis")]
    ttl: Duration,
    processes: u32,
    names: u32,
    faults: Vec<Fault>,
}

fn as_millis<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(millis(*time))
}

/// Checks the flags, and returns the settings.
fn plan(store: &Store, args: &TortureArgs) -> Result<Plan> {
    let wrong = |sentence: &str| Err(Failure::usage(sentence));
    if args.time < Duration::from_secs(1) || args.time > Duration::from_secs(24 * 3600) {
        return wrong("--for is between 1s and 24h; write for example --for 60s");
    }
    if args.ttl < Duration::from_millis(200) || args.ttl > Duration::from_secs(60) {
        return wrong("--ttl is between 200ms and 60s; write for example --ttl 1s");
    }
    let possible = Target::possible(store, args.server)?;
    let is_wanted = |fault: &Fault| match args.faults.is_empty() {
        true => possible.contains(fault),
        false => args.faults.contains(fault),
    };
    let faults = Fault::value_variants()
        .iter()
        .copied()
        .filter(is_wanted)
        .collect();
    Ok(Plan {
        time: args.time,
        ttl: args.ttl,
        processes: args.processes,
        names: args.names,
        faults,
        seed: args.seed.unwrap_or_else(|| fastrand::u64(..1_000_000)),
    })
}

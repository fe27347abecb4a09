//! `torture`: many processes on one store, faults on purpose, and a verdict from what all of them noted.
//!
//! The clients are this program again (`client`). This process starts them (`crew`), makes the faults (`nemesis`), keeps
//! the resource that the lock protects (`register`), and looks at the store's lines (`watcher`). All that happened is
//! one history (`recorder`), which the checker judges.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tenure_checker::check;

use tenure_cli::duration;
use tenure_cli::error::{Failure, Result};
use tenure_cli::exit_code;
use tenure_cli::store::Store;

mod address;
mod client;
mod clock;
mod crew;
mod ending;
mod fault;
mod nemesis;
mod recorder;
mod register;
mod report;
mod run;
mod saved;
mod stage;
mod stop;
mod watcher;
mod ways;
mod wire;

pub(crate) use client::play;

use fault::Fault;
use report::Report;
use stage::{Servers, Stage};

/// Torture the store with many processes and faults, and judge what came of it
///
/// Client processes lock, work and let go as fast as they can, in all modes and ways: as owners
/// that they share, with short timeouts, by calls that are dropped half way, and by leases by hand
/// that one takes and another releases. Meanwhile faults are made on purpose:
///
///   kill        a client is killed by signal 9, and another one started
///   pause       a client is stopped for half a ttl to three, and goes on
///   reply-loss  the store does what it is asked, and its answers get lost
///   cut         all connections to a server are closed
///   freeze      nothing comes through for less than a ttl or more, and then all of it
///   restart     a server is killed and started again with its data; only with --server
///
/// Everything is noted and judged. The verdict is the exit code:
///
///   0  valid
///   1  broken, with the promise and the events that prove it
///   3  unknown: too few grants, too little contention, or a fault that did not happen
///
/// Names begin with tenure-torture/ and are gone afterwards.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(after_long_help = "\
Examples:
  tenure torture --for 15s
  tenure torture --server redis --for 60s
  tenure torture --server redlock --faults kill,restart --seed 7
  tenure torture --store redis://127.0.0.1:7379/ --for 10m --history run.jsonl
  tenure torture --check run.jsonl")]
pub(crate) struct TortureArgs {
    /// How long the storm lasts; some seconds of healing and looking follow
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

    /// Which faults, with commas between them; all that this store can have if not given
    #[arg(
        long,
        value_name = "FAULTS",
        value_delimiter = ',',
        hide_possible_values = true
    )]
    faults: Vec<Fault>,

    /// What the lots are drawn from; a random number if not given
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,

    /// Start servers of our own, and use them instead of the store
    #[arg(long, value_name = "SERVERS")]
    server: Option<Servers>,

    /// Write what happened to a file, an event on each line
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,

    /// Judge a file of --history again, and do nothing else
    #[arg(long, value_name = "FILE", conflicts_with_all = ["history", "server", "faults", "seed"])]
    check: Option<PathBuf>,

    /// Print JSON: an object {of, run, events, verdict, statistics, findings, reasons}
    #[arg(long)]
    json: bool,
}

/// Tortures the store and prints the verdict.
pub(crate) async fn torture(store: &Store, args: TortureArgs) -> Result<ExitCode> {
    if let Some(path) = &args.check {
        let (expect, history) = saved::read(path)?;
        let report = Report {
            of: path.display().to_string(),
            run: None,
            events: history.len(),
            verdict: check(&history, &expect),
        };
        return report.print(args.json);
    }
    let plan = plan(store, &args)?;
    let stage = match args.server {
        Some(servers) => Stage::start(servers, plan.ttl, &plan.faults)?,
        None => Stage::of(store, &plan.faults)?,
    };
    let shown = stage.shown().to_owned();
    let (expect, history) = run::run(stage, &plan).await?;
    if let Some(path) = &args.history {
        saved::write(path, &expect, &history)?;
    }
    let report = Report {
        of: shown,
        run: Some(plan.told()),
        events: history.len(),
        verdict: check(&history, &expect),
    };
    report.print(args.json)
}

/// What is to be done.
#[derive(Debug)]
struct Plan {
    time: Duration,
    ttl: Duration,
    processes: u32,
    names: u32,
    faults: Vec<Fault>,
    seed: u64,
}

impl Plan {
    fn told(&self) -> report::Run {
        report::Run {
            seed: self.seed,
            for_ms: tenure_cli::output::millis(self.time),
            ttl_ms: tenure_cli::output::millis(self.ttl),
            processes: self.processes,
            names: self.names,
            faults: self.faults.iter().map(|fault| fault.word()).collect(),
        }
    }
}

/// Checks the flags.
fn plan(store: &Store, args: &TortureArgs) -> Result<Plan> {
    let wrong = |sentence: &str| Err(Failure::new(exit_code::USAGE, sentence));
    if args.time < Duration::from_secs(1) || args.time > Duration::from_secs(24 * 3600) {
        return wrong("--for is between 1s and 24h; write for example --for 60s");
    }
    if args.ttl < Duration::from_millis(200) || args.ttl > Duration::from_secs(60) {
        return wrong("--ttl is between 200ms and 60s; write for example --ttl 1s");
    }
    let possible = Stage::possible(store, args.server)?;
    let is_wanted = |fault: &Fault| match args.faults.is_empty() {
        true => possible.contains(fault),
        false => args.faults.contains(fault),
    };
    let faults = Fault::ALL.into_iter().filter(is_wanted).collect();
    Ok(Plan {
        time: args.time,
        ttl: args.ttl,
        processes: args.processes,
        names: args.names,
        faults,
        seed: args.seed.unwrap_or_else(|| fastrand::u64(..1_000_000)),
    })
}

//! `demo cache`: a hot entry expires, and one caller makes it anew instead of hundreds.

use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::Args;
use indicatif::ProgressBar;

use crate::child::Child;
use tenure_cli::error::{Failure, Result};
use tenure_cli::output::print_json;
use tenure_cli::store::{self, Store};
use tenure_cli::{duration, exit_code};

mod copy;
mod entry;
mod report;

pub(crate) use copy::play;

use copy::{Calls, Keeper, Settings};
use entry::Cache;
use report::Report;

/// Rebuild a cache entry once instead of hundreds of times
///
/// Several copies of a service, each its own process with many callers, read one hot cache entry. When it expires, whoever finds
/// that out makes it anew, which is slow. Without a lock all callers do so at once; with a lock inside each copy, one of each copy
/// does; with tenure's `once`, one does and the others wait for it, or go on with the old entry meanwhile (stale).
///
/// Runs all of them in turn and puts them side by side, or the one of --lock. The entry is a file in a temporary folder; so is
/// the store of the lock, unless --store names another.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  tenure demo cache
  tenure demo cache --copies 8 --callers 100 --rebuild 1s
  tenure demo cache --lock tenure --store redis://127.0.0.1/
  tenure demo cache --json | jq '.[] | {lock, rebuilds_per_expiry}'")]
pub(crate) struct CacheArgs {
    /// How many copies of the service
    #[arg(long, value_name = "NUMBER", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    copies: u32,

    /// How many callers each copy has
    #[arg(long, value_name = "NUMBER", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    callers: u32,

    /// How many times the entry expires
    #[arg(long, value_name = "NUMBER", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    expiries: u64,

    /// How long the entry is fresh
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "500ms")]
    fresh: Duration,

    /// How long it takes to make it anew
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "200ms")]
    rebuild: Duration,

    /// Only this one
    #[arg(long, value_name = "LOCK")]
    lock: Option<Keeper>,

    /// Print JSON: an array of {lock, expiries, rebuilds, rebuilds_per_expiry, most, …}
    #[arg(long)]
    json: bool,
}

/// Runs the demo and prints what came of it; ends with 1 if tenure made an entry more than once.
pub(crate) async fn cache(store: &Store, args: CacheArgs) -> Result<ExitCode> {
    let keepers = match args.lock {
        Some(keeper) => vec![keeper],
        None => vec![Keeper::None, Keeper::Process, Keeper::Tenure, Keeper::Stale],
    };
    let progress = progress(&keepers);
    let mut reports = Vec::new();
    for keeper in keepers {
        progress.set_message(format!("lock: {}", keeper.name()));
        reports.push(run(store, &args, keeper).await?);
        progress.inc(1);
    }
    progress.finish_and_clear();
    match args.json {
        true => print_json(&reports)?,
        false => report::print(&reports, args.copies * args.callers)?,
    }
    match reports.iter().all(Report::is_as_promised) {
        true => Ok(exit_code::DONE),
        false => Ok(ExitCode::from(exit_code::BROKEN)),
    }
}

async fn run(store: &Store, args: &CacheArgs, keeper: Keeper) -> Result<Report> {
    let folder = tempfile::tempdir()?;
    let url = match store.is_named() {
        true => store.url().to_owned(),
        false => format!("local:{}", folder.path().join("locks").display()),
    };
    // Told here rather than by each copy.
    Store::of(&url).open().await?;
    let cache = Cache::new(folder.path(), args.fresh);
    // The first entry is there from the start: only what expires is made anew.
    cache.rebuild(0, None, Duration::ZERO).await?;
    let mut copies = Vec::new();
    for copy in 1..=args.copies {
        let settings = Settings {
            folder: folder.path().to_owned(),
            keeper,
            copy,
            callers: args.callers,
            fresh: args.fresh,
            rebuild: args.rebuild,
            expiries: args.expiries,
        };
        copies.push(start(&url, &settings)?);
    }
    let mut calls = Calls::default();
    for copy in copies {
        let each = tokio::task::spawn_blocking(|| calls_of(copy)).await;
        let each = each.map_err(std::io::Error::from)??;
        calls.hits += each.hits;
        calls.stale += each.stale;
        calls.misses_us.extend(each.misses_us);
    }
    let mut rebuilds = cache.rebuilds()?;
    rebuilds.retain(|rebuild| (1..=args.expiries).contains(&rebuild.expired));
    Ok(Report::new(keeper, args.expiries, &rebuilds, calls))
}

/// Starts a copy.
fn start(url: &str, settings: &Settings) -> Result<Child> {
    let mut command = Command::new(tenure_cli::program::own_program()?);
    command.arg("demo-cache-copy").env(store::VARIABLE, url);
    let mut copy = Child::start("a copy of the service", &mut command)?;
    copy.tell(settings)?;
    Ok(copy)
}

/// Waits for what the callers of a copy met.
fn calls_of(mut copy: Child) -> Result<Calls> {
    let calls: Calls = copy.said().next().ok_or_else(|| copy.ended_early())??;
    match calls.failed {
        Some(sentence) => Err(Failure::new(exit_code::UNAVAILABLE, sentence)),
        None => Ok(calls),
    }
}

/// A bar on stderr, if that is a terminal.
fn progress(keepers: &[Keeper]) -> ProgressBar {
    let bar = ProgressBar::new(keepers.len() as u64);
    if !bar.is_hidden() {
        bar.enable_steady_tick(TICK);
    }
    bar
}

const TICK: Duration = Duration::from_millis(200);

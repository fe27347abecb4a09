//! `demo cache`: a hot entry expires, and one caller rebuilds it instead of hundreds.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use tenure_testkit::Child;

use crate::process::{self, OrFail, failure};
use crate::terminal::{flag_name, progress_bar};
use tenure_cli::output::print_json;
use tenure_cli::{Failure, Result, Store, duration, exit_code};

mod copy;
mod entry;
mod report;

pub(crate) use copy::play;

use copy::{Calls, Settings, Strategy};
use entry::Cache;
use report::Report;

/// Rebuild a cache entry once instead of hundreds of times
///
/// Several copies of a service, each in its own process with many callers, read one hot cache entry. When it expires, every
/// caller that notices rebuilds it, which is slow. Without a lock all callers do so at once; with a lock inside each copy, one
/// per copy does; with tenure's `once`, a single one does while the others wait for it, or use the stale entry meanwhile (stale).
///
/// Runs all of them in turn and compares them, or only the one of --lock. The entry is a file in a temporary directory; so is
/// the store of the lock, unless --store names another.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[command(after_long_help = "\
Examples:
  tenure demo cache
  tenure demo cache --copies 8 --callers 100 --rebuild 1s
  tenure demo cache --lock tenure --store redis://127.0.0.1/
  tenure demo cache --json | jq '.[] | {lock, rebuilds_per_expiry}'")]
pub(crate) struct CacheArgs {
    /// Copies of the service
    #[arg(long, value_name = "NUMBER", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    copies: u32,

    /// Callers in each copy
    #[arg(long, value_name = "NUMBER", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    callers: u32,

    /// How many times the entry expires
    #[arg(long, value_name = "NUMBER", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    expiries: u64,

    /// How long an entry is fresh
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "500ms")]
    fresh: Duration,

    /// How long a rebuild takes
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "200ms")]
    rebuild: Duration,

    /// Run only this one
    #[arg(long, value_name = "LOCK")]
    lock: Option<Strategy>,

    /// Print JSON: an array of {lock, expiries, rebuilds, rebuilds_per_expiry, most, …}
    #[arg(long)]
    json: bool,
}

/// Runs the demo and prints the results; exits with 1 if tenure rebuilt an entry more than once.
pub(crate) async fn cache(store: &Store, args: CacheArgs) -> Result<ExitCode> {
    let strategies = match args.lock {
        Some(strategy) => vec![strategy],
        None => Strategy::value_variants().to_vec(),
    };
    let progress = progress_bar(strategies.len() as u64, "locks");
    let mut reports = Vec::new();
    for strategy in strategies {
        progress.set_message(format!("lock: {}", flag_name(&strategy)));
        reports.push(run(store, &args, strategy).await?);
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

async fn run(store: &Store, args: &CacheArgs, strategy: Strategy) -> Result<Report> {
    let folder = tempfile::tempdir()?;
    let url = match store.is_named() {
        true => store.url().to_owned(),
        false => format!("local:{}", folder.path().join("locks").display()),
    };
    // Fails here rather than in each copy.
    Store::of(&url).open().await?;
    let cache = Cache::new(folder.path(), args.fresh);
    // The first entry exists from the start: only rebuilds after an expiry count.
    cache.rebuild(0, None, Duration::ZERO).await?;
    let mut copies = Vec::new();
    for copy in 1..=args.copies {
        let settings = Settings {
            folder: folder.path().to_owned(),
            strategy,
            copy,
            args: args.clone(),
        };
        let mut copy = process::start("a copy of the service", "demo-cache-copy", Some(&url))?;
        copy.send(&settings).or_fail()?;
        copies.push(copy);
    }
    let mut calls = Calls::default();
    for copy in copies {
        let each = tokio::task::spawn_blocking(|| calls_of(copy)).await;
        calls.add(each.map_err(std::io::Error::from)??);
    }
    let mut rebuilds = cache.rebuilds()?;
    rebuilds.retain(|rebuild| (1..=args.expiries).contains(&rebuild.expired));
    Ok(Report::new(strategy, args.expiries, &rebuilds, calls))
}

/// Waits for the calls of a copy.
fn calls_of(mut copy: Child) -> Result<Calls> {
    let calls = copy.messages().next();
    let calls: Calls = calls
        .ok_or_else(|| failure(copy.failed("it ended early")))?
        .or_fail()?;
    match calls.failed {
        Some(sentence) => Err(Failure::unavailable(sentence)),
        None => Ok(calls),
    }
}

//! `lab`: locks as people write them, the fault that breaks each, and tenure in the same play.
//!
//! Each case (`cases`) starts servers and client processes, which are this program again (`client`), and tells
//! them step by step what to do (`scene`), so that the fault lands for certain in the middle. What happened is judged by the
//! checker (`run`): the broken lock must be flagged, for the right reason; tenure must not.

use std::process::ExitCode;

use clap::Args;

use tenure_cli::error::Result;
use tenure_cli::exit_code;
use tenure_cli::output::print_json;

mod case;
mod cases;
mod client;
mod clock;
mod player;
mod props;
mod register;
mod report;
mod run;
mod scene;
mod upset;
mod wire;

pub(crate) use client::play;

/// Break locks on purpose, and see which promise was broken
///
/// Each case is a lock as people write it, with one mistake, and the fault that brings it out: a
/// killed or paused holder, a lost reply, a failover. The lab plays it with real processes and real
/// Redis servers, which it starts on free ports and stops again, and lets a checker judge what
/// happened: valid, broken (which promise, and the few events that prove it), or unknown (the fault
/// did not land, which proves nothing). Then tenure plays the same part.
///
/// With a CASE the whole story of the mistake is told. Ends with 0 if every broken lock was flagged
/// for the right reason and tenure was valid each time, otherwise with 1. Needs redis-server; --store
/// is not used.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  tenure lab --list
  tenure lab
  tenure lab 5
  tenure lab del get-del
  tenure lab --json | jq '.cases[] | {name, breaks, as_expected}'

Promises:
  exclusion       two never believe at once that they hold the lock
  no-lost-update  each write had read what the write before it made
  growing-fences  the numbers of grants grow
  owner-only      nobody but its owner frees a lock
  liveness        after the fault everybody who waits gets on
The checker knows more of them (fenced-writes, nothing-left, honest-errors); they are judged as well.")]
pub(crate) struct LabArgs {
    /// Only these cases, by number or name
    #[arg(value_name = "CASE")]
    cases: Vec<String>,

    /// List the cases, and play none
    #[arg(long)]
    list: bool,

    /// Print JSON: an object {cases, as_expected}
    #[arg(long)]
    json: bool,
}

/// Plays cases and prints what came of them.
pub(crate) fn lab(args: &LabArgs) -> Result<ExitCode> {
    let cases = case::chosen(&args.cases)?;
    if args.list {
        report::list(&cases, args.json)?;
        return Ok(exit_code::DONE);
    }
    let told = match args.cases.is_empty() {
        true => report::Told::InShort,
        false => report::Told::InFull,
    };
    let mut results = Vec::with_capacity(cases.len());
    run::all(&cases, |result| {
        if !args.json {
            report::print(&result, told)?;
        }
        results.push(result);
        Ok(())
    })?;
    match args.json {
        true => print_json(&report::Json::new(&results))?,
        false => report::print_summary(&results)?,
    }
    match results.iter().all(run::Played::is_as_expected) {
        true => Ok(exit_code::DONE),
        false => Ok(ExitCode::from(exit_code::BROKEN)),
    }
}

/// What is locked, and what is written to.
const NAME: &str = "stock";

/// The point between a holder's last look at its lock and its write.
const BEFORE_WRITE: &str = "before-write";

/// Who a client is in the history: nested calls of one process are one owner.
fn owner_of(process: u32) -> String {
    format!("client-{process}")
}

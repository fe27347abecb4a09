//! `lab`: locks as people write them, the fault that breaks each of them, and tenure in the same
//! experiment.
//!
//! Each case (`cases`) starts servers and client processes, which are this program again
//! (`client`), and tells them step by step what to do (`experiment`), so that the fault reliably
//! happens in the middle. The checker judges what happened (`run`): it must flag the broken lock,
//! for the right reason, and must not flag tenure.

use std::process::ExitCode;

use clap::Args;

use tenure_cli::output::print_json;
use tenure_cli::{Result, exit_code};

mod case;
mod cases;
mod client;
mod error;
mod experiment;
mod messages;
mod prelude;
mod report;
mod run;

pub(crate) use cases::recipe;
pub(crate) use client::run as run_client;

/// Break locks on purpose, and see which promise was broken
///
/// Each case is a lock as people write it, with one mistake, and the fault that reveals it: a
/// killed or paused holder, a lost reply, a failover. The lab runs it with real processes and real
/// Redis servers, which it starts on free ports and stops again. A checker judges what happened:
/// valid, broken (which promise, and the few events that prove it), or inconclusive (the fault did
/// not land, which proves nothing). Then tenure goes through the same experiment.
///
/// With a CASE the lab explains the mistake in full. Exits with 0 if every broken lock was flagged
/// for the right reason and tenure was valid each time, otherwise with 1. Needs redis-server; ignores
/// --store.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  tenure lab --list
  tenure lab
  tenure lab 5
  tenure lab del get-del
  tenure lab --json | jq '.cases[] | {name, breaks, as_expected}'

Promises:
  exclusion       two clients never believe at once that they hold the lock
  no-lost-update  each write is based on the write before it
  growing-fences  the fence grows with every grant
  owner-only      only its owner frees a lock
  liveness        after the fault every waiter is granted the lock
The checker also judges fenced-writes, nothing-left and honest-errors.")]
pub(crate) struct LabArgs {
    /// Only these cases, by number or name
    #[arg(value_name = "CASE")]
    cases: Vec<String>,

    /// List the cases without running them
    #[arg(long)]
    list: bool,

    /// Print JSON: an object {cases, as_expected}
    #[arg(long)]
    json: bool,
}

/// Runs cases and prints the results.
pub(crate) fn lab(args: &LabArgs) -> Result<ExitCode> {
    let cases = case::chosen(&args.cases)?;
    if args.list {
        report::list(&cases, args.json)?;
        return Ok(exit_code::DONE);
    }
    let detail = match args.cases.is_empty() {
        true => report::Detail::Short,
        false => report::Detail::Full,
    };
    let mut results = Vec::with_capacity(cases.len());
    run::all(&cases, |result| {
        if !args.json {
            report::print(&result, detail)?;
        }
        results.push(result);
        Ok(())
    })?;
    let as_expected = results.iter().all(|outcome| outcome.as_expected);
    let cases = &results;
    match args.json {
        true => print_json(&report::Json { cases, as_expected })?,
        false => report::print_summary(&results)?,
    }
    match as_expected {
        true => Ok(exit_code::DONE),
        false => Ok(ExitCode::from(exit_code::BROKEN)),
    }
}

/// The name of the lock and of the resource.
const NAME: &str = "stock";

/// The breakpoint between a holder's last check of its lock and its write.
const BEFORE_WRITE: &str = "before-write";

/// Returns the owner of a client in the history: nested calls of one process have one owner.
fn owner_of(process: u32) -> String {
    format!("client-{process}")
}

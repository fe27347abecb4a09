//! The flash sale: many buyers, few pieces, and several copies of one web service.
//!
//! A run has a `setup`, in which each lock in turn holds a `sale`. The sale starts the copies of
//! the `service` (this program again, each a `process`), a load `balancer` and the `buyers`,
//! injects the requested `faults`, and ends with a `record`. The `stock` keeps its own counts, so
//! that the record does not depend on which processes survived.

use std::process::ExitCode;
use std::time::Duration;

use tokio::sync::mpsc::{self, UnboundedReceiver};

use crate::terminal::progress_bar;
use tenure_cli::output::print_json;
use tenure_cli::signals::Signals;
use tenure_cli::{Failure, Result, Store, exit_code};

mod args;
mod balancer;
mod buyers;
mod faults;
mod live;
mod lock_kind;
mod messages;
mod origin;
mod page;
mod process;
mod record;
mod sale;
mod service;
mod setup;
mod stock;
mod table;
mod verdict;
mod view;
mod wording;

pub(crate) use args::FlashSaleArgs;
pub(crate) use service::copy;

use live::{Command, Live};
use lock_kind::LockKind;
use record::Record;
use setup::Setup;

/// Holds the requested sales, and prints their results.
pub(crate) async fn flash_sale(store: &Store, args: FlashSaleArgs) -> Result<ExitCode> {
    args.check()?;
    let mut signals = Signals::listen()?;
    // Everything that was started ends with the sale, however that ends.
    let sales = signals.unless(sales(store, args)).await;
    sales.unwrap_or_else(|signal| Err(Failure::silent(exit_code::of_signal(signal))))
}

async fn sales(store: &Store, args: FlashSaleArgs) -> Result<ExitCode> {
    if let Some(file) = &args.report {
        view::check_writable(file)?;
    }
    let setup = Setup::open(store, args).await?;
    let locks = setup.locks();
    if setup.args.page {
        return page::serve(&setup, &locks).await;
    }
    let live = Live::new();
    let (_sender, mut commands) = mpsc::unbounded_channel();
    let mut records = Vec::new();
    for lock in locks {
        records.push(one(&setup, lock, &live, &mut commands).await?);
    }
    let args = setup.finish();
    if let Some(file) = &args.report {
        view::write_report(file, &records)?;
    }
    match args.json {
        true => print_json(&records)?,
        false => {
            table::print(&records)?;
            table::print_next(&args)?;
        }
    }
    match broken(&records) {
        None => Ok(exit_code::DONE),
        Some(sentence) => Err(Failure::new(exit_code::BROKEN, sentence)),
    }
}

/// Holds one sale, with a progress bar.
async fn one(
    setup: &Setup,
    lock: LockKind,
    live: &Live,
    commands: &mut UnboundedReceiver<Command>,
) -> Result<Record> {
    let bar = progress_bar(setup.args.buyers(), "answers");
    let watched = async {
        loop {
            tokio::time::sleep(TICK).await;
            let ((_, answered), (left, sold)) = (live.progress(), live.stock());
            bar.set_position(answered);
            bar.set_message(format!("{}: {sold} sold, {left} left", lock.name()));
        }
    };
    let finished = tokio::select! {
        finished = sale::hold(setup, lock, live, commands) => finished?,
        () = watched => unreachable!("the loop has no end"),
    };
    bar.finish_and_clear();
    Ok(finished.record)
}

/// Lists the promises that tenure has broken, in one sentence.
fn broken(records: &[Record]) -> Option<String> {
    let broken: Vec<_> = records
        .iter()
        .flat_map(|record| record.broken.clone())
        .collect();
    (!broken.is_empty()).then(|| format!("the sale failed: {}", broken.join("; ")))
}

const TICK: Duration = Duration::from_millis(100);

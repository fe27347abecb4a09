//! The flash sale: many buyers, few pieces, and several copies of one web service.
//!
//! A run is a `stage` on which each lock in turn holds a `sale`: it starts the copies (`crew`, which are
//! this program again, `copy`), a `front`, and the `buyers`, makes the `fault`s that were asked for, and
//! ends in a `record`. The `stock` counts by itself, so that the record does not depend on who lived to tell.

use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use tenure_cli::error::{Failure, Result};
use tenure_cli::exit_code;
use tenure_cli::output::print_json;
use tenure_cli::signals::Signals;
use tenure_cli::store::Store;

mod args;
mod buyers;
mod copy;
mod crew;
mod door;
mod fault;
mod front;
pub(crate) mod live;
mod lock;
mod look;
mod page;
pub(crate) mod record;
mod report;
mod sale;
mod show;
mod stage;
mod stock;
mod table;
mod verdict;
mod wire;

pub(crate) use args::FlashSaleArgs;
pub(crate) use copy::copy;

use live::{Control, Live, Orders};
use lock::LockKind;
use record::Record;
use stage::Stage;

/// Holds the sales that were asked for, and prints what came of them.
pub(crate) async fn flash_sale(store: &Store, args: FlashSaleArgs) -> Result<ExitCode> {
    args.check()?;
    let mut signals = Signals::listen()?;
    // All that was started ends with the sale, however that ends.
    let sales = signals.unless(sales(store, args)).await;
    sales.unwrap_or_else(|signal| Err(Failure::silent(exit_code::of_signal(signal))))
}

async fn sales(store: &Store, args: FlashSaleArgs) -> Result<ExitCode> {
    let locks = match args.all {
        true => LockKind::all(),
        false => vec![args.lock],
    };
    let (json, look) = (args.json, args.look.clone());
    if let Some(file) = &look.report {
        report::check(file)?;
    }
    let stage = Stage::open(store, args, &locks).await?;
    if look.page {
        return page::serve(&stage, &look, &locks).await;
    }
    let live = Live::new();
    let (_control, mut orders) = Control::new();
    let mut records = Vec::new();
    for lock in locks {
        records.push((lock, one(&stage, lock, &live, &mut orders).await?));
    }
    drop(stage);
    if let Some(file) = &look.report {
        report::write(file, &records)?;
    }
    match json {
        true => print_json(&records.iter().map(|(_, record)| record).collect::<Vec<_>>())?,
        false => table::print(&records)?,
    }
    match broken(&records) {
        None => Ok(exit_code::DONE),
        Some(sentence) => Err(Failure::new(exit_code::BROKEN, sentence)),
    }
}

/// Holds one sale, with a bar that shows how far it is.
async fn one(stage: &Stage, lock: LockKind, live: &Live, orders: &mut Orders) -> Result<Record> {
    let bar = progress(stage.args.buyers());
    let watched = async {
        loop {
            tokio::time::sleep(TICK).await;
            let ((_, answered), (left, sold)) = (live.progress(), live.stock());
            bar.set_position(answered);
            bar.set_message(format!("{}: {sold} sold, {left} left", lock.name()));
        }
    };
    let held = tokio::select! {
        held = sale::hold(stage, lock, live, orders) => held?,
        () = watched => unreachable!("the loop has no end"),
    };
    bar.finish_and_clear();
    Ok(held.record)
}

/// What tenure did not keep, in one sentence.
fn broken(records: &[(LockKind, Record)]) -> Option<String> {
    let broken: Vec<_> = records
        .iter()
        .flat_map(|(_, record)| &record.broken)
        .collect();
    if broken.is_empty() {
        return None;
    }
    let list = broken.iter().map(|sentence| sentence.as_str());
    let list = list.collect::<Vec<_>>().join("; ");
    Some(format!("the sale failed: {list}"))
}

/// A bar on stderr, if that is a terminal.
fn progress(buyers: u64) -> ProgressBar {
    let bar = ProgressBar::new(buyers);
    let style = ProgressStyle::with_template("{elapsed_precise} {bar:30} {pos}/{len} {msg}");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar
}

const TICK: Duration = Duration::from_millis(100);

//! The table at the end: a row for each lock, and a line for each fault.

use std::io::Write;

use super::args::FlashSaleArgs;
use super::lock_kind::LockKind;
use super::record::Record;
use super::wording;
use crate::demo::summary::{table, time};
use tenure_cli::Result;
use tenure_cli::output::{self, HEADING};

/// Prints the result of each lock.
pub(super) fn print(records: &[Record]) -> Result<()> {
    let mut out = output::stdout();
    if let Some(first) = records.first() {
        writeln!(out, "{}", wording::setting(first))?;
    }
    let rows = records.iter().map(row).collect();
    writeln!(out, "{}", table(&HEADINGS, rows))?;
    for record in records {
        for fault in &record.faults {
            writeln!(out, "{}: {}", record.lock, wording::fault(fault))?;
        }
        if record.stuck {
            let lock = &record.lock;
            writeln!(
                out,
                "{lock}: no more buyers were answered, so the sale was ended"
            )?;
        }
    }
    for lock in records
        .iter()
        .filter_map(|record| LockKind::named(&record.lock))
    {
        writeln!(out, "{HEADING}{}{HEADING:#}: {}", lock.name(), lock.shows())?;
    }
    Ok(())
}

/// Prints what to try next.
pub(super) fn print_next(args: &FlashSaleArgs) -> Result<()> {
    let next = match () {
        () if args.all => "--page   # live in the browser: freeze and kill copies by hand",
        () if args.lock != LockKind::Tenure => "--all --report sale.html   # every lock, as charts",
        () if args.faults().is_empty() => "--pause --kill   # a frozen copy, and a killed one",
        () => "--lock none   # the same sale without a lock",
    };
    writeln!(output::stdout(), "try next: tenure demo flash-sale {next}")?;
    Ok(())
}

fn row(record: &Record) -> Vec<String> {
    let totals = &record.totals;
    let counts = [
        totals.requests,
        totals.sold,
        totals.left,
        totals.oversold,
        totals.lost_updates,
        totals.refused_stale_writes,
        totals.errors,
    ];
    let mut row = vec![record.lock.clone()];
    row.extend(counts.map(|count| count.to_string()));
    row.push(format!("{:.0}", totals.sales_per_second));
    row.extend([totals.wait_p50_us, totals.wait_p99_us].map(time));
    row
}

const HEADINGS: [&str; 11] = [
    "LOCK",
    "REQUESTS",
    "SOLD",
    "LEFT",
    "OVERSOLD",
    "LOST UPDATES",
    "REFUSED STALE WRITES",
    "ERRORS",
    "SALES/S",
    "WAIT P50",
    "P99",
];

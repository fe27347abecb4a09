//! The table at the end: a row for each lock, and a line for each fault.

use std::io::Write;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table};

use super::lock::LockKind;
use super::record::{FaultKind, FaultSeen, Outcome, Record};
use tenure_cli::error::Result;
use tenure_cli::output::{self, terminal_width};

/// Prints what came of each lock.
pub(super) fn print(records: &[(LockKind, Record)]) -> Result<()> {
    let mut out = output::stdout();
    if let Some((_, first)) = records.first() {
        writeln!(out, "{}", setting(first))?;
    }
    for (number, line) in table(records).lines().enumerate() {
        match number {
            1 => writeln!(out, "{HEADING}{line}{HEADING:#}")?,
            _ => writeln!(out, "{line}")?,
        }
    }
    for (_, record) in records {
        for fault in &record.faults {
            writeln!(out, "{}: {}", record.lock, told(fault))?;
        }
        if record.stuck {
            writeln!(
                out,
                "{}: nobody was answered any more, the sale was ended",
                record.lock
            )?;
        }
    }
    for (lock, _) in records {
        writeln!(out, "{HEADING}{}{HEADING:#}: {}", lock.name(), lock.shows())?;
    }
    Ok(())
}

fn setting(record: &Record) -> String {
    format!(
        "{} pieces, {} buyers, {} at once, {} {} behind {}, {}",
        record.stock,
        record.buyers,
        record.at_once,
        record.copies,
        if record.copies == 1 { "copy" } else { "copies" },
        match record.front.as_str() {
            "nginx" => "nginx",
            _ => "our own front",
        },
        record.store
    )
}

fn table(records: &[(LockKind, Record)]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    if let Some(width) = terminal_width() {
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(width);
    }
    table.set_header(HEADINGS);
    for (_, record) in records {
        table.add_row(row(record));
    }
    table
}

fn row(record: &Record) -> Vec<Cell> {
    let totals = &record.totals;
    let numbers = [
        totals.requests.to_string(),
        totals.sold.to_string(),
        totals.left.to_string(),
        totals.oversold.to_string(),
        totals.lost_updates.to_string(),
        totals.refused_stale_writes.to_string(),
        totals.errors.to_string(),
        format!("{:.0}", totals.sales_per_second),
        time(totals.wait_p50_us),
        time(totals.wait_p99_us),
    ];
    let number = |text| Cell::new(text).set_alignment(CellAlignment::Right);
    let numbers = numbers.into_iter().map(number);
    std::iter::once(Cell::new(&record.lock))
        .chain(numbers)
        .collect()
}

/// A fault in words.
pub(super) fn told(fault: &FaultSeen) -> String {
    let seconds = |us: u64| us as f64 / 1e6;
    let (copy, from, to) = (fault.copy, seconds(fault.from_us), seconds(fault.to_us));
    let became = match fault.outcome {
        Outcome::Sold => "write was accepted",
        Outcome::SoldOut => "sale found nothing left",
        Outcome::Stale => "write was refused",
        Outcome::Error => "sale failed",
    };
    match fault.kind {
        FaultKind::Slow => {
            format!("a sale of copy {copy} took from second {from:.2} to {to:.2}, its {became}")
        }
        FaultKind::Pause => {
            let meanwhile = match fault.taken_over {
                Some(taken) => format!(
                    "; copy {} took over its lock at second {:.2}, {} sold meanwhile",
                    taken.copy,
                    seconds(taken.at_us),
                    taken.sold,
                ),
                None if fault.fence.is_some() => "; no other copy took over its lock".to_owned(),
                // Without fences nobody knows under whose lock a piece was sold.
                None => String::new(),
            };
            format!(
                "copy {copy} was frozen from second {from:.2} to {to:.2}{meanwhile}; then its late {became}"
            )
        }
        FaultKind::Kill => {
            format!("copy {copy} was killed at second {from:.2}, another process took its place")
        }
    }
}

/// Microseconds as people read them.
fn time(us: u64) -> String {
    match us {
        0..10_000 => format!("{us} µs"),
        10_000..10_000_000 => format!("{} ms", us / 1000),
        _ => format!("{} s", us / 1_000_000),
    }
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

const HEADING: anstyle::Style = anstyle::Style::new().bold();

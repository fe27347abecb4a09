//! What came of each lock: a table for people, and JSON for scripts.

use std::collections::BTreeMap;
use std::io::Write;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use crate::demo::cache::copy::{Calls, Keeper};
use crate::demo::cache::entry::Rebuild;
use tenure_cli::error::Result;
use tenure_cli::output;

/// What came of one lock.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    lock: Keeper,
    expiries: u64,
    rebuilds: usize,
    rebuilds_per_expiry: f64,
    /// How often the entry was made anew after the worst expiry.
    most: usize,
    /// Calls that found a fresh entry.
    hits: u64,
    /// Calls that found it expired.
    misses: usize,
    /// Those that were answered with the old entry.
    stale: u64,
    /// How long those calls took that found it expired.
    miss_p50_us: u64,
    miss_p99_us: u64,
}

impl Report {
    pub(super) fn new(lock: Keeper, expiries: u64, rebuilds: &[Rebuild], mut calls: Calls) -> Self {
        let mut each = BTreeMap::new();
        for rebuild in rebuilds {
            *each.entry(rebuild.expired).or_insert(0) += 1;
        }
        calls.misses_us.sort_unstable();
        Self {
            lock,
            expiries,
            rebuilds: rebuilds.len(),
            rebuilds_per_expiry: rebuilds.len() as f64 / expiries as f64,
            most: each.into_values().max().unwrap_or(0),
            hits: calls.hits,
            misses: calls.misses_us.len(),
            stale: calls.stale,
            miss_p50_us: percentile(&calls.misses_us, 50),
            miss_p99_us: percentile(&calls.misses_us, 99),
        }
    }

    /// Returns whether tenure made each entry once; nothing is promised of the others.
    pub(super) fn is_as_promised(&self) -> bool {
        let promises = matches!(self.lock, Keeper::Tenure | Keeper::Stale);
        !promises || (self.most == 1 && self.rebuilds as u64 == self.expiries)
    }
}

/// The value that so many percent are not above, of values in order.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(at).copied().unwrap_or(0)
}

/// Prints the locks side by side.
pub(super) fn print(reports: &[Report], callers: u32) -> Result<()> {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header([
        "LOCK",
        "EXPIRED",
        "REBUILT",
        "PER EXPIRY",
        "WORST",
        "HITS",
        "MISSES",
        "STALE",
        "MISS P50",
        "MISS P99",
    ]);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for report in reports {
        table.add_row([
            report.lock.name().to_owned(),
            report.expiries.to_string(),
            report.rebuilds.to_string(),
            format!("{:.1}", report.rebuilds_per_expiry),
            report.most.to_string(),
            report.hits.to_string(),
            report.misses.to_string(),
            report.stale.to_string(),
            millis(report.miss_p50_us),
            millis(report.miss_p99_us),
        ]);
    }
    let mut out = output::stdout();
    writeln!(out, "{table}")?;
    writeln!(
        out,
        "{callers} callers; a miss found the entry expired and was answered with a new one, or with the old one (stale)"
    )?;
    for report in reports.iter().filter(|report| !report.is_as_promised()) {
        let (name, rebuilds) = (report.lock.name(), report.rebuilds);
        let expiries = report.expiries;
        writeln!(
            out,
            "BROKEN: {name} rebuilt {rebuilds} times for {expiries} expiries"
        )?;
    }
    Ok(())
}

fn millis(us: u64) -> String {
    format!("{:.1} ms", us as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(lock: Keeper, expired: &[u64]) -> Report {
        let rebuild = |expired: &u64| Rebuild {
            expired: *expired,
            copy: 1,
        };
        let rebuilds: Vec<_> = expired.iter().map(rebuild).collect();
        Report::new(lock, 2, &rebuilds, Calls::default())
    }

    #[test]
    fn tenure_promises_one_rebuild_for_each_expiry() {
        assert!(report(Keeper::Tenure, &[1, 2]).is_as_promised());
        assert!(!report(Keeper::Tenure, &[1, 1]).is_as_promised());
        assert!(!report(Keeper::Stale, &[1, 2, 2]).is_as_promised());
        assert!(!report(Keeper::Tenure, &[1]).is_as_promised());
        let none = report(Keeper::None, &[1, 1, 1, 2]);
        assert!(none.is_as_promised(), "nothing is promised");
        assert_eq!((none.most, none.rebuilds), (3, 4));
    }

    #[test]
    fn percentiles_are_values() {
        let values: Vec<_> = (1..=200).collect();
        assert_eq!(percentile(&values, 50), 100);
        assert_eq!(percentile(&values, 99), 198);
        assert_eq!(percentile(&[7], 99), 7);
        assert_eq!(percentile(&[], 50), 0);
    }
}

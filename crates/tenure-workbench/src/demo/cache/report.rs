//! The results of the locks: a table for people, and JSON for scripts.

use std::collections::BTreeMap;
use std::io::Write;

use serde::Serialize;

use crate::demo::cache::copy::{Calls, Strategy};
use crate::demo::cache::entry::Rebuild;
use crate::demo::summary::{quantile, table, time};
use crate::terminal::flag_name;
use tenure_cli::{Result, output};

/// The result of one lock.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    lock: Strategy,
    expiries: u64,
    rebuilds: usize,
    rebuilds_per_expiry: f64,
    /// The most rebuilds after one expiry.
    most: usize,
    /// Calls that found a fresh entry.
    hits: u64,
    /// Calls that found it expired.
    misses: usize,
    /// Those of them that were answered with the stale entry.
    stale: u64,
    /// How long the calls took that found it expired.
    miss_p50_us: u64,
    miss_p99_us: u64,
}

impl Report {
    pub(super) fn new(
        lock: Strategy,
        expiries: u64,
        rebuilds: &[Rebuild],
        mut calls: Calls,
    ) -> Self {
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
            miss_p50_us: quantile(&calls.misses_us, 0.50),
            miss_p99_us: quantile(&calls.misses_us, 0.99),
        }
    }

    /// Returns whether tenure rebuilt each entry only once; the other strategies promise nothing.
    pub(super) fn is_as_promised(&self) -> bool {
        let promises = matches!(self.lock, Strategy::Tenure | Strategy::Stale);
        !promises || (self.most == 1 && self.rebuilds as u64 == self.expiries)
    }
}

/// Prints the locks side by side, and what to try next.
pub(super) fn print(reports: &[Report], callers: u32) -> Result<()> {
    let mut out = output::stdout();
    let rows = reports.iter().map(row).collect();
    writeln!(out, "{}", table(&HEADINGS, rows))?;
    writeln!(
        out,
        "{callers} callers; a miss found the entry expired, and got a new one or the stale one"
    )?;
    for report in reports.iter().filter(|report| !report.is_as_promised()) {
        let (name, rebuilds) = (flag_name(&report.lock), report.rebuilds);
        let expiries = report.expiries;
        writeln!(
            out,
            "BROKEN: {name} rebuilt {rebuilds} times for {expiries} expiries"
        )?;
    }
    let next = match reports {
        [_] => "   # all locks side by side",
        _ => " --copies 8 --callers 100 --rebuild 1s   # a larger service, a slower rebuild",
    };
    writeln!(out, "try next: tenure demo cache{next}")?;
    Ok(())
}

fn row(report: &Report) -> Vec<String> {
    vec![
        flag_name(&report.lock),
        report.expiries.to_string(),
        report.rebuilds.to_string(),
        format!("{:.1}", report.rebuilds_per_expiry),
        report.most.to_string(),
        report.hits.to_string(),
        report.misses.to_string(),
        report.stale.to_string(),
        time(report.miss_p50_us),
        time(report.miss_p99_us),
    ]
}

const HEADINGS: [&str; 10] = [
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
];

#[cfg(test)]
mod tests {
    use super::*;

    fn report(lock: Strategy, expired: &[u64]) -> Report {
        let rebuild = |expired: &u64| Rebuild {
            expired: *expired,
            copy: 1,
        };
        let rebuilds: Vec<_> = expired.iter().map(rebuild).collect();
        Report::new(lock, 2, &rebuilds, Calls::default())
    }

    #[test]
    fn tenure_promises_one_rebuild_for_each_expiry() {
        assert!(report(Strategy::Tenure, &[1, 2]).is_as_promised());
        assert!(!report(Strategy::Tenure, &[1, 1]).is_as_promised());
        assert!(!report(Strategy::Stale, &[1, 2, 2]).is_as_promised());
        assert!(!report(Strategy::Tenure, &[1]).is_as_promised());
        let none = report(Strategy::None, &[1, 1, 1, 2]);
        assert!(none.is_as_promised(), "nothing is promised");
        assert_eq!((none.most, none.rebuilds), (3, 4));
    }
}

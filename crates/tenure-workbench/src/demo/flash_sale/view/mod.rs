//! What the report and the live page show of a sale, and the files that the browser loads.

use std::path::Path;

use serde::Serialize;

use super::lock_kind::LockKind;
use super::record::{FaultSeen, Record, Totals};
use super::wording::{self, sentence};
use tenure_cli::{Failure, Result, exit_code};

mod series;
mod thin;

use series::Charts;

/// A finished or running sale.
#[derive(Debug, Serialize)]
pub(super) struct View {
    lock: String,
    /// What all sales of a run have in common.
    setting: String,
    /// One sentence about the lock, regardless of what happened.
    shows: String,
    /// How the sale ended, in one sentence, and in one or two words.
    verdict: String,
    result: String,
    exact: bool,
    finished: bool,
    stock: u64,
    seconds: f64,
    totals: Totals,
    faults: Vec<FaultSeen>,
    /// The faults and the broken promises, in words.
    events: Vec<String>,
    charts: Charts,
}

impl View {
    pub(super) fn of(record: &Record, finished: bool) -> Self {
        let faults = record.faults.iter().map(wording::fault);
        let broken = record
            .broken
            .iter()
            .map(|broken| format!("broken: {broken}"));
        let result = wording::result(record);
        Self {
            lock: record.lock.clone(),
            setting: sentence(&wording::setting(record)),
            shows: LockKind::named(&record.lock)
                .map_or_else(String::new, |lock| sentence(lock.shows())),
            verdict: wording::verdict(record),
            exact: result.is_none(),
            result: result.unwrap_or_else(|| "exact".to_owned()),
            finished,
            stock: record.stock,
            seconds: record.seconds,
            totals: record.totals,
            faults: record.faults.clone(),
            events: faults.chain(broken).map(|event| sentence(&event)).collect(),
            charts: Charts::of(record),
        }
    }
}

/// Writes the report of these sales into a file.
pub(super) fn write_report(file: &Path, records: &[Record]) -> Result<()> {
    std::fs::write(file, report(records)).map_err(|error| unwritable(file, &error))
}

/// Fails early if the report could not be written at the end.
pub(super) fn check_writable(file: &Path) -> Result<()> {
    let mut options = std::fs::File::options();
    let opened = options.append(true).create(true).open(file);
    opened.map(drop).map_err(|error| unwritable(file, &error))
}

/// Returns the report of these sales as a single, self-contained HTML file.
pub(super) fn report(records: &[Record]) -> String {
    let sales: Vec<_> = records
        .iter()
        .map(|record| View::of(record, true))
        .collect();
    // The data is JSON, and without `<` it cannot end the script element around it.
    let sales = serde_json::to_string(&sales).unwrap_or_default();
    let sales = sales.replace('<', "\\u003c");
    let body = format!(
        r#"<header><div><h1>Flash sale</h1><p class="lead" id="setting"></p></div></header>
<main></main>
<noscript><p>The charts need JavaScript. They need no network.</p></noscript>
<footer>{FOOTER}</footer>
<script id="sales" type="application/json">{sales}</script>
<script>
{PARTS}{CHARTS}{REPORT}</script>"#
    );
    document(&format!("<style>\n{STYLE}</style>"), &body)
}

/// Returns the live page.
pub(super) fn page() -> String {
    document(r#"<link rel="stylesheet" href="style.css">"#, PAGE)
}

/// Returns what both documents have in common: stripes, so that bad results are not marked by
/// colour alone.
fn document(style: &str, body: &str) -> String {
    format!(
        r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Flash sale</title>
<link rel="icon" href="data:,">
{style}
</head>
<body>
<svg class="patterns" width="0" height="0" aria-hidden="true"><defs><pattern id="stripes" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="stripe-ground" width="6" height="6"/><rect class="stripe" width="2" height="6"/></pattern></defs></svg>
{body}
</body>
</html>
"#
    )
}

fn unwritable(file: &Path, error: &std::io::Error) -> Failure {
    let file = file.display();
    let sentence = format!("cannot write the report to {file}: {error}; name another file");
    Failure::new(exit_code::OUTPUT, sentence)
}

const FOOTER: &str = "Made by <code>tenure demo flash-sale --report</code>. Oversold: sold, but never there. Lost update: sold, but the stock still counts it. Stale write: a write of a holder whose lease had expired; its fence was too old.";

pub(super) const STYLE: &str = include_str!("style.css");
pub(super) const PARTS: &str = include_str!("parts.js");
pub(super) const CHARTS: &str = include_str!("charts.js");
pub(super) const LIVE: &str = include_str!("page.js");
const REPORT: &str = include_str!("report.js");
const PAGE: &str = include_str!("page.html");

#[cfg(test)]
pub(super) mod tests;

//! The report: one HTML file that needs nothing else, with the sales in pictures.

use std::fmt::Write;
use std::path::Path;

use super::lock::LockKind;
use super::record::Record;
use tenure_cli::error::{Failure, Result};
use tenure_cli::exit_code;

mod chart;
mod charts;
mod scale;
mod series;
mod thin;
mod words;

use words::{count, escape, number, time, whole};

/// A sale, and what its lock is expected to show.
#[derive(Debug, Clone, Copy)]
struct Shown<'a> {
    record: &'a Record,
    /// One sentence about the lock, whatever happened.
    shows: &'a str,
}

/// Writes the report of these sales into a file.
pub(crate) fn write(file: &Path, records: &[(LockKind, Record)]) -> Result<()> {
    std::fs::write(file, text(records)).map_err(|error| unwritable(file, &error))
}

/// Fails now if the report could not be written at the end.
pub(crate) fn check(file: &Path) -> Result<()> {
    let opened = std::fs::File::options()
        .append(true)
        .create(true)
        .open(file);
    opened.map(drop).map_err(|error| unwritable(file, &error))
}

/// Returns the report of these sales.
pub(crate) fn text(records: &[(LockKind, Record)]) -> String {
    let sales = records.iter().map(|(lock, record)| Shown {
        record,
        shows: lock.shows(),
    });
    page(&sales.collect::<Vec<_>>())
}

/// Returns the whole page.
fn page(sales: &[Shown<'_>]) -> String {
    let side_by_side = match sales.len() {
        0 | 1 => String::new(),
        _ => compared(sales),
    };
    let sections: String = sales.iter().map(section).collect();
    format!(
        r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Flash sale</title>
<link rel="icon" href="data:,">
<style>
{LOOK}{STYLE}</style>
</head>
<body>
{PATTERNS}
<header>
<h1>Flash sale</h1>
{setting}
</header>
<main>
{side_by_side}{sections}</main>
<footer>{FOOTER}</footer>
<script>
{HOVER}</script>
</body>
</html>
"#,
        setting = sales.first().map(setting).unwrap_or_default(),
    )
}

fn unwritable(file: &Path, error: &std::io::Error) -> Failure {
    let file = file.display();
    let sentence = format!("the report cannot be written to {file}: {error}; name another file");
    Failure::new(exit_code::OUTPUT, sentence)
}

/// What was the same for all sales.
fn setting(sale: &Shown<'_>) -> String {
    let record = sale.record;
    let front = match record.front.as_str() {
        "own" => "its own front".to_owned(),
        other => escape(other),
    };
    format!(
        "<p class=\"lead\">{} pieces, {} buyers, {} at once, {} of the service behind {front}; the stock and the lock in <code>{}</code>, a lease of {}.</p>",
        whole(record.stock as f64),
        whole(record.buyers as f64),
        record.at_once,
        count(u64::from(record.copies), "copy", "copies"),
        escape(&record.store),
        time(record.ttl_ms as f64 * 1e3),
    )
}

/// All locks at a glance: a table, and the stock of each.
fn compared(sales: &[Shown<'_>]) -> String {
    let rows: String = sales.iter().map(row).collect();
    let heads: String = HEADINGS
        .iter()
        .map(|head| format!("<th scope=\"col\">{head}</th>"))
        .collect();
    let cards: String = sales.iter().map(card).collect();
    format!(
        "<section aria-label=\"All locks\">\n<h2>Side by side</h2>\n<div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n<div class=\"cards\">\n{cards}</div>\n</section>\n"
    )
}

fn row(sale: &Shown<'_>) -> String {
    let (record, totals) = (sale.record, &sale.record.totals);
    let lock = escape(&record.lock);
    let mut row = format!(
        "<tr><th scope=\"row\"><a href=\"#{lock}\">{lock}</a></th><td class=\"text\">{}</td>",
        chip(record)
    );
    let bad = |many: u64| (whole(many as f64), if many > 0 { "bad" } else { "" });
    let plain = |many: f64| (whole(many), "");
    let cells = [
        plain(totals.requests as f64),
        plain(totals.sold as f64),
        plain(totals.left as f64),
        bad(totals.oversold),
        bad(totals.lost_updates),
        plain(totals.refused_stale_writes as f64),
        plain(totals.errors as f64),
        plain(totals.sales_per_second),
        (time(totals.wait_p50_us as f64), ""),
        (time(totals.wait_p99_us as f64), ""),
    ];
    for (text, class) in cells {
        let _ = write!(row, "<td class=\"{class}\">{text}</td>");
    }
    row + "</tr>\n"
}

/// A small picture of the stock.
fn card(sale: &Shown<'_>) -> String {
    let record = sale.record;
    let lock = escape(&record.lock);
    format!(
        "<figure class=\"card small\"><figcaption><a href=\"#{lock}\">{lock}</a>{}</figcaption>{}<p><span>{}</span> {}</p></figure>\n",
        chip(record),
        charts::stock(record, &format!("{lock}-small")),
        escape(&words::verdict(record)),
        escape(&sentence(sale.shows)),
    )
}

/// One sale in full.
fn section(sale: &Shown<'_>) -> String {
    let record = sale.record;
    let lock = escape(&record.lock);
    let figures = [
        (
            "Stock",
            "What each copy saw after each of its sales, and what was really left.",
            legend(record, true),
            charts::stock(record, &format!("{lock}-stock")),
        ),
        (
            "Sales per second",
            "How many were sold, and by whom; copy 1 at the bottom.",
            legend(record, false),
            charts::pace(record, &format!("{lock}-pace")),
        ),
        (
            "Waits over time",
            "How long requests waited for the lock, at the time of their answer.",
            WAITS.to_owned(),
            charts::waits(record, &format!("{lock}-waits")),
        ),
        (
            "Waits of all",
            "Which part of the requests waited how long.",
            String::new(),
            charts::spread(record, &format!("{lock}-spread")),
        ),
    ];
    let mut text = format!(
        "<section id=\"{lock}\" aria-label=\"Lock {lock}\">\n<h2>{lock} {}</h2>\n<p class=\"verdict\">{} <span class=\"shows\">{}</span></p>\n{}",
        chip(record),
        escape(&words::verdict(record)),
        escape(&sentence(sale.shows)),
        numbers(record),
    );
    text.push_str(&happened(record));
    text.push_str("<div class=\"charts\">\n");
    for (title, about, legend, svg) in figures {
        let _ = writeln!(
            text,
            "<figure class=\"card\"><figcaption><h3>{title}</h3><p>{about}</p>{legend}</figcaption>{svg}</figure>"
        );
    }
    text + "</div>\n</section>\n"
}

/// The totals in large figures.
fn numbers(record: &Record) -> String {
    let totals = &record.totals;
    let bad = |many: u64| if many > 0 { "bad" } else { "" };
    let figures = [
        (
            "sold",
            whole(totals.sold as f64),
            format!("of {}", whole(record.stock as f64)),
            "",
        ),
        (
            "left",
            whole(totals.left as f64),
            "as the stock says".into(),
            "",
        ),
        (
            "oversold",
            whole(totals.oversold as f64),
            "sold, never there".into(),
            bad(totals.oversold),
        ),
        (
            "lost updates",
            whole(totals.lost_updates as f64),
            "sold, still counted".into(),
            bad(totals.lost_updates),
        ),
        (
            "stale writes",
            whole(totals.refused_stale_writes as f64),
            "refused".into(),
            "",
        ),
        (
            "errors",
            whole(totals.errors as f64),
            format!("of {}", count(totals.requests, "request", "requests")),
            "",
        ),
        (
            "sales/s",
            whole(totals.sales_per_second),
            format!("in {}\u{202f}s", number(record.seconds)),
            "",
        ),
        (
            "wait p50",
            time(totals.wait_p50_us as f64),
            format!("p99: {}", time(totals.wait_p99_us as f64)),
            "",
        ),
    ];
    let mut text = String::from("<dl class=\"numbers\">\n");
    for (name, value, note, class) in figures {
        let _ = writeln!(
            text,
            "<div class=\"{class}\"><dt>{name}</dt><dd>{value}<small>{note}</small></dd></div>"
        );
    }
    text + "</dl>\n"
}

/// The faults and the broken promises, in words.
fn happened(record: &Record) -> String {
    let mut lines: Vec<String> = Vec::new();
    for fault in &record.faults {
        lines.push(escape(&sentence(&super::table::told(fault))));
    }
    for broken in &record.broken {
        lines.push(format!(
            "<strong>Broken:</strong> {}",
            escape(&sentence(broken))
        ));
    }
    if lines.is_empty() {
        return String::new();
    }
    let items: String = lines
        .iter()
        .map(|line| format!("<li>{line}</li>"))
        .collect();
    format!("<ul class=\"happened\">{items}</ul>\n")
}

/// A word with a sign that says how it went, not by its colour alone.
fn chip(record: &Record) -> String {
    let totals = &record.totals;
    let (class, text) = match words::kept(record) {
        true => ("good", "✓ exact".to_owned()),
        false if record.stuck => ("bad", "✗ stuck".to_owned()),
        false if totals.oversold > 0 => (
            "bad",
            format!("✗ {} oversold", whole(totals.oversold as f64)),
        ),
        false if totals.lost_updates > 0 => (
            "bad",
            format!("✗ {} lost", whole(totals.lost_updates as f64)),
        ),
        false if words::unsold(record) => {
            ("bad", format!("✗ {} unsold", whole(totals.left as f64)))
        }
        false => ("bad", "✗ broken".to_owned()),
    };
    format!("<span class=\"chip {class}\">{text}</span>")
}

fn legend(record: &Record, really: bool) -> String {
    let mut text = String::from("<ul class=\"legend\">");
    for place in 0..record.copies as usize {
        let (class, name) = (charts::copy_class(place), charts::copy_name(place));
        let key = match really {
            true => format!("<path class=\"line {class}\" d=\"M1 5H27\"/>"),
            false => format!("<rect class=\"bar {class}\" x=\"8\" width=\"12\" height=\"10\"/>"),
        };
        let _ = write!(
            text,
            "<li><svg class=\"key\" viewBox=\"0 0 28 10\" aria-hidden=\"true\">{key}</svg>{name}</li>"
        );
    }
    if really {
        text.push_str("<li><svg class=\"key\" viewBox=\"0 0 28 10\" aria-hidden=\"true\"><path class=\"line really\" d=\"M1 5H27\"/></svg>really left</li>");
    }
    text + "</ul>"
}

/// Begins with a capital and ends with a full stop.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(char::to_uppercase);
    let first: String = first.into_iter().flatten().collect();
    let end = if text.ends_with(['.', '!', '?']) {
        ""
    } else {
        "."
    };
    format!("{first}{}{end}", letters.as_str())
}

const HEADINGS: [&str; 12] = [
    "lock",
    "stock kept?",
    "requests",
    "sold",
    "left",
    "oversold",
    "lost updates",
    "stale writes refused",
    "errors",
    "sales/s",
    "wait p50",
    "wait p99",
];

const WAITS: &str = "<ul class=\"legend\"><li><svg class=\"key\" viewBox=\"0 0 28 10\" aria-hidden=\"true\"><path class=\"line p50\" d=\"M1 5H27\"/></svg>p50: half waited less</li><li><svg class=\"key\" viewBox=\"0 0 28 10\" aria-hidden=\"true\"><path class=\"line p99\" d=\"M1 5H27\"/></svg>p99: 99 of 100 waited less</li></ul>";

/// Stripes, so that what is bad is not told by its colour alone; used by all charts.
const PATTERNS: &str = r#"<svg class="patterns" width="0" height="0" aria-hidden="true"><defs><pattern id="stripes" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="stripe-ground" width="6" height="6"/><rect class="stripe" width="2" height="6"/></pattern></defs></svg>"#;

const FOOTER: &str = "Made by <code>tenure demo flash-sale --report</code>. Oversold: sold, but never there. Lost update: sold, but the stock still counts it. Stale write: of a holder whose lease had ended; its fence was too old.";

const LOOK: &str = include_str!("../look.css");
const STYLE: &str = include_str!("style.css");
const HOVER: &str = include_str!("hover.js");

#[cfg(test)]
mod tests;

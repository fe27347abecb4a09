//! What came of a run: a few lines for people, and JSON for scripts.

use std::io::Write;
use std::process::ExitCode;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;
use tenure_checker::{Finding, Statistics, Verdict};

use tenure_cli::error::Result;
use tenure_cli::exit_code;
use tenure_cli::output::{self, escape, print_json};

/// The whole run, as JSON shows it.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// What was judged: the store, or a file.
    pub(super) of: String,
    /// How the run was made; nothing if a file was judged.
    pub(super) run: Option<Run>,
    pub(super) events: usize,
    #[serde(flatten)]
    pub(super) verdict: Verdict,
}

/// How a run was made.
#[derive(Debug, Serialize)]
pub(super) struct Run {
    pub(super) seed: u64,
    pub(super) for_ms: u64,
    pub(super) ttl_ms: u64,
    pub(super) processes: u32,
    pub(super) names: u32,
    pub(super) faults: Vec<&'static str>,
}

impl Report {
    /// Prints it, and returns the exit code that goes with it.
    pub(super) fn print(&self, json: bool) -> Result<ExitCode> {
        match json {
            true => print_json(self)?,
            false => self.print_text()?,
        }
        Ok(ExitCode::from(match self.verdict {
            Verdict::Valid { .. } => 0,
            Verdict::Broken { .. } => exit_code::BROKEN,
            Verdict::Unknown { .. } => exit_code::UNKNOWN,
        }))
    }

    fn print_text(&self) -> Result<()> {
        let mut out = output::stdout();
        writeln!(out, "{}", escape(&self.of))?;
        if let Some(run) = &self.run {
            writeln!(out, "{}", run.sentence())?;
        }
        let statistics = match &self.verdict {
            Verdict::Valid { statistics }
            | Verdict::Broken { statistics, .. }
            | Verdict::Unknown { statistics, .. } => statistics,
        };
        writeln!(out, "{}", table(statistics, self.events))?;
        match &self.verdict {
            Verdict::Valid { .. } => writeln!(out, "{GOOD}valid{GOOD:#}: every promise was kept")?,
            Verdict::Unknown { reasons, .. } => {
                writeln!(out, "{BAD}unknown{BAD:#}, which is no pass:")?;
                for reason in reasons {
                    writeln!(out, "  {}", escape(reason))?;
                }
            }
            Verdict::Broken { findings, .. } => {
                writeln!(out, "{BAD}broken{BAD:#}:")?;
                for finding in findings {
                    print_finding(&mut out, finding)?;
                }
            }
        }
        Ok(())
    }
}

impl Run {
    fn sentence(&self) -> String {
        format!(
            "{} processes on {} names for {} s, ttl {} ms, seed {}",
            self.processes,
            self.names,
            self.for_ms / 1000,
            self.ttl_ms,
            self.seed
        )
    }
}

fn print_finding(out: &mut impl Write, finding: &Finding) -> Result<()> {
    let promise = serde_json::to_value(finding.promise).map_err(std::io::Error::from)?;
    let promise = promise.as_str().unwrap_or_default();
    let sentence = escape(&finding.sentence);
    writeln!(out, "  {promise} ({} times): {sentence}", finding.count)?;
    for event in &finding.events {
        let event = serde_json::to_string(event).map_err(std::io::Error::from)?;
        writeln!(out, "    {event}")?;
    }
    Ok(())
}

/// What happened, counted.
fn table(statistics: &Statistics, events: usize) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(["WHAT", "TIMES"]);
    let rows = [
        ("claims", statistics.claims),
        ("granted", statistics.granted),
        ("granted after a wait", statistics.contended),
        ("refused", statistics.refused),
        ("unknown", statistics.unknown),
        ("lost", statistics.lost),
        ("writes", statistics.writes),
        ("stale writes, refused", statistics.stale),
        ("events", events),
    ];
    for (what, times) in rows {
        table.add_row([what.to_owned(), times.to_string()]);
    }
    for (fault, times) in &statistics.faults {
        table.add_row([format!("fault: {}", escape(fault)), times.to_string()]);
    }
    if let Some(column) = table.column_mut(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

const GOOD: anstyle::Style = anstyle::AnsiColor::Green.on_default().bold();
const BAD: anstyle::Style = anstyle::AnsiColor::Red.on_default().bold();

//! The report of a run: a few lines for people, and JSON for scripts.

use std::io::Write;
use std::process::ExitCode;

use comfy_table::Table;
use serde::Serialize;
use tenure_checker::{Finding, Statistics, Verdict};

use tenure_cli::output::{self, escape, print_json};
use tenure_cli::{Result, exit_code};

use super::Plan;
use crate::terminal::table;

/// The whole run, as JSON shows it.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// What was judged: the store, or a file.
    pub(super) of: String,
    /// The settings of the run; `None` if a file was judged.
    pub(super) run: Option<Plan>,
    pub(super) events: usize,
    #[serde(flatten)]
    pub(super) verdict: Verdict,
}

impl Report {
    /// Prints the report, and returns its exit code.
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
            writeln!(out, "{}", sentence(run))?;
        }
        writeln!(out, "{}", counts(self.verdict.statistics(), self.events))?;
        match &self.verdict {
            Verdict::Valid { .. } => writeln!(out, "{GOOD}valid{GOOD:#}: every promise was kept")?,
            Verdict::Unknown { reasons, .. } => {
                writeln!(
                    out,
                    "{BAD}inconclusive{BAD:#}, which is no pass: too few grants, writes or faults"
                )?;
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

fn sentence(plan: &Plan) -> String {
    let (seconds, ttl_ms) = (plan.time.as_secs(), plan.ttl.as_millis());
    let (processes, names, seed) = (plan.processes, plan.names, plan.seed);
    format!("{processes} processes on {names} names for {seconds} s, ttl {ttl_ms} ms, seed {seed}")
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

/// Returns the counts of what happened.
fn counts(statistics: &Statistics, events: usize) -> Table {
    let mut table = table(&["WHAT", "TIMES"], [1]);
    let rows = [
        ("claims", statistics.claims),
        ("granted", statistics.granted),
        ("granted after a wait", statistics.contended),
        ("refused", statistics.refused),
        ("answer unknown", statistics.unknown),
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
    table
}

const GOOD: anstyle::Style = anstyle::AnsiColor::Green.on_default().bold();
const BAD: anstyle::Style = anstyle::AnsiColor::Red.on_default().bold();

//! `doctor`: finds settings of a store that endanger locks.

use std::io::Write;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use tenure::{Finding, Verdict};

use crate::cli::DoctorArgs;
use crate::error::{Failure, Result};
use crate::exit_code;
use crate::output::{self, escape, print_json};
use crate::store::Store;

/// Checks the store, and prints the findings.
pub(crate) async fn doctor(store: &Store, args: DoctorArgs) -> Result<ExitCode> {
    let findings = tenure::doctor(store.url()).await?;
    let report = Report::new(store.shown(), &findings);
    match args.json {
        true => print_json(&report)?,
        false => report.print()?,
    }
    match report.problems {
        0 => Ok(exit_code::DONE),
        _ => Err(Failure::silent(exit_code::PROBLEM)),
    }
}

/// The findings as JSON. Scripts depend on this format, so it is not a type of the library.
#[derive(Debug, Serialize)]
struct Report<'a> {
    store: String,
    problems: usize,
    warnings: usize,
    unknown: usize,
    findings: Vec<FindingJson<'a>>,
}

/// One finding as JSON.
#[derive(Debug, Serialize)]
struct FindingJson<'a> {
    check: &'static str,
    verdict: &'static str,
    found: &'a str,
    advice: Option<&'a str>,
}

impl<'a> Report<'a> {
    fn new(store: String, findings: &'a [Finding]) -> Self {
        let count = |verdict| {
            let with = findings.iter().filter(|finding| finding.verdict == verdict);
            with.count()
        };
        Self {
            store,
            problems: count(Verdict::Problem),
            warnings: count(Verdict::Warning),
            unknown: count(Verdict::Unknown),
            findings: findings.iter().map(FindingJson::from).collect(),
        }
    }

    /// Prints each finding with its advice below it, and the number of findings of each kind.
    fn print(&self) -> Result<()> {
        let mut out = output::stdout();
        for finding in &self.findings {
            let style = style(finding.verdict);
            let (verdict, check) = (finding.verdict, finding.check);
            let found = escape(finding.found);
            writeln!(out, "{style}{verdict:<7}{style:#}  {check}: {found}")?;
            if let Some(advice) = finding.advice {
                writeln!(out, "         → {}", escape(advice))?;
            }
        }
        writeln!(out, "{} in {}", self.summary(), escape(&self.store))?;
        Ok(())
    }

    fn summary(&self) -> String {
        let fine = self.findings.len() - self.problems - self.warnings - self.unknown;
        let counted = |count: usize, one: &str| match count {
            1 => format!("1 {one}"),
            _ => format!("{count} {one}s"),
        };
        let mut said = vec![
            counted(self.problems, "problem"),
            counted(self.warnings, "warning"),
        ];
        if self.unknown > 0 {
            said.push(format!("{} unknown", self.unknown));
        }
        said.push(format!("{fine} ok"));
        said.join(", ")
    }
}

impl<'a> From<&'a Finding> for FindingJson<'a> {
    fn from(finding: &'a Finding) -> Self {
        Self {
            check: finding.check,
            verdict: finding.verdict.as_str(),
            found: &finding.found,
            advice: finding.advice.as_deref(),
        }
    }
}

fn style(verdict: &str) -> Style {
    let color = match verdict {
        "ok" => AnsiColor::Green,
        "warning" => AnsiColor::Yellow,
        "problem" => AnsiColor::Red,
        _ => AnsiColor::Magenta,
    };
    color.on_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_summary_counts_what_was_found() {
        let findings = tenure::doctor("memory:").await.unwrap();
        let report = Report::new("memory:".to_owned(), &findings);
        assert_eq!(report.summary(), "0 problems, 1 warning, 1 ok");
    }
}

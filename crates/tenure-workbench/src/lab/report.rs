//! The output of the lab.

use std::io::Write;

use serde::Serialize;
use tenure_checker::Verdict;

use super::case::Case;
use super::cases;
use super::run::{Judged, Outcome, words};
use crate::terminal::table;
use tenure_cli::Result;
use tenure_cli::output::{self, print_json, terminal_width};

/// How much to print of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    Short,
    Full,
}

/// Prints the cases without running them.
pub(super) fn list(cases: &[&Case], json: bool) -> Result<()> {
    if json {
        return print_json(&cases);
    }
    let mut table = table(&["CASE", "NAME", "MISTAKE", "FAULT", "BREAKS"], []);
    for case in cases {
        table.add_row([
            case.number.to_string(),
            case.name.to_owned(),
            case.title.to_owned(),
            case.fault.to_owned(),
            case.breaks.to_string(),
        ]);
    }
    writeln!(output::stdout(), "{table}")?;
    Ok(())
}

/// Prints the outcome of a case.
pub(super) fn print(outcome: &Outcome, detail: Detail) -> Result<()> {
    let case = outcome.case;
    let (broken, tenure) = (&outcome.broken, &outcome.tenure);
    let (number, title, name) = (case.number, case.title, case.name);
    let mut out = output::stdout();
    writeln!(out, "{BOLD}{number}. {title} ({name}){BOLD:#}")?;
    writeln!(out, "   fault: {}", case.fault)?;
    if detail == Detail::Full {
        print_lesson(&mut out, case)?;
        print_history(&mut out, "what happened", broken)?;
    }
    let words = words(&broken.verdict);
    match outcome.flagged {
        true => writeln!(out, "   {RED}{words}{RED:#}")?,
        false => writeln!(out, "   {words}, but it should be broken: {}", case.breaks)?,
    }
    print_proof(&mut out, &broken.verdict)?;
    writeln!(out, "   tenure {}", case.instead)?;
    if detail == Detail::Full {
        writeln!(out)?;
        print_history(&mut out, "tenure in the same experiment", tenure)?;
    }
    print_tenure(&mut out, &tenure.verdict)?;
    writeln!(out)?;
    Ok(())
}

fn print_tenure(out: &mut impl Write, verdict: &Verdict) -> Result<()> {
    let words = words(verdict);
    match verdict.is_valid() {
        true => writeln!(
            out,
            "   {GREEN}tenure in the same experiment: {words}{GREEN:#}"
        )?,
        false => {
            writeln!(out, "   {RED}tenure in the same experiment: {words}{RED:#}")?;
            print_proof(out, verdict)?;
        }
    }
    Ok(())
}

fn print_lesson(out: &mut impl Write, case: &Case) -> Result<()> {
    let width = terminal_width().map_or(WIDTH, usize::from);
    writeln!(out)?;
    for line in wrapped(case.lesson, width.clamp(40, WIDTH) - 3) {
        let indent = if line.is_empty() { "" } else { "   " };
        writeln!(out, "{indent}{line}")?;
    }
    writeln!(out)?;
    Ok(())
}

/// Prints all events of an experiment as a timeline.
fn print_history(out: &mut impl Write, title: &str, run: &Judged) -> Result<()> {
    writeln!(out, "   {title}:")?;
    let start_us = run.history.first().map_or(0, |event| event.at_us);
    for event in &run.history {
        let after_ms = (event.at_us - start_us) / 1000;
        let who = match event.process {
            0 => "the lab".to_owned(),
            process => format!("client {process}"),
        };
        writeln!(out, "     {after_ms:>6} ms  {who:<9} {}", event.what)?;
    }
    Ok(())
}

/// Returns a lesson without its heading, with its paragraphs wrapped to this width.
fn wrapped(lesson: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let body = lesson.split("\n\n").filter(|part| !part.starts_with('#'));
    for paragraph in body {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        let mut line = String::new();
        for word in paragraph.split_whitespace() {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
    }
    lines
}

/// Prints the few events that prove a verdict, or why there is no proof.
fn print_proof(out: &mut impl Write, verdict: &Verdict) -> Result<()> {
    let proofs = verdict.findings().iter().map(ToString::to_string);
    let reasons = match verdict {
        Verdict::Unknown { reasons, .. } => reasons.clone(),
        _ => Vec::new(),
    };
    for text in proofs.chain(reasons) {
        for line in text.lines() {
            writeln!(out, "     {line}")?;
        }
    }
    Ok(())
}

/// Prints all cases in a table, how many were as expected, and what to try next.
pub(super) fn print_summary(results: &[Outcome]) -> Result<()> {
    let header = [
        "CASE",
        "NAME",
        "MUST BREAK",
        "THE BROKEN LOCK",
        "TENURE",
        "AS EXPECTED",
    ];
    let mut table = table(&header, []);
    for outcome in results {
        let case = outcome.case;
        let expected = if outcome.as_expected { "yes" } else { "NO" };
        table.add_row([
            case.number.to_string(),
            case.name.to_owned(),
            case.breaks.to_string(),
            words(&outcome.broken.verdict),
            words(&outcome.tenure.verdict),
            expected.to_owned(),
        ]);
    }
    let flagged = results.iter().filter(|outcome| outcome.flagged).count();
    let valid = results
        .iter()
        .filter(|outcome| outcome.tenure.verdict.is_valid())
        .count();
    let all = results.len();
    let mut out = output::stdout();
    writeln!(out, "{table}")?;
    writeln!(
        out,
        "{flagged} of {all} broken locks flagged for the right reason, tenure valid in {valid} of {all} experiments"
    )?;
    writeln!(out, "{}", what_next(results))?;
    Ok(())
}

/// Returns one line about what to try next.
fn what_next(results: &[Outcome]) -> String {
    let unexpected = results.iter().find(|outcome| !outcome.as_expected);
    match (unexpected, results) {
        (Some(outcome), _) => {
            let name = outcome.case.name;
            format!("next: run 'tenure lab {name}' again and read its history; see docs/lab.md")
        }
        (None, [only]) => {
            let places = cases::ALL.iter().cycle();
            let mut after = places.skip_while(|case| case.name != only.case.name);
            let next = after.nth(1).map_or("", |case| case.name);
            format!("next: 'tenure lab {next}', or see what happens under load with 'tenure demo flash-sale'")
        }
        (None, _) => "next: read the story of one mistake with 'tenure lab del', or break your own store with 'tenure torture'".to_owned(),
    }
}

/// All results as JSON; scripts depend on the format.
#[derive(Debug, Serialize)]
pub(super) struct Json<'a> {
    pub(super) cases: &'a [Outcome],
    pub(super) as_expected: bool,
}

const BOLD: anstyle::Style = anstyle::Style::new().bold();
const RED: anstyle::Style = anstyle::AnsiColor::Red.on_default();
const GREEN: anstyle::Style = anstyle::AnsiColor::Green.on_default();

/// The longest line of a story.
const WIDTH: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lesson_is_broken_into_lines() {
        let lines = wrapped("# Title\n\none two\nthree\n\nfour\n", 9);
        assert_eq!(lines, ["one two", "three", "", "four"]);
    }

    #[test]
    fn every_case_has_a_lesson_worth_reading() {
        for case in cases::ALL {
            let heading = format!("# {}. {}", case.number, case.title);
            assert_eq!(case.lesson.lines().next(), Some(heading.as_str()));
            let sentences = case.lesson.matches(['.', '?']).count();
            assert!((5..=20).contains(&sentences), "{}: {sentences}", case.name);
            assert!(case.lesson.contains("tenure"), "{}", case.name);
        }
    }
}

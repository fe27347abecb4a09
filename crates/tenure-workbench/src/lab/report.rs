//! What the lab prints.

use std::io::Write;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{ContentArrangement, Table};
use serde::Serialize;
use tenure_checker::{Promise, Verdict};

use super::case::Case;
use super::run::{Play, Played, words};
use tenure_cli::error::Result;
use tenure_cli::output::{self, print_json, terminal_width};

/// How much is told of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    InShort,
    InFull,
}

/// Prints the cases without playing them.
pub(super) fn list(cases: &[&Case], json: bool) -> Result<()> {
    if json {
        return print_json(
            &cases
                .iter()
                .map(|case| CaseJson::new(case))
                .collect::<Vec<_>>(),
        );
    }
    let mut table = table(["CASE", "NAME", "MISTAKE", "FAULT", "BREAKS"]);
    for case in cases {
        table.add_row([
            case.number.to_string(),
            case.name().to_owned(),
            case.title.to_owned(),
            case.fault.to_owned(),
            case.breaks.to_string(),
        ]);
    }
    writeln!(output::stdout(), "{table}")?;
    Ok(())
}

/// An empty table that fits on the terminal.
fn table<const COLUMNS: usize>(header: [&str; COLUMNS]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    if let Some(width) = terminal_width() {
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(width);
    }
    table.set_header(header);
    table
}

/// Prints what came of a case.
pub(super) fn print(played: &Played, told: Told) -> Result<()> {
    let case = played.case;
    let (broken, tenure) = (&played.broken, &played.tenure);
    let (number, title, name) = (case.number, case.title, case.name());
    let mut out = output::stdout();
    writeln!(out, "{BOLD}{number}. {title} ({name}){BOLD:#}")?;
    writeln!(out, "   fault: {}", case.fault)?;
    if told == Told::InFull {
        print_lesson(&mut out, case)?;
        print_history(&mut out, "what happened", broken)?;
    }
    let words = words(&broken.verdict);
    match played.is_flagged() {
        true => writeln!(out, "   {RED}{words}{RED:#}")?,
        false => writeln!(out, "   {words}, but it should be broken: {}", case.breaks)?,
    }
    print_proof(&mut out, &broken.verdict)?;
    writeln!(out, "   tenure {}", case.instead)?;
    if told == Told::InFull {
        writeln!(out)?;
        print_history(&mut out, "tenure in the same play", tenure)?;
    }
    print_tenure(&mut out, &tenure.verdict)?;
    writeln!(out)?;
    Ok(())
}

fn print_tenure(out: &mut impl Write, verdict: &Verdict) -> Result<()> {
    let words = words(verdict);
    match verdict.is_valid() {
        true => writeln!(out, "   {GREEN}tenure in the same play: {words}{GREEN:#}")?,
        false => {
            writeln!(out, "   {RED}tenure in the same play: {words}{RED:#}")?;
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

/// All that was noted in a play, as a time table.
fn print_history(out: &mut impl Write, title: &str, play: &Play) -> Result<()> {
    writeln!(out, "   {title}:")?;
    let start_us = play.history.first().map_or(0, |event| event.at_us);
    for event in &play.history {
        let after_ms = (event.at_us - start_us) / 1000;
        let who = match event.process {
            0 => "the lab".to_owned(),
            process => format!("client {process}"),
        };
        writeln!(out, "     {after_ms:>6} ms  {who:<9} {}", event.what)?;
    }
    Ok(())
}

/// A lesson without its heading, its paragraphs broken into lines of this width.
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

/// The few events that prove it, or why there is no proof.
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

/// Prints all cases in a table, and what it comes to.
pub(super) fn print_summary(results: &[Played]) -> Result<()> {
    let mut table = table([
        "CASE",
        "NAME",
        "MUST BREAK",
        "THE BROKEN LOCK",
        "TENURE",
        "AS EXPECTED",
    ]);
    for played in results {
        let case = played.case;
        let expected = if played.is_as_expected() { "yes" } else { "NO" };
        table.add_row([
            case.number.to_string(),
            case.name().to_owned(),
            case.breaks.to_string(),
            words(&played.broken.verdict),
            words(&played.tenure.verdict),
            expected.to_owned(),
        ]);
    }
    let flagged = results.iter().filter(|played| played.is_flagged()).count();
    let valid = results
        .iter()
        .filter(|played| played.tenure.verdict.is_valid())
        .count();
    let all = results.len();
    let mut out = output::stdout();
    writeln!(out, "{table}")?;
    writeln!(
        out,
        "{flagged} of {all} broken locks flagged for the right reason, tenure valid in {valid} of {all} plays"
    )?;
    Ok(())
}

/// All results as JSON: scripts depend on it.
#[derive(Debug, Serialize)]
pub(super) struct Json<'a> {
    cases: Vec<PlayedJson<'a>>,
    as_expected: bool,
}

#[derive(Debug, Serialize)]
struct PlayedJson<'a> {
    #[serde(flatten)]
    case: CaseJson<'a>,
    broken: &'a Play,
    tenure: &'a Play,
    flagged: bool,
    as_expected: bool,
}

#[derive(Debug, Serialize)]
struct CaseJson<'a> {
    number: u32,
    name: &'a str,
    title: &'a str,
    fault: &'a str,
    breaks: Promise,
    instead: &'a str,
    lesson: &'a str,
}

impl<'a> Json<'a> {
    pub(super) fn new(results: &'a [Played]) -> Self {
        Self {
            cases: results.iter().map(PlayedJson::new).collect(),
            as_expected: results.iter().all(Played::is_as_expected),
        }
    }
}

impl<'a> PlayedJson<'a> {
    fn new(played: &'a Played) -> Self {
        Self {
            case: CaseJson::new(played.case),
            broken: &played.broken,
            tenure: &played.tenure,
            flagged: played.is_flagged(),
            as_expected: played.is_as_expected(),
        }
    }
}

impl<'a> CaseJson<'a> {
    fn new(case: &'a Case) -> Self {
        Self {
            number: case.number,
            name: case.name(),
            title: case.title,
            fault: case.fault,
            breaks: case.breaks,
            instead: case.instead,
            lesson: case.lesson,
        }
    }
}

const BOLD: anstyle::Style = anstyle::Style::new().bold();
const RED: anstyle::Style = anstyle::AnsiColor::Red.on_default();
const GREEN: anstyle::Style = anstyle::AnsiColor::Green.on_default();

/// The longest line of a story.
const WIDTH: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::cases;

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
            assert!(
                (5..=20).contains(&sentences),
                "{}: {sentences}",
                case.name()
            );
            assert!(case.lesson.contains("tenure"), "{}", case.name());
        }
    }
}

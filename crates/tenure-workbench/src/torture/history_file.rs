//! A history in a file: the expectations in the first line, then one event per line.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use tenure_checker::{Event, Expect, History};

use tenure_cli::{Failure, Result, exit_code};

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    expect: Expect,
}

/// Writes a history.
pub(super) fn write(path: &Path, expect: &Expect, history: &[Event]) -> Result<()> {
    let written = || -> std::io::Result<()> {
        let mut out = BufWriter::new(File::create(path)?);
        let expect = expect.clone();
        writeln!(out, "{}", serde_json::to_string(&Head { expect })?)?;
        for event in history {
            writeln!(out, "{}", serde_json::to_string(event)?)?;
        }
        out.flush()
    };
    written().map_err(|error| trouble(path, "written", &error).with_code(exit_code::OUTPUT))
}

/// Reads a history. Without such a first line, it expects every promise and one grant.
pub(super) fn read(path: &Path) -> Result<(Expect, History)> {
    let file = File::open(path).map_err(|error| trouble(path, "read", &error))?;
    let mut expect = Expect::new();
    let mut history = History::new();
    for (number, line) in (1..).zip(BufReader::new(file).lines()) {
        let line = line.map_err(|error| trouble(path, "read", &error))?;
        if line.trim().is_empty() {
            continue;
        }
        if number == 1
            && let Ok(head) = serde_json::from_str::<Head>(&line)
        {
            expect = head.expect;
            continue;
        }
        let event = serde_json::from_str(&line);
        history.push(event.map_err(|error| {
            let what = format!("read: line {number} is no event");
            trouble(path, &what, &error)
        })?);
    }
    Ok((expect, history))
}

fn trouble(path: &Path, what: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::usage(format!("{} cannot be {what}: {error}", path.display()))
}

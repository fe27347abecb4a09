//! Programs that run to their end: they create data and query servers.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::wait::PATIENCE;

/// Runs a program with this input, and returns its output.
pub(crate) fn run(command: &mut Command, input: &str) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    match run_to_end(command, input).map_err(Error::io(format!("run {program}")))? {
        Ok(output) => Ok(output),
        Err(log) => Err(Error::Program { program, log }),
    }
}

/// Sends statements to a server with its client program.
pub(crate) fn ask(client: &mut Command, statements: &str) -> Result<String> {
    // Statements can be long, and the reader wants to see the reply.
    let named = || statements.chars().take(200).collect::<String>();
    match run_to_end(client, statements) {
        Ok(Ok(rows)) => Ok(rows.strip_suffix('\n').unwrap_or(&rows).to_owned()),
        Ok(Err(text)) => Err(Error::Answer {
            command: named(),
            text,
        }),
        Err(source) => Err(Error::Io {
            action: format!("ask {}", named()),
            source,
        }),
    }
}

/// Returns the output, or everything that the program wrote if it failed. Uses files for all of it,
/// so that neither side waits for the other.
fn run_to_end(command: &mut Command, input: &str) -> io::Result<Result<String, String>> {
    let (mut stdin, mut stdout, mut stderr) = (
        tempfile::tempfile()?,
        tempfile::tempfile()?,
        tempfile::tempfile()?,
    );
    stdin.write_all(input.as_bytes())?;
    stdin.rewind()?;
    let command = command
        .stdin(stdin)
        .stdout(stdout.try_clone()?)
        .stderr(stderr.try_clone()?);
    let status = wait(command)?;
    let output = read(&mut stdout)?;
    match status.success() {
        true => Ok(Ok(output)),
        false => Ok(Err(output + &read(&mut stderr)?)),
    }
}

fn wait(command: &mut Command) -> io::Result<ExitStatus> {
    let mut child = command.spawn()?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            let text = format!("no answer within {PATIENCE:?}");
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        thread::sleep(TICK);
    }
}

fn read(file: &mut File) -> io::Result<String> {
    let mut bytes = vec![];
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The interval between two checks of a process.
const TICK: Duration = Duration::from_millis(1);

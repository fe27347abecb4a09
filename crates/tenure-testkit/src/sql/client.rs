//! Programs that are run to their end: they make data and ask servers.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::wait::PATIENCE;

/// Runs a program with this input, and returns what it wrote.
pub(crate) fn run(command: &mut Command, input: &str) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    match run_to_end(command, input).map_err(Error::io(format!("run {program}")))? {
        Ok(output) => Ok(output),
        Err(log) => Err(Error::Program { program, log }),
    }
}

/// Asks a server by its client program.
pub(crate) fn ask(client: &mut Command, statements: &str) -> Result<String> {
    // It can be long, and the reader wants to see the answer.
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

/// The output, or all that it wrote if it failed. All in files, so that none waits for the other.
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

/// Between two looks at a process.
const TICK: Duration = Duration::from_millis(1);

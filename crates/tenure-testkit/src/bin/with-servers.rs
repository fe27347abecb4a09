//! Runs a command whose tests share servers: `with-servers cargo nextest run`.
//!
//! Test runners that start a process for each test would otherwise start servers for each of them.
//!
//! With `--on-disk` before the command, databases wait for the disk at each commit, as in
//! production.

use std::process::{Command, ExitCode};

use tenure_testkit::{Durability, shared};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1).peekable();
    let durability = match arguments.next_if(|argument| argument == "--on-disk") {
        Some(_) => Durability::Flushed,
        None => Durability::Written,
    };
    let Some(program) = arguments.next() else {
        eprintln!("usage: with-servers [--on-disk] COMMAND [ARGUMENT]...");
        return ExitCode::from(2);
    };
    let mut command = Command::new(program);
    command.args(arguments);
    let status = shared::start_for(&mut command, durability)
        .map_err(|error| error.to_string())
        .and_then(|_servers| command.status().map_err(|error| error.to_string()));
    match status {
        Ok(status) => ExitCode::from(u8::try_from(status.code().unwrap_or(1)).unwrap_or(1)),
        Err(error) => {
            eprintln!("with-servers: {error}");
            ExitCode::FAILURE
        }
    }
}

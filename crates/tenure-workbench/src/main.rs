//! The workbench: measures tenure, demonstrates it with real processes, and tries to break it.

mod bench;
mod cli;
mod clock;
mod demo;
mod history;
mod lab;
mod process;
mod recipes;
mod register;
mod servers;
mod sql;
mod terminal;
mod torture;

use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::run() {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}

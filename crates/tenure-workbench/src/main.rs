//! The workbench: measures tenure, shows with real processes what it does, and tries to break it.

mod bench;
mod child;
mod cli;
mod demo;
mod lab;
mod parent;
mod recipes;
mod torture;

use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::run() {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}

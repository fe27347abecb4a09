//! The command `tenure`: holds a lock around a command, and shows who holds what.

mod ask;
mod bench;
mod by_hand;
mod child;
mod cli;
mod demo;
mod doctor;
mod duration;
mod error;
mod exit_code;
mod holding;
mod inspect;
mod lab;
mod output;
mod pages;
mod parent;
mod pattern;
mod recipes;
mod run;
mod signals;
mod store;
mod torture;
mod watch;

use std::process::ExitCode;

fn main() -> ExitCode {
    if run::guardian::is_called() {
        return run::guardian::watch_over();
    }
    match cli::run() {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}

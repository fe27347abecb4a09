//! The command `tenure`: holds a lock around a command, and shows who holds which lock.
//!
//! The public modules are shared with the workbench of this repository. They are not an API for
//! other programs and change without notice; programs use the crate `tenure`.

mod ask;
mod by_hand;
mod cli;
mod doctor;
pub mod duration;
mod error;
pub mod exit_code;
mod holding;
mod inspect;
mod nested;
pub mod output;
mod pages;
mod pattern;
pub mod program;
mod run;
pub mod signals;
pub mod store;
mod table;
pub mod usage;
mod waiting;
mod watch;
mod workbench;

pub use error::{Failure, Result};
pub use store::Store;

use std::process::ExitCode;

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    if run::guardian::is_called() {
        return run::guardian::watch_over();
    }
    match cli::run() {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}

//! The command: runs seeds, and reports what they break.

use std::process::ExitCode;

fn main() -> ExitCode {
    match tenure_sim::cli::run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("tenure-sim: {error:#}");
            ExitCode::from(2)
        }
    }
}

//! `bench`, `demo`, `lab` and `torture`: verbs of another program, which is built from the
//! repository.
//!
//! Operators do not need them, so the command contains neither these verbs nor their dependencies.
//! In a clone, `cargo run -- bench` still works: Cargo builds the other program when it is first
//! needed.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use crate::error::Failure;
use crate::exit_code;
use crate::store::{self, Store};

/// A verb of the workbench, and its arguments.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct WorkbenchArgs {
    /// See --help of the verb
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Replaces this process with the workbench; returns only if that fails.
pub(crate) fn become_workbench(
    verb: &str,
    store: &Store,
    verbose: bool,
    args: WorkbenchArgs,
) -> Failure {
    let Some(mut command) = command() else {
        return not_here(verb);
    };
    if store.is_named() {
        // Not as an argument, because everybody can read arguments and a URL may contain a
        // password.
        command.env(store::VARIABLE, store.url());
    }
    if verbose {
        command.arg("--verbose");
    }
    let error = command.arg(verb).args(args.arguments).exec();
    let program = command.get_program().to_string_lossy();
    let sentence = format!("{program} cannot be started: {error}");
    Failure::new(exit_code::CANNOT_RUN, sentence)
}

/// Returns how to start the workbench: in a clone through Cargo, which keeps it up to date with its
/// sources; otherwise as the program beside the command.
fn command() -> Option<Command> {
    let program = std::env::current_exe().ok()?;
    if let Some(cargo) = std::env::var_os("CARGO")
        && let Some(sources) = sources()
    {
        let mut command = Command::new(cargo);
        command.args(["run", "--manifest-path"]);
        command.arg(sources.join("Cargo.toml"));
        command.args(["--profile", profile(&program)]);
        if cfg!(feature = "tls") {
            command.args(["--features", "tls"]);
        }
        command.arg("--");
        return Some(command);
    }
    let beside = program.with_file_name(PROGRAM);
    beside.is_file().then(|| Command::new(beside))
}

/// Returns where the sources of the workbench are, if Cargo runs the command in a clone.
fn sources() -> Option<PathBuf> {
    let command = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR")?);
    let sources = command.with_file_name(PROGRAM);
    sources.is_dir().then_some(sources)
}

/// Returns the profile that a program was built with, judging by the directory where Cargo puts it.
fn profile(program: &Path) -> &str {
    let folder = program.parent().and_then(Path::file_name);
    match folder.and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    }
}

fn not_here(verb: &str) -> Failure {
    Failure::usage(format!(
        "'{verb}' is not part of the installed command; in a clone of tenure's repository run: \
         cargo run --release -- {verb}"
    ))
}

/// The name of the crate and of its program.
const PROGRAM: &str = "tenure-workbench";

//! Starts this program again as another process, and turns failures of processes and servers into
//! failures of the command.

use std::process::Command;

use tenure_testkit::{Child, Error};

use tenure_cli::{Failure, Result, exit_code, program, store};

/// Starts this program again with a hidden verb, and the URL of a store in its environment.
pub(crate) fn start(name: &'static str, verb: &str, url: Option<&str>) -> Result<Child> {
    let mut command = this_program(verb)?;
    // Not as an argument, which all users can see: it may contain a password.
    if let Some(url) = url {
        command.env(store::VARIABLE, url);
    }
    Child::start(name, &mut command).or_fail()
}

/// Returns the command that starts this program again with a hidden verb.
pub(crate) fn this_program(verb: &str) -> Result<Command> {
    let mut command = Command::new(program::own_program()?);
    command.arg(verb);
    Ok(command)
}

/// Turns errors of the test kit into failures of the command.
pub(crate) trait OrFail<T> {
    fn or_fail(self) -> Result<T>;
}

impl<T> OrFail<T> for tenure_testkit::Result<T> {
    fn or_fail(self) -> Result<T> {
        self.map_err(failure)
    }
}

/// Returns the failure of a command that needs a process or a server.
pub(crate) fn failure(error: Error) -> Failure {
    let code = match error {
        Error::NotByHand { .. } => exit_code::USAGE,
        _ => exit_code::UNAVAILABLE,
    };
    // Includes the source of the error.
    Failure::new(code, format!("{error:?}"))
}

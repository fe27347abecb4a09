//! Errors of servers, with enough detail that the reader of a failed test need not look further.

use std::error::Error as _;
use std::fmt::{self, Debug, Formatter};
use std::io;
use std::time::Duration;

/// A server or another process did not start, did not reply or refused.
///
/// Its `Debug` text is for people too, and includes the sources: tests `unwrap` it, and logs have
/// many lines.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server replied with an error.
    #[error("{command} was refused: {text}")]
    Answer {
        /// The command that was sent.
        command: String,
        /// The server's message.
        text: String,
    },

    /// A child process cannot be used.
    #[error("{name} cannot be used: {reason}")]
    Child {
        /// The name that it was started with.
        name: String,
        /// What is wrong with it.
        reason: String,
    },

    /// The operating system refused.
    #[error("could not {action}")]
    Io {
        /// What was attempted.
        action: String,
        /// Why it failed.
        source: io::Error,
    },

    /// A program is not installed.
    #[error("{program} is not installed; install it with: apt-get install {package}")]
    Missing {
        /// The program that is not on the `PATH`.
        program: &'static str,
        /// The Debian package that contains it.
        package: &'static str,
    },

    /// Somebody ran a process by hand that only another process starts.
    #[error("{part} is a part of '{of}' and not called by hand")]
    NotByHand {
        /// What was run.
        part: &'static str,
        /// The command that starts it.
        of: &'static str,
    },

    /// A program ended although it should have continued, or failed.
    #[error("{program} failed; it wrote:\n{log}")]
    Program {
        /// The program that was run.
        program: String,
        /// Its output, or how it ended.
        log: String,
    },

    /// An expected condition did not become true.
    #[error("{what}: not so within {waited:?}; last seen:\n{last}")]
    TimedOut {
        /// The condition.
        what: String,
        /// How long the call waited.
        waited: Duration,
        /// The last state instead.
        last: String,
    },
}

impl Error {
    /// Returns a conversion for an I/O error that happened during `action`.
    pub(crate) fn io(action: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let action = action.into();
        move |source| Self::Io { action, source }
    }
}

impl Debug for Error {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        match self.source() {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

/// The result of most calls of the kit.
pub type Result<T, E = Error> = std::result::Result<T, E>;

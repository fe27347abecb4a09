//! What went wrong with a server, told so that the reader of a failed test need not look further.

use std::error::Error as _;
use std::fmt::{self, Debug, Formatter};
use std::io;
use std::time::Duration;

/// A server or another process that did not start, did not answer or said no.
///
/// Its `Debug` text is for people too, with the sources: tests `unwrap` it, and logs have many lines.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server answered with an error.
    #[error("{command} was refused: {text}")]
    Answer {
        /// The command that was sent.
        command: String,
        /// The server's words.
        text: String,
    },

    /// A child process cannot be used.
    #[error("{name} cannot be used: {reason}")]
    Child {
        /// What it was started as.
        name: String,
        /// What is wrong with it.
        reason: String,
    },

    /// The operating system said no.
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
        /// The Debian package that brings it.
        package: &'static str,
    },

    /// Somebody runs a process by hand that only another process starts.
    #[error("{part} is a part of '{of}' and not called by hand")]
    NotByHand {
        /// What was run.
        part: &'static str,
        /// The command that starts it.
        of: &'static str,
    },

    /// A program ended when it should have gone on, or failed.
    #[error("{program} failed; it wrote:\n{log}")]
    Program {
        /// The program that was run.
        program: String,
        /// What it wrote, or its end.
        log: String,
    },

    /// Something that was waited for did not happen.
    #[error("{what}: not so within {waited:?}; last seen:\n{last}")]
    TimedOut {
        /// What should have become true.
        what: String,
        /// How long the call waited.
        waited: Duration,
        /// What there was instead.
        last: String,
    },
}

impl Error {
    /// Makes the conversion of an I/O error that happened during `action`.
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

/// What most calls of the kit return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

//! One plain sentence for each way to fail, and the exit code that goes with it.

use std::error::Error as _;
use std::fmt;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

use rustix::process::Signal;
use tenure::Error;

use crate::duration::Rounded;
use crate::exit_code;
use crate::output::{escape, is_unwritten, shell_word};
use crate::run::raw::{self, Death};

/// A result of the command.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// A reason for the command to end early: its message and its exit code.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    /// Empty if there is no message.
    sentence: String,
    /// The signal to die by, instead of exiting with `code`.
    death: Option<Death>,
    /// Why the store is unavailable, if it may recover.
    outage: Option<String>,
    /// Whether the store was still unavailable at the end, so that nothing more is asked of it.
    store_is_away: bool,
}

impl Failure {
    /// Fails with `code` and a message.
    pub fn new(code: u8, sentence: impl Into<String>) -> Self {
        Self {
            code,
            sentence: escape(&sentence.into()),
            death: None,
            outage: None,
            store_is_away: false,
        }
    }

    /// Fails because the command line is invalid, or asks for something that is not possible.
    pub fn usage(sentence: impl Into<String>) -> Self {
        Self::new(exit_code::USAGE, sentence)
    }

    /// Fails because the store, or something else that the command needs, is unavailable.
    pub fn unavailable(sentence: impl Into<String>) -> Self {
        Self::new(exit_code::UNAVAILABLE, sentence)
    }

    /// Fails because the store has not answered at all.
    pub(crate) fn unanswered(waited: Duration) -> Self {
        let reason = format!("the store did not answer within {}", Rounded(waited));
        Self {
            outage: Some(reason.clone()),
            ..Self::new(exit_code::UNAVAILABLE, reason + CHECK_THE_STORE)
        }
    }

    /// Fails with `code` and without a message.
    pub fn silent(code: u8) -> Self {
        Self::new(code, "")
    }

    /// Prints the message, and then dies by the signal or returns the exit code.
    pub fn report(&self) -> ExitCode {
        if !self.sentence.is_empty() {
            anstream::eprintln!("tenure: {self}");
        }
        if let Some(death) = self.death {
            raw::die(death);
        }
        ExitCode::from(self.code)
    }

    /// Returns the exit code.
    pub(crate) fn code(&self) -> u8 {
        self.code
    }

    /// Returns why the store is unavailable, if it may recover.
    pub(crate) fn outage(&self) -> Option<&str> {
        self.outage.as_deref()
    }

    /// Marks the failure as one at whose end the store was still unavailable.
    pub(crate) fn while_store_is_away(mut self) -> Self {
        self.store_is_away = true;
        self
    }

    /// Returns whether the store was still unavailable at the end.
    pub(crate) fn is_store_away(&self) -> bool {
        self.store_is_away
    }

    /// Returns whether the lock was busy.
    pub(crate) fn is_busy(&self) -> bool {
        self.code == exit_code::BUSY
    }

    /// Makes the failure end by a signal, so that shells notice it.
    pub(crate) fn dying(mut self, death: Death) -> Self {
        self.code = exit_code::of_signal_number(death.signal());
        // A caller that sees `tenure` itself killed must assume that the lock was not released.
        self.death = (death.signal() != libc::SIGKILL).then_some(death);
        self
    }

    /// Replaces the exit code.
    pub fn with_code(mut self, code: u8) -> Self {
        self.code = code;
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::InvalidName { .. }
            | Error::InvalidOption { .. }
            | Error::InvalidOwner { .. }
            | Error::InvalidUrl { .. }
            // No wait ends it: the owner itself is in the way.
            | Error::ModeConflict { .. }
            | Error::Unsupported { .. } => exit_code::USAGE,
            Error::Lost { .. } => exit_code::LOST,
            Error::TimedOut { .. } => exit_code::BUSY,
            error if error.may_pass() => exit_code::UNAVAILABLE,
            _ => exit_code::CONFIGURATION,
        };
        let reason = chain(&error);
        Self {
            outage: error.may_pass().then(|| escape(&reason)),
            ..Self::new(code, reason + &advice(&error))
        }
    }
}

impl From<Signal> for Failure {
    /// Converts a signal that ended `tenure` into a failure.
    fn from(signal: Signal) -> Self {
        Self::silent(0).dying(Death::Alone(signal.as_raw()))
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // The reader of the output has closed it.
            io::ErrorKind::BrokenPipe => Self::silent(0),
            _ if is_unwritten(&error) => {
                let sentence = format!("the output could not be written: {error}");
                Self::new(exit_code::OUTPUT, sentence)
            }
            _ => Self::new(
                exit_code::UNAVAILABLE,
                format!("a call to the system failed: {error}"),
            ),
        }
    }
}

/// Returns the error and its causes, without duplicates.
fn chain(error: &Error) -> String {
    let mut text = match error {
        Error::TimedOut { name, waited } => {
            let waited = Rounded(*waited);
            format!("'{name}' was not free within {waited}")
        }
        Error::Unavailable { driver, .. } if !error.may_pass() => {
            format!("the {driver} store cannot be used")
        }
        _ => error.to_string(),
    };
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = error.source();
    }
    text
}

/// Returns advice, if the error does not contain any itself.
fn advice(error: &Error) -> String {
    let advice = match error {
        Error::TimedOut { name, .. } => {
            let name = shell_word(name.as_str());
            return format!("; see who holds it: tenure show {name}; or wait longer");
        }
        Error::InvalidName { .. } => {
            "; a name is 1 to 255 bytes of UTF-8 text without control characters"
        }
        Error::InvalidOwner { .. } => {
            "; an owner is 1 to 255 bytes of UTF-8 text without control characters"
        }
        Error::InvalidOption { option: "ttl", .. } => "; write for example --ttl 30s",
        Error::InvalidOption {
            option: "permits", ..
        } => "; write for example --permits 1/3",
        Error::Unavailable { .. } if error.may_pass() => CHECK_THE_STORE,
        Error::Indeterminate { .. } => "; see what became of it: tenure ls",
        _ => "",
    };
    advice.to_owned()
}

const CHECK_THE_STORE: &str = "; check --store and try again";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_is_away_is_not_a_lock_that_is_taken() {
        let source = || "no answer in 2s".into();
        let driver = "redis";
        let waited = std::time::Duration::from_secs(1);
        let name = || "a".parse().unwrap();
        let cases = [
            (
                Error::Unavailable {
                    driver,
                    source: source(),
                },
                69,
                true,
            ),
            (
                Error::Indeterminate {
                    driver,
                    source: source(),
                },
                69,
                true,
            ),
            (
                Error::Damaged {
                    driver,
                    source: source(),
                },
                78,
                false,
            ),
            (Error::ModeConflict { name: name() }, 2, false),
            (
                Error::TimedOut {
                    name: name(),
                    waited,
                },
                75,
                false,
            ),
        ];
        for (error, code, may_be_back) in cases {
            let failure = Failure::from(error);
            assert_eq!(
                (failure.code, failure.outage().is_some()),
                (code, may_be_back)
            );
        }
    }

    #[test]
    fn causes_are_named_once() {
        let error = Error::Unavailable {
            driver: "local",
            source: "the disk is full".into(),
        };
        let said = Failure::from(error).to_string();
        assert_eq!(said.matches("the disk is full").count(), 1, "{said}");
    }

    #[test]
    fn control_characters_are_not_passed_on() {
        let failure = Failure::new(2, "a\u{1b}[31mb");
        assert!(!failure.to_string().contains('\u{1b}'));
    }
}

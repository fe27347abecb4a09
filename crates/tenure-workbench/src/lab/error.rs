//! Why an experiment failed: it then proves nothing.

use tenure_cli::Failure;

/// Why a case could not be run to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// A server or a client process could not be started or used.
    #[error("{0:?}")]
    Kit(#[from] tenure_testkit::Error),

    /// A step did not happen.
    #[error("{0}")]
    Step(String),
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::Step(failure.to_string())
    }
}

impl Error {
    /// Whether a program is missing, so that no case can be run.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::Kit(tenure_testkit::Error::Missing { .. }))
    }
}

/// What most calls of an experiment return.
pub(super) type Result<T, E = Error> = std::result::Result<T, E>;

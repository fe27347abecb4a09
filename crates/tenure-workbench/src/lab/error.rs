//! Why an experiment failed. It then proves nothing.

use tenure_cli::Failure;

/// Why a case could not be completed.
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
    /// Returns whether a program is missing, so that no case can run.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::Kit(tenure_testkit::Error::Missing { .. }))
    }
}

/// The result of most calls of an experiment.
pub(super) type Result<T, E = Error> = std::result::Result<T, E>;

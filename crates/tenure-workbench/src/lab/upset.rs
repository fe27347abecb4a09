//! What upsets a play: it then proves nothing.

use tenure_cli::error::Failure;

/// Why a case could not be played to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum Upset {
    /// A server could not be had.
    #[error("{0:?}")]
    Kit(#[from] tenure_testkit::Error),

    /// The operating system said no.
    #[error("a call to the system failed: {0}")]
    System(#[from] std::io::Error),

    /// Something that had to happen did not.
    #[error("{0}")]
    Play(String),
}

impl From<Failure> for Upset {
    fn from(failure: Failure) -> Self {
        Self::Play(failure.to_string())
    }
}

impl Upset {
    /// Whether a program is missing, so that no case can be played.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::Kit(tenure_testkit::Error::Missing { .. }))
    }
}

/// What most calls of a play return.
pub(super) type Result<T, E = Upset> = std::result::Result<T, E>;

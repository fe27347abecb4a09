//! Why a recipe could not lock or unlock.

use tenure_cli::Failure;

/// Why a recipe could neither confirm nor deny that it holds the lock.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Redis, or the connection to it, failed.
    #[error("redis: {0}")]
    Redis(#[from] redis::RedisError),

    /// tenure failed.
    #[error(transparent)]
    Tenure(#[from] tenure::Error),

    /// There is no server to take a lock on.
    #[error("no server is a master")]
    NoMaster,

    /// There is no such recipe.
    #[error("there is no such recipe")]
    NoRecipe,

    /// The thread that waited for the lock is gone.
    #[error("the waiting thread ended")]
    ThreadEnded,
}

impl Error {
    /// Returns whether it is certain that nothing is held.
    pub(crate) fn nothing_changed(&self) -> bool {
        match self {
            Self::Tenure(error) => error.nothing_changed(),
            Self::NoMaster | Self::NoRecipe => true,
            Self::Redis(_) | Self::ThreadEnded => false,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Tenure(error) => error.into(),
            error => Self::unavailable(format!("the lock failed: {error}")),
        }
    }
}

/// The result of most calls of a recipe.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

//! What stops a recipe.

/// Why a recipe could not say yes or no.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// What Redis or the way to it said.
    #[error("redis: {0}")]
    Redis(#[from] redis::RedisError),

    /// What tenure said.
    #[error(transparent)]
    Tenure(#[from] tenure::Error),

    /// There is no server that a lock could be taken on.
    #[error("no server is a master")]
    NoMaster,

    /// The thread that waited for the lock is gone.
    #[error("the waiting thread ended")]
    ThreadEnded,
}

impl Trouble {
    /// Returns whether whoever said no is sure that nothing is held.
    pub(crate) fn nothing_changed(&self) -> bool {
        match self {
            Self::Tenure(error) => error.nothing_changed(),
            Self::NoMaster => true,
            Self::Redis(_) | Self::ThreadEnded => false,
        }
    }
}

//! Errors, distinguished by what the caller knows afterwards.

use std::time::Duration;

use crate::driver::Loss;
use crate::name::Name;

/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The cause of a fault, as the store's client reported it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A fault while asking a store, or a wait that ended.
///
/// Match on the variant to decide what to do next; the text is for people. Variants do not depend
/// on Cargo features.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another transaction of the database conflicts with the caller's: a deadlock, or a row that changed.
    ///
    /// Roll the transaction back and run it again from its start. Only calls in the caller's own transaction
    /// return this error; see [`transaction`](crate::transaction).
    #[error("the {driver} transaction conflicts with another, roll it back and try again")]
    Conflict {
        /// The store whose database it is.
        driver: &'static str,
        /// The error of the transaction's database driver.
        source: BoxError,
    },

    /// The store's own data cannot be trusted; nothing was changed.
    #[error("the {driver} store is damaged")]
    Damaged {
        /// The store that was asked.
        driver: &'static str,
        /// What is wrong, and what to do about it.
        source: BoxError,
    },

    /// The request may or may not have taken effect.
    ///
    /// Assume both: the lock may be held in your name until its `ttl` has passed, and you must not use
    /// it. The engine has retried, or continues to clean up in the background.
    #[error("the {driver} store left the outcome open, the request may have taken effect")]
    Indeterminate {
        /// The store that was asked, such as `"redis"`.
        driver: &'static str,
        /// What the store's client reported.
        source: BoxError,
    },

    /// The text is not a lock name.
    #[error("invalid lock name: {reason}")]
    InvalidName {
        /// The rule that it breaks.
        reason: &'static str,
    },

    /// An option of the request cannot be met.
    #[error("invalid {option}: {reason}")]
    InvalidOption {
        /// The option, such as `"ttl"`.
        option: &'static str,
        /// The rule that it breaks.
        reason: String,
    },

    /// The text is not an owner.
    #[error("invalid owner: {reason}")]
    InvalidOwner {
        /// The rule that it breaks.
        reason: &'static str,
    },

    /// The URL does not name a store.
    #[error("cannot open the store: {reason}")]
    InvalidUrl {
        /// What is wrong with it; never quotes a password.
        reason: String,
    },

    /// The lock was lost while work was done under it.
    #[error("{name} was lost before the work was done")]
    Lost {
        /// The lock that was held.
        name: Name,
        /// Why it is over.
        source: Loss,
    },

    /// The owner holds the name already, in a mode that does not cover the new one.
    ///
    /// Two readers that both wait to become writers would wait forever, so a shared lock cannot be
    /// upgraded: release it and ask again.
    #[error("{name} is already held by this owner in another mode, release it first")]
    ModeConflict {
        /// The lock that was asked for.
        name: Name,
    },

    /// The lock did not become free in time.
    #[error("{name} was not free within {waited:?}")]
    TimedOut {
        /// The lock that was asked for.
        name: Name,
        /// How long the call waited.
        waited: Duration,
    },

    /// The store could not be reached, and nothing was changed.
    #[error("the {driver} store is unavailable, nothing was changed")]
    Unavailable {
        /// The store that was asked.
        driver: &'static str,
        /// What the store's client reported.
        source: BoxError,
    },

    /// The store cannot do what was asked for.
    #[error("{driver} stores have no {what}")]
    Unsupported {
        /// The store that was asked.
        driver: &'static str,
        /// What is missing, and what to use instead.
        what: &'static str,
    },

    /// The store was made by a newer version of tenure.
    #[error("the {driver} store has format {found}, this version reads {known}: update tenure")]
    Version {
        /// The store that was asked.
        driver: &'static str,
        /// The format that the store has.
        found: u32,
        /// The newest format that this version knows.
        known: u32,
    },
}

impl Error {
    /// Returns whether the store is known to be unchanged by the request.
    ///
    /// If not, the claim of a failed acquire has to be withdrawn.
    pub fn nothing_changed(&self) -> bool {
        match self {
            Self::Conflict { .. }
            | Self::Damaged { .. }
            | Self::InvalidName { .. }
            | Self::InvalidOption { .. }
            | Self::InvalidOwner { .. }
            | Self::InvalidUrl { .. }
            | Self::ModeConflict { .. }
            | Self::Unavailable { .. }
            | Self::Unsupported { .. }
            | Self::Version { .. } => true,
            // A call that timed out may have left a place in line that is still being withdrawn.
            Self::Indeterminate { .. } | Self::Lost { .. } | Self::TimedOut { .. } => false,
        }
    }

    pub(crate) fn unavailable(driver: &'static str, source: impl Into<BoxError>) -> Self {
        let source = source.into();
        Self::Unavailable { driver, source }
    }

    pub(crate) fn indeterminate(driver: &'static str, source: impl Into<BoxError>) -> Self {
        let source = source.into();
        Self::Indeterminate { driver, source }
    }

    /// Turns "nothing was changed" into "the request may have taken effect".
    pub(crate) fn in_doubt(self) -> Self {
        match self {
            Self::Unavailable { driver, source } => Self::Indeterminate { driver, source },
            other => other,
        }
    }

    /// Returns the cause of a fault without the text that all such faults share.
    pub(crate) fn why(&self) -> String {
        match self {
            Self::Unavailable { source, .. } | Self::Indeterminate { source, .. } => {
                source.to_string()
            }
            other => other.to_string(),
        }
    }

    /// Returns whether the same call may succeed later without a change of settings.
    ///
    /// True for a store that cannot be reached, is starting, is full or lacks votes, and for a transaction that
    /// conflicts with another; false for a wrong password, a missing permission or a directory that is not writable.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Indeterminate { source, .. } | Self::Unavailable { source, .. } => {
                !source.is::<Lasting>()
            }
            Self::Conflict { .. } => true,
            _ => false,
        }
    }

    /// Returns whether a retry later may succeed.
    pub(crate) fn is_outage(&self) -> bool {
        matches!(self, Self::Indeterminate { .. } | Self::Unavailable { .. })
    }
}

/// A cause that persists until somebody fixes it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Lasting(pub(crate) BoxError);

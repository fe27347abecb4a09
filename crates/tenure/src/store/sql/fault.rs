//! What goes wrong at a database, told apart by what is known afterwards and what helps.

use crate::error::{BoxError, Error, Lasting};

/// A statement that failed.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    pub(crate) source: BoxError,
    /// Whether the connection cannot be used any more.
    pub(crate) broken: bool,
}

/// What is known after a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// The database undid the statement because of another one: the same again may succeed.
    Conflict,
    /// Nothing was changed, and the same may succeed later.
    Refused,
    /// Nothing was changed, and the same fails until somebody changes a setting.
    Lasting,
    /// The statement may have taken effect.
    Unknown,
    /// What was read makes no sense.
    Damaged,
    /// The table has a format that this version does not know.
    Version(u32),
}

impl Fault {
    pub(crate) fn new(kind: FaultKind, source: impl Into<BoxError>) -> Self {
        Self {
            kind,
            source: source.into(),
            broken: false,
        }
    }

    /// The same on a connection that is not used again.
    pub(crate) fn on_a_broken_connection(self) -> Self {
        Self {
            broken: true,
            ..self
        }
    }

    pub(crate) fn damaged(source: impl Into<BoxError>) -> Self {
        Self::new(FaultKind::Damaged, source)
    }

    /// The error for whoever made the request.
    pub(crate) fn error(self, driver: &'static str) -> Error {
        let source = self.source;
        match self.kind {
            FaultKind::Conflict | FaultKind::Refused => Error::Unavailable { driver, source },
            FaultKind::Lasting => Error::Unavailable {
                driver,
                source: Box::new(Lasting(source)),
            },
            FaultKind::Unknown => Error::Indeterminate { driver, source },
            FaultKind::Damaged => Error::Damaged { driver, source },
            FaultKind::Version(found) => Error::Version {
                driver,
                found,
                known: super::FORMAT,
            },
        }
    }
}

/// What a statement gives.
pub(crate) type Outcome<T> = Result<T, Fault>;

//! The locks that the sale can be held with, and what each of them shows.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// What keeps the copies apart, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LockKind {
    /// No lock at all
    None,
    /// A lock inside each copy
    Process,
    /// tenure, on the store
    Tenure,
}

impl LockKind {
    /// All of them, from nothing to tenure.
    pub(crate) fn all() -> Vec<Self> {
        Self::value_variants().to_vec()
    }

    /// Returns the name that people write.
    pub(crate) fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Returns whether it works on a Redis server only.
    pub(super) fn needs_redis(self) -> bool {
        match self {
            Self::None | Self::Process | Self::Tenure => false,
        }
    }

    /// Returns what a reader of the table learns from it.
    pub(crate) fn shows(self) -> &'static str {
        match self {
            Self::None => "two copies read the same stock and sell the same piece",
            Self::Process => "the same, as soon as there are two copies",
            Self::Tenure => "exactly the stock is sold, whatever happens to a copy",
        }
    }
}

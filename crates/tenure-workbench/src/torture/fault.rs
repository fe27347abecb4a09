//! The faults that a torture run can inject.

use std::fmt;

use clap::ValueEnum;
use serde::Serialize;

use crate::terminal::flag_name;

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Fault {
    /// A client is killed by signal 9, and another one started.
    Kill,
    /// A client is stopped for half a ttl to three, and continues.
    Pause,
    /// The store does what it is asked, and its replies are lost.
    ReplyLoss,
    /// All connections to a server are closed.
    Cut,
    /// Nothing gets through for less than a ttl or more, and then all of it.
    Freeze,
    /// A server is killed by signal 9 and started again with its data.
    Restart,
}

impl Fault {
    /// Returns whether it hits a client rather than a server or a link.
    pub(super) fn hits_a_client(self) -> bool {
        matches!(self, Self::Kill | Self::Pause)
    }

    /// Returns whether it hits the link between clients and a server.
    pub(super) fn hits_a_link(self) -> bool {
        matches!(self, Self::ReplyLoss | Self::Cut | Self::Freeze)
    }
}

/// Writes its word in flags and in histories.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&flag_name(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_histories_and_json_use_the_same_word() {
        for fault in Fault::value_variants() {
            assert_eq!(Fault::from_str(&fault.to_string(), false), Ok(*fault));
            assert_eq!(serde_json::to_value(fault).unwrap(), fault.to_string());
        }
    }
}

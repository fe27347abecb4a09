//! The faults that a torture can make.

use std::fmt;

use clap::ValueEnum;

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Fault {
    /// A client is killed by signal 9, and another one started.
    Kill,
    /// A client is stopped for half a ttl to three, and goes on.
    Pause,
    /// The store does what it is asked, and its answers get lost.
    ReplyLoss,
    /// All connections to a server are closed.
    Cut,
    /// Nothing comes through for less than a ttl or more, and then all of it.
    Freeze,
    /// A server is killed by signal 9 and started again with its data.
    Restart,
}

impl Fault {
    /// All of them.
    pub(super) const ALL: [Self; 6] = [
        Self::Kill,
        Self::Pause,
        Self::ReplyLoss,
        Self::Cut,
        Self::Freeze,
        Self::Restart,
    ];

    /// Returns the word for it, in flags and in histories.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Pause => "pause",
            Self::ReplyLoss => "reply-loss",
            Self::Cut => "cut",
            Self::Freeze => "freeze",
            Self::Restart => "restart",
        }
    }

    /// Whether it hits a client, and not the store or the way to it.
    pub(super) fn hits_a_client(self) -> bool {
        matches!(self, Self::Kill | Self::Pause)
    }

    /// Whether it needs a place on the way to the store.
    pub(super) fn is_of_the_wire(self) -> bool {
        matches!(self, Self::ReplyLoss | Self::Cut | Self::Freeze)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_and_a_history_use_the_same_word() {
        for fault in Fault::ALL {
            assert_eq!(Fault::from_str(fault.word(), false), Ok(fault));
        }
    }
}

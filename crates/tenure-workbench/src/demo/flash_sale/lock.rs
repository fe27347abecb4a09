//! The locks that the sale can be held with, and what each of them shows.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::recipes::Kind;

/// What keeps the copies apart, by name.
///
/// The recipes of the lab are here that break by what the sale does to them. The others need a fault
/// that only the lab makes, such as a server that loses its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LockKind {
    /// No lock at all
    None,
    /// A lock inside each copy
    Process,
    /// Redis: SETNX without expiry
    Setnx,
    /// Redis: SETNX, tried again by recursion
    Recursion,
    /// Redis: a lease, and DEL without looking who owns it
    Del,
    /// Redis: a lease, and GET before DEL
    GetDel,
    /// Redis: a lease with an atomic release, and no renewal
    Lease,
    /// Redis: a renewed lease that its own holder cannot take again
    NoReentry,
    /// Redis: a lease whose renewal does not check the owner
    RenewAnyOwner,
    /// Redis: a lease whose renewal creates it again
    RenewRecreate,
    /// Redis: a renewed lease without a fence
    NoFence,
    /// Redis: waiters that check, then subscribe
    CheckThenSubscribe,
    /// Redis: the classic recipe done right, tried again every 20 ms
    Spin,
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

    /// Returns the recipe of the lab that it is, if any.
    pub(super) fn recipe(self) -> Option<Kind> {
        match self {
            Self::None | Self::Process | Self::Spin | Self::Tenure => None,
            Self::Setnx => Some(Kind::Setnx),
            Self::Recursion => Some(Kind::Recursion),
            Self::Del => Some(Kind::Del),
            Self::GetDel => Some(Kind::GetDel),
            Self::Lease => Some(Kind::Lease),
            Self::NoReentry => Some(Kind::NoReentry),
            Self::RenewAnyOwner => Some(Kind::RenewAnyOwner),
            Self::RenewRecreate => Some(Kind::RenewRecreate),
            Self::NoFence => Some(Kind::NoFence),
            Self::CheckThenSubscribe => Some(Kind::CheckThenSubscribe),
        }
    }

    /// Returns whether it works on a Redis server only.
    pub(super) fn needs_redis(self) -> bool {
        self.recipe().is_some() || self == Self::Spin
    }

    /// Returns whether the nested step of a sale takes the lock again.
    ///
    /// Who writes a lock without re-entry does not nest it, except in the one that shows just this.
    pub(super) fn is_nested(self) -> bool {
        matches!(self, Self::NoReentry | Self::Spin | Self::Tenure)
    }

    /// Returns what a reader of the table learns from it.
    pub(crate) fn shows(self) -> &'static str {
        match self {
            Self::None => "two copies read the same stock and sell the same piece",
            Self::Process => "the same, as soon as there are two copies",
            Self::Setnx => "with --kill nobody buys any more: the dead holder keeps the lock",
            Self::Recursion => "with --slow the waiting copies run out of stack and crash",
            Self::Del => "with --slow the late holder deletes the next one's lock",
            Self::GetDel => "the same, in the moment between GET and DEL",
            Self::Lease => "with --slow the lease is over before the sale is: an update is lost",
            Self::NoReentry => "the nested step waits for its own caller, for ever",
            Self::RenewAnyOwner => "with --pause a copy renews a lock that others hold by now",
            Self::RenewRecreate => {
                "with --pause a copy creates a lock again that others hold by now"
            }
            Self::NoFence => "with --pause the stale write is accepted: an update is lost",
            Self::CheckThenSubscribe => "a release between check and subscribe wakes nobody",
            Self::Spin => "correct but for --pause, slow, and who waits longest is luck",
            Self::Tenure => "exactly the stock is sold, whatever happens to a copy",
        }
    }
}

//! The locks that a sale can use, and what each of them shows.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::demo::summary::flag_name;
use crate::lab;
use crate::recipes::{Recipe, Spin};

/// The lock of a sale, by name.
///
/// These are the recipes of the lab that break in a sale. The others need a fault that only the lab makes, such
/// as a server that loses its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LockKind {
    /// No lock at all
    None,
    /// A lock inside each copy
    Process,
    /// Redis: SETNX without expiry
    Setnx,
    /// Redis: SETNX, retried by recursion
    Recursion,
    /// Redis: a lease, and DEL without checking the owner
    Del,
    /// Redis: a lease, and GET before DEL
    GetDel,
    /// Redis: a lease with an atomic release, and no renewal
    Lease,
    /// Redis: a renewed lease that is not re-entrant
    NoReentry,
    /// Redis: a lease whose renewal does not check the owner
    RenewAnyOwner,
    /// Redis: a lease whose renewal creates it again
    RenewRecreate,
    /// Redis: a renewed lease without a fence
    NoFence,
    /// Redis: waiters that check, then subscribe
    CheckThenSubscribe,
    /// Redis: the classic recipe done right, retried every 20 ms
    Spin,
    /// tenure, on the store
    Tenure,
}

impl LockKind {
    /// Returns all of them, from no lock to tenure.
    pub(super) fn all() -> Vec<Self> {
        Self::value_variants().to_vec()
    }

    /// Returns the name that people write.
    pub(super) fn name(self) -> String {
        flag_name(&self)
    }

    /// Returns the lock of this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::from_str(name, false).ok()
    }

    /// Returns the recipe that it is, if any; it has the same name in the lab.
    pub(super) fn recipe(self) -> Option<&'static dyn Recipe> {
        match self {
            Self::None | Self::Process | Self::Tenure => None,
            Self::Spin => Some(&Spin),
            broken => lab::recipe(&broken.name()),
        }
    }

    /// Returns whether it works on a Redis server only.
    pub(super) fn needs_redis(self) -> bool {
        self.recipe().is_some()
    }

    /// Returns whether the nested step of a sale takes the lock again.
    ///
    /// Whoever writes a lock that is not re-entrant does not nest it, except in the one that shows this mistake.
    pub(super) fn is_nested(self) -> bool {
        matches!(self, Self::NoReentry | Self::Spin | Self::Tenure)
    }

    /// Returns what it shows, in half a sentence.
    pub(super) fn shows(self) -> &'static str {
        match self {
            Self::None => "two copies read the same stock and sell the same piece twice",
            Self::Process => "works in one copy; two copies sell the same piece twice",
            Self::Setnx => "with --kill the sale gets stuck: the dead holder keeps the lock",
            Self::Recursion => "with --slow the waiting copies overflow their stack and crash",
            Self::Del => "with --slow the late holder deletes the lock of the next one",
            Self::GetDel => {
                "with --slow the late holder may delete the lock of the next one, between GET and DEL"
            }
            Self::Lease => "with --slow the lease expires before the sale ends: an update is lost",
            Self::NoReentry => "the nested step deadlocks: it waits for its own caller",
            Self::RenewAnyOwner => {
                "with --pause a copy renews a lock that another copy holds by now"
            }
            Self::RenewRecreate => {
                "with --pause a copy re-creates a lock that another copy holds by now"
            }
            Self::NoFence => "with --pause the stale write is accepted: an update is lost",
            Self::CheckThenSubscribe => {
                "a release between check and subscribe is missed: the waiter sleeps on"
            }
            Self::Spin => "correct except with --pause, but slow, and not fair",
            Self::Tenure => "exactly the stock is sold, whatever happens to a copy",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lock_on_redis_has_its_recipe() {
        for lock in LockKind::all() {
            let own = matches!(lock, LockKind::None | LockKind::Process | LockKind::Tenure);
            assert_eq!(lock.recipe().is_none(), own, "{lock:?}");
        }
    }
}

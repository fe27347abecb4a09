//! The locks that a sale can use, and what each of them demonstrates.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::stock::{Means, RowGuard};
use crate::lab;
use crate::recipes::{Recipe, SPIN};
use crate::terminal::flag_name;

/// The lock of a sale, by name.
///
/// These are the recipes of the lab that break in a sale. The other recipes need a fault that only
/// the lab injects, such as a server that loses its data.
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
    /// A database: SELECT … FOR UPDATE on the row of the stock
    ForUpdate,
    /// A database: the row's version is compared at the write, which is retried
    Optimistic,
    /// tenure, on the store
    Tenure,
}

impl LockKind {
    /// Returns the name as users write it.
    pub(super) fn name(self) -> String {
        flag_name(&self)
    }

    /// Returns the lock with this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::from_str(name, false).ok()
    }

    /// Returns its recipe, if any; the recipe has the same name in the lab.
    pub(super) fn recipe(self) -> Option<Recipe> {
        match self {
            Self::None | Self::ForUpdate | Self::Optimistic | Self::Tenure => None,
            Self::Spin => Some(SPIN),
            broken => lab::recipe(&broken.name()),
        }
    }

    /// Returns how the database of the stock protects each sale, if it does so instead of a lock.
    pub(super) fn row_guard(self) -> Option<RowGuard> {
        match self {
            Self::ForUpdate => Some(RowGuard::Pessimistic),
            Self::Optimistic => Some(RowGuard::Optimistic),
            _ => None,
        }
    }

    /// Returns what it needs from the server of the stock.
    pub(super) fn needs(self) -> Means {
        match self {
            Self::None | Self::Process | Self::Tenure => Means::Nothing,
            Self::ForUpdate | Self::Optimistic => Means::Rows,
            _ => Means::Recipes,
        }
    }

    /// Returns whether the nested step of a sale takes the lock again.
    ///
    /// People who write a lock that is not re-entrant do not nest it, except in the recipe that
    /// demonstrates this mistake.
    pub(super) fn is_nested(self) -> bool {
        matches!(self, Self::NoReentry | Self::Spin | Self::Tenure)
    }

    /// Returns what it demonstrates, in half a sentence.
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
            Self::ForUpdate => {
                "exact: a killed copy frees its row at once, and with --pause everybody waits for the frozen one"
            }
            Self::Optimistic => {
                "exact and nobody waits, but copies that meet do their work again: see the refused writes"
            }
            Self::Tenure => "exactly the stock is sold, whatever happens to a copy",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lock_but_none_and_tenure_has_its_recipe_or_guards_its_row() {
        for lock in LockKind::value_variants().iter().copied() {
            let own = matches!(lock, LockKind::None | LockKind::Tenure);
            let (recipe, guard) = (lock.recipe(), lock.row_guard());
            assert_eq!(recipe.is_none() && guard.is_none(), own, "{lock:?}");
            assert_eq!(guard.is_some(), lock.needs() == Means::Rows, "{lock:?}");
        }
    }
}

//! Locks as people write them, each with the one mistake that its name says.
//!
//! The lab breaks them on purpose, and the flash sale runs them beside tenure. They are written as in the posts and
//! answers that they come from: nothing here is to be copied.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use tenure_checker::Freed;

mod blind_retry;
mod check_then_subscribe;
mod classic;
mod del;
mod failover;
mod get_del;
mod held;
mod incr_fence;
mod lease;
mod process;
mod recursion;
mod redlock_no_validity;
mod renew_any_owner;
mod renew_recreate;
mod renewed;
mod setnx;
mod setnx_expire;
mod spin;
mod stage;
mod trouble;

pub(crate) use held::{Held, Keeper, Renewal};
pub(crate) use spin::Spin;
pub(crate) use stage::{Reached, Stage};
pub(crate) use trouble::Trouble;

/// A lock as somebody wrote it.
#[async_trait]
pub(crate) trait Recipe: Debug + Send + Sync {
    /// Waits until the lock is taken, as long as the recipe waits.
    async fn lock(&self, name: &str) -> Result<Held, Trouble>;

    /// Gives the lock back, and says what came of it.
    async fn unlock(&self, held: Held) -> Result<Freed, Trouble>;
}

/// The recipes by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// A lock inside one process
    Process,
    /// SETNX without expiry
    Setnx,
    /// SETNX, tried again by recursion
    Recursion,
    /// SETNX, then EXPIRE
    SetnxExpire,
    /// DEL without looking who owns the lock
    Del,
    /// GET, then DEL
    GetDel,
    /// A lease with an atomic release, and no renewal
    Lease,
    /// A renewed lease that its own holder cannot take again
    NoReentry,
    /// Renewal that does not check the owner
    RenewAnyOwner,
    /// Renewal that creates a lost lock again
    RenewRecreate,
    /// A renewed lease without a fence
    NoFence,
    /// A fence counted by INCR
    IncrFence,
    /// A lock on whichever server is the master
    Failover,
    /// Redlock without the validity check
    RedlockNoValidity,
    /// A waiter that checks, then subscribes
    CheckThenSubscribe,
    /// A blind retry after a lost reply
    BlindRetry,
}

impl Kind {
    /// Returns the name that people write.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Setnx => "setnx",
            Self::Recursion => "recursion",
            Self::SetnxExpire => "setnx-expire",
            Self::Del => "del",
            Self::GetDel => "get-del",
            Self::Lease => "lease",
            Self::NoReentry => "no-reentry",
            Self::RenewAnyOwner => "renew-any-owner",
            Self::RenewRecreate => "renew-recreate",
            Self::NoFence => "no-fence",
            Self::IncrFence => "incr-fence",
            Self::Failover => "failover",
            Self::RedlockNoValidity => "redlock-no-validity",
            Self::CheckThenSubscribe => "check-then-subscribe",
            Self::BlindRetry => "blind-retry",
        }
    }

    /// Opens the recipe on these servers, of which most use the first alone.
    ///
    /// `ttl` is how long a lock lasts that nobody renews, where the recipe knows such a thing.
    pub(crate) async fn open(
        self,
        urls: &[String],
        ttl: Duration,
    ) -> Result<Arc<dyn Recipe>, Trouble> {
        let first = urls.first().map_or("", String::as_str);
        Ok(match self {
            Self::Process => Arc::new(process::Process::default()),
            Self::Setnx => Arc::new(setnx::Setnx::open(first).await?),
            Self::Recursion => Arc::new(recursion::Recursion::open(first)?),
            Self::SetnxExpire => Arc::new(setnx_expire::SetnxExpire::open(first, ttl).await?),
            Self::Del => Arc::new(del::Del::open(first, ttl).await?),
            Self::GetDel => Arc::new(get_del::GetDel::open(first, ttl).await?),
            Self::Lease => Arc::new(lease::Lease::open(first, ttl).await?),
            Self::NoReentry | Self::NoFence => Arc::new(renewed::Renewed::open(first, ttl).await?),
            Self::RenewAnyOwner => {
                Arc::new(renew_any_owner::RenewAnyOwner::open(first, ttl).await?)
            }
            Self::RenewRecreate => Arc::new(renew_recreate::RenewRecreate::open(first, ttl).await?),
            Self::IncrFence => Arc::new(incr_fence::IncrFence::open(first, ttl).await?),
            Self::Failover => Arc::new(failover::Failover::open(urls, ttl)),
            Self::RedlockNoValidity => {
                Arc::new(redlock_no_validity::RedlockNoValidity::open(urls, ttl).await?)
            }
            Self::CheckThenSubscribe => {
                Arc::new(check_then_subscribe::CheckThenSubscribe::open(first, ttl).await?)
            }
            Self::BlindRetry => Arc::new(blind_retry::BlindRetry::open(first, ttl)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_recipe_is_called_the_same_everywhere() {
        for kind in Kind::value_variants() {
            let value = kind.to_possible_value().unwrap();
            assert_eq!(value.get_name(), kind.name());
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }
}

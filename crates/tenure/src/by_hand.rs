//! Leases that belong to no process, for scripts that acquire, renew and release by hand.

use std::sync::Arc;
use std::time::Duration;

use crate::client::Client;
use crate::driver::{Life, Loss, Release, Released, Renewal, Renewed};
use crate::engine::{lock_request::check_ttl, to_end::to_end};
use crate::error::Result;
use crate::guard::Outcome;
use crate::lock::DEFAULT_TTL;
use crate::name::{ClaimId, Fence, Name, Owner};

/// A lease that lasts its ttl unless renewed, even if the process that took it exits.
///
/// All fields are public, so that it can be stored and continued by another process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// What is locked.
    pub name: Name,
    /// The claim that was granted, which renewals and releases name.
    pub claim: ClaimId,
    /// Who holds it; claims that name this owner share the lock.
    pub owner: Owner,
    /// The number of the grant, if the lease must have exactly this one.
    pub fence: Option<Fence>,
    /// How long a grant or a renewal lasts.
    pub ttl: Duration,
}

/// The result of renewing a lease by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the lease may be lost"]
pub enum LeaseRenewal {
    /// The lease lasts for another ttl.
    Renewed(Fence),
    /// The lease is over, and nothing was changed.
    Lost(Loss),
}

impl LeaseRenewal {
    /// Returns the fence of the lease if it was renewed.
    pub fn fence(self) -> Option<Fence> {
        match self {
            Self::Renewed(fence) => Some(fence),
            Self::Lost(_) => None,
        }
    }
}

impl Client {
    /// Returns the leases by hand of one owner on a name, oldest first.
    ///
    /// An owner that has acquired a lock three times has three leases, each renewed and released
    /// separately. A store does not know with which ttl they were acquired. Their `ttl` is the default,
    /// or their remaining time if that is longer: renewing them unchanged shortens none.
    ///
    /// # Errors
    ///
    /// A name that breaks the rules; what the store reports.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: listing changes nothing.
    pub async fn leases(&self, name: impl AsRef<str>, owner: &str) -> Result<Vec<Lease>> {
        let name = Name::new(name.as_ref())?;
        let holders = self.holders(&name).await?;
        let theirs = holders.into_iter().filter(|holder| {
            holder.life == Life::Ttl && holder.depth > 0 && holder.owner.as_str() == owner
        });
        let leases = theirs.map(|holder| Lease {
            name: name.clone(),
            claim: holder.claim,
            owner: holder.owner,
            fence: Some(holder.fence),
            ttl: holder
                .expires_in
                .max(DEFAULT_TTL)
                .min(self.engine.capabilities.longest_ttl),
        });
        Ok(leases.collect())
    }

    /// Restarts the ttl of a lease by hand, unless it is over.
    ///
    /// # Errors
    ///
    /// A ttl that breaks the rules; what the store reports.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a renewal that was started continues in the background, and the lease ends either at
    /// its old deadline or at the new one.
    pub async fn renew(&self, lease: &Lease) -> Result<LeaseRenewal> {
        self.engine.check_origin()?;
        check_ttl(lease.ttl, &self.engine.capabilities)?;
        let renewal = Renewal::new(
            lease.name.clone(),
            lease.claim.clone(),
            Life::Ttl,
            lease.ttl,
        )
        .with_fence(lease.fence);
        let driver = Arc::clone(&self.engine.driver);
        let renewed = async move { driver.renew(&[renewal]).await };
        let answers = to_end(&self.engine.background, renewed).await?;
        match answers.first() {
            Some(Renewed::Extended { fence, .. }) => Ok(LeaseRenewal::Renewed(*fence)),
            Some(Renewed::Lost(loss)) => Ok(LeaseRenewal::Lost(*loss)),
            Some(Renewed::Unknown) => Err(self.engine.broken("it answered none of one")),
            None => Ok(LeaseRenewal::Lost(Loss::Gone)),
        }
    }

    /// Frees a lease by hand; others of the same owner may still hold the name.
    ///
    /// Idempotent: a retry after a lost reply names the same claim, and frees nothing more.
    ///
    /// # Errors
    ///
    /// What the store reports.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a release that was started continues in the background.
    pub async fn release(&self, lease: &Lease) -> Result<Outcome> {
        self.engine.check_origin()?;
        let release = Release::new(lease.name.clone(), lease.claim.clone(), Life::Ttl)
            .with_fence(lease.fence);
        let driver = Arc::clone(&self.engine.driver);
        let released = async move { driver.release(&release).await };
        Ok(match to_end(&self.engine.background, released).await? {
            Released::NotHeld(loss) => Outcome::NotHeld(loss),
            Released::Freed { left: 0 } => Outcome::Released,
            Released::Freed { left } => Outcome::Lowered { depth: left },
        })
    }
}

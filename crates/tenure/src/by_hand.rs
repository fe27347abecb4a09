//! Leases that belong to no process, for scripts that acquire, renew and release by hand.

use std::time::Duration;

use crate::client::Client;
use crate::driver::{Life, Loss, Release, Released, Renewal, Renewed};
use crate::engine::order::check_ttl;
use crate::error::Result;
use crate::guard::Outcome;
use crate::name::{Fence, Name, Owner};

/// A lease that lasts its ttl unless renewed, whoever exits.
///
/// Everything about it is public, so that it can be written down and taken up by another process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// What is locked.
    pub name: Name,
    /// Who holds it.
    pub owner: Owner,
    /// Which grant; `None` stands for whichever the owner has.
    pub fence: Option<Fence>,
    /// How long a grant or a renewal lasts.
    pub ttl: Duration,
}

impl Client {
    /// Restarts the ttl of a lease by hand; `Err(loss)` inside if it is over.
    ///
    /// # Errors
    ///
    /// A ttl that breaks the rules; what the store reports.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the lease ends either at its old deadline or at the new one.
    pub async fn renew(&self, lease: &Lease) -> Result<Result<Fence, Loss>> {
        check_ttl(lease.ttl)?;
        let renewal = Renewal {
            name: lease.name.clone(),
            owner: lease.owner.clone(),
            fence: lease.fence,
            life: Life::Ttl,
            ttl: lease.ttl,
        };
        let answers = self.engine.driver.renew(&[renewal]).await?;
        match answers.first() {
            Some(Renewed::Kept(fence)) => Ok(Ok(*fence)),
            Some(Renewed::Lost(loss)) => Ok(Err(*loss)),
            Some(Renewed::Unknown) => Err(self.engine.broken("it answered none of one")),
            None => Ok(Err(Loss::Gone)),
        }
    }

    /// Frees a lease by hand.
    ///
    /// # Errors
    ///
    /// What the store reports.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the lease ends now or at its deadline.
    pub async fn release(&self, lease: &Lease) -> Result<Outcome> {
        let release = Release {
            name: lease.name.clone(),
            owner: lease.owner.clone(),
            fence: lease.fence,
            life: Life::Ttl,
            depth: 0,
            stays_taken: Duration::ZERO,
        };
        Ok(match self.engine.driver.release(&release).await? {
            Released::NotHeld(loss) => Outcome::NotHeld(loss),
            Released::Freed | Released::Lowered => Outcome::Released,
        })
    }
}

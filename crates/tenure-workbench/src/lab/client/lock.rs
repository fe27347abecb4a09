//! The lock of a client: the broken one, or tenure in its place.

use std::time::Duration;

use tenure::{Client, Outcome, Owner};
use tenure_checker::Freed;

use crate::lab::cases;
use crate::lab::messages::{Setup, Who};
use crate::recipes::{Error, Held, Keeper, RecipeLock, Result};

/// A lock that is ready to be taken.
#[derive(Debug)]
pub(super) enum Lock {
    Broken(RecipeLock),
    /// One owner for the whole process, as nested calls have.
    Tenure {
        client: Client,
        owner: Owner,
        ttl: Duration,
    },
}

impl Lock {
    pub(super) async fn open(setup: &Setup) -> Result<Self> {
        let Setup { who, urls, ttl, .. } = setup;
        Ok(match who {
            Who::Broken(name) => {
                let recipe = cases::recipe(name).ok_or(Error::NoRecipe)?;
                Self::Broken(RecipeLock::open(recipe, urls, *ttl).await?)
            }
            Who::Tenure => Self::Tenure {
                client: tenure::open(urls.first().map_or("", String::as_str)).await?,
                owner: Owner::unique(),
                ttl: *ttl,
            },
        })
    }

    /// Waits until the lock is taken.
    pub(super) async fn lock(&self, name: &str) -> Result<Held> {
        let (client, owner, ttl) = match self {
            Self::Broken(lock) => return lock.lock(name).await,
            Self::Tenure { client, owner, ttl } => (client, owner, ttl),
        };
        let lock = client.mutex(name).ttl(*ttl).owner(owner.clone());
        let guard = lock.lock().await?;
        let fence = guard.fence().get();
        let held = Held::new(name, owner.as_str().to_owned());
        Ok(held.with_fence(fence).kept_by(Keeper::Guard(guard)))
    }

    /// Releases the lock, and returns what came of it.
    pub(super) async fn unlock(&self, held: Held) -> Result<Freed> {
        match (self, held.keeper) {
            (Self::Broken(lock), keeper) => lock.unlock(Held { keeper, ..held }).await,
            (Self::Tenure { .. }, Keeper::Guard(guard)) => Ok(match guard.release().await? {
                Outcome::Released => Freed::Freed,
                Outcome::Lowered { .. } => Freed::Lowered,
                Outcome::NotHeld(_) => Freed::NotHeld,
                _ => Freed::Unknown,
            }),
            (Self::Tenure { .. }, _) => Ok(Freed::NotHeld),
        }
    }
}

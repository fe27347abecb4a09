//! tenure behind the interface of the recipes, so that it takes part in the same play.

use std::time::Duration;

use async_trait::async_trait;
use tenure::{Client, Outcome, Owner};
use tenure_checker::Freed;

use crate::lab::wire::Order;
use crate::recipes::{Held, Keeper, Recipe, Trouble};
use tenure_cli::error::Result;

/// tenure with one owner for the whole process, as nested calls have.
#[derive(Debug)]
pub(super) struct TenureLock {
    client: Client,
    owner: Owner,
    ttl: Duration,
}

impl TenureLock {
    pub(super) async fn open(order: &Order) -> Result<Self> {
        let url = order.urls.first().map_or("", String::as_str);
        Ok(Self {
            client: tenure::open(url).await?,
            owner: Owner::unique(),
            ttl: order.ttl,
        })
    }
}

#[async_trait]
impl Recipe for TenureLock {
    async fn lock(&self, name: &str) -> Result<Held, Trouble> {
        let lock = self.client.mutex(name).ttl(self.ttl);
        let guard = lock.owner(self.owner.clone()).lock().await?;
        let fence = guard.fence().get();
        let held = Held::new(name, self.owner.as_str().to_owned());
        Ok(held.with_fence(fence).kept_by(Keeper::Guard(guard)))
    }

    async fn unlock(&self, held: Held) -> Result<Freed, Trouble> {
        let Keeper::Guard(guard) = held.keeper else {
            return Ok(Freed::NotHeld);
        };
        Ok(match guard.release().await? {
            Outcome::Released => Freed::Freed,
            Outcome::Lowered { .. } => Freed::Lowered,
            Outcome::NotHeld(_) => Freed::NotHeld,
            _ => Freed::Unknown,
        })
    }
}

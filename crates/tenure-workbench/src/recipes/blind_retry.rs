//! A blind retry: after a lost reply the call begins again with a new token, and waits for its own first try.

use std::time::Duration;

use async_trait::async_trait;
use redis::{AsyncConnectionConfig, Client};
use tenure_checker::Freed;

use crate::recipes::classic::{
    PAUSE, client, compare_and_delete, connect_as, renewed_if_owned, set_nx_px, token,
};
use crate::recipes::{Held, Recipe, Trouble};

#[derive(Debug)]
pub(super) struct BlindRetry {
    client: Client,
    ttl: Duration,
}

impl BlindRetry {
    pub(super) fn open(url: &str, ttl: Duration) -> Result<Self, Trouble> {
        let client = client(url)?;
        Ok(Self { client, ttl })
    }

    /// One try, on a connection of its own; `None` if the lock is taken.
    async fn try_lock(&self, name: &str) -> Result<Option<Held>, Trouble> {
        let mut redis = connect_as(&self.client, AsyncConnectionConfig::new()).await?;
        let token = token();
        if !set_nx_px(&mut redis, name, &token, self.ttl).await? {
            return Ok(None);
        }
        let renewal = renewed_if_owned(&redis, name, &token, self.ttl);
        Ok(Some(Held::new(name, token).kept_by(renewal)))
    }
}

#[async_trait]
impl Recipe for BlindRetry {
    async fn lock(&self, name: &str) -> Result<Held, Trouble> {
        loop {
            // An error is taken for "not locked", and tried again like that.
            if let Ok(Some(held)) = self.try_lock(name).await {
                return Ok(held);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn unlock(&self, held: Held) -> Result<Freed, Trouble> {
        let mut redis = connect_as(&self.client, AsyncConnectionConfig::new()).await?;
        compare_and_delete(&mut redis, &held.name, &held.token).await
    }
}

//! A token for each call: a nested call is a stranger to its own caller, and waits for it.

use std::time::Duration;

use async_trait::async_trait;
use redis::aio::MultiplexedConnection;
use tenure_checker::Freed;

use crate::recipes::classic::{compare_and_delete, connect, renewed_if_owned, spin};
use crate::recipes::{Held, Recipe, Trouble};

#[derive(Debug)]
pub(super) struct NoReentry {
    redis: MultiplexedConnection,
    ttl: Duration,
}

impl NoReentry {
    pub(super) async fn open(url: &str, ttl: Duration) -> Result<Self, Trouble> {
        let redis = connect(url).await?;
        Ok(Self { redis, ttl })
    }
}

#[async_trait]
impl Recipe for NoReentry {
    async fn lock(&self, name: &str) -> Result<Held, Trouble> {
        let token = spin(&mut self.redis.clone(), name, self.ttl).await?;
        let renewal = renewed_if_owned(&self.redis, name, &token, self.ttl);
        Ok(Held::new(name, token).kept_by(renewal))
    }

    async fn unlock(&self, held: Held) -> Result<Freed, Trouble> {
        compare_and_delete(&mut self.redis.clone(), &held.name, &held.token).await
    }
}

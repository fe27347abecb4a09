//! `GET`, then `DEL`: the lock may have changed hands between the two.

use std::time::Duration;

use async_trait::async_trait;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use tenure_checker::Freed;

use crate::recipes::classic::{connect, freed, spin};
use crate::recipes::{Held, Recipe, Stage, Trouble};

#[derive(Debug)]
pub(super) struct GetDel {
    redis: MultiplexedConnection,
    ttl: Duration,
}

impl GetDel {
    pub(super) async fn open(url: &str, ttl: Duration) -> Result<Self, Trouble> {
        let redis = connect(url).await?;
        Ok(Self { redis, ttl })
    }
}

#[async_trait]
impl Recipe for GetDel {
    async fn lock(&self, name: &str) -> Result<Held, Trouble> {
        let token = spin(&mut self.redis.clone(), name, self.ttl).await?;
        Ok(Held::new(name, token))
    }

    async fn unlock(&self, held: Held) -> Result<Freed, Trouble> {
        let mut redis = self.redis.clone();
        let owner: Option<String> = redis.get(&held.name).await?;
        if owner != Some(held.token) {
            return Ok(Freed::NotHeld);
        }
        Stage::reach("after-get").await;
        Ok(freed(redis.del(&held.name).await?))
    }
}

//! A fence counted by `INCR`: a server that forgets the counter gives the same numbers again.

use std::time::Duration;

use async_trait::async_trait;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use tenure_checker::Freed;

use crate::recipes::classic::{compare_and_delete, connect, renewed_if_owned, spin};
use crate::recipes::{Held, Recipe, Trouble};

#[derive(Debug)]
pub(super) struct IncrFence {
    redis: MultiplexedConnection,
    ttl: Duration,
}

impl IncrFence {
    pub(super) async fn open(url: &str, ttl: Duration) -> Result<Self, Trouble> {
        let redis = connect(url).await?;
        Ok(Self { redis, ttl })
    }
}

#[async_trait]
impl Recipe for IncrFence {
    async fn lock(&self, name: &str) -> Result<Held, Trouble> {
        let mut redis = self.redis.clone();
        let token = spin(&mut redis, name, self.ttl).await?;
        let renewal = renewed_if_owned(&redis, name, &token, self.ttl);
        let fence: u64 = redis.incr(format!("{name}:fence"), 1).await?;
        Ok(Held::new(name, token).with_fence(fence).kept_by(renewal))
    }

    async fn unlock(&self, held: Held) -> Result<Freed, Trouble> {
        compare_and_delete(&mut self.redis.clone(), &held.name, &held.token).await
    }
}

//! `DEL` without looking who owns the lock: a late holder deletes the next one's.

use std::time::Duration;

use async_trait::async_trait;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use tenure_checker::Freed;

use crate::recipes::classic::{connect, freed, spin};
use crate::recipes::{Held, Recipe, Trouble};

#[derive(Debug)]
pub(super) struct Del {
    redis: MultiplexedConnection,
    ttl: Duration,
}

impl Del {
    pub(super) async fn open(url: &str, ttl: Duration) -> Result<Self, Trouble> {
        let redis = connect(url).await?;
        Ok(Self { redis, ttl })
    }
}

#[async_trait]
impl Recipe for Del {
    async fn lock(&self, name: &str) -> Result<Held, Trouble> {
        let token = spin(&mut self.redis.clone(), name, self.ttl).await?;
        Ok(Held::new(name, token))
    }

    async fn unlock(&self, held: Held) -> Result<Freed, Trouble> {
        let deleted = self.redis.clone().del(&held.name).await?;
        Ok(freed(deleted))
    }
}

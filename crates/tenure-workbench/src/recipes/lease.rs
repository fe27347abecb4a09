//! An atomic release, but nothing renews the lease: a job that takes longer works without the lock.

use std::time::Duration;

use async_trait::async_trait;
use redis::aio::MultiplexedConnection;
use tenure_checker::Freed;

use crate::recipes::classic::{compare_and_delete, connect, spin};
use crate::recipes::{Held, Recipe, Trouble};

#[derive(Debug)]
pub(super) struct Lease {
    redis: MultiplexedConnection,
    ttl: Duration,
}

impl Lease {
    pub(super) async fn open(url: &str, ttl: Duration) -> Result<Self, Trouble> {
        let redis = connect(url).await?;
        Ok(Self { redis, ttl })
    }
}

#[async_trait]
impl Recipe for Lease {
    async fn lock(&self, name: &str) -> Result<Held, Trouble> {
        let token = spin(&mut self.redis.clone(), name, self.ttl).await?;
        Ok(Held::new(name, token))
    }

    async fn unlock(&self, held: Held) -> Result<Freed, Trouble> {
        compare_and_delete(&mut self.redis.clone(), &held.name, &held.token).await
    }
}

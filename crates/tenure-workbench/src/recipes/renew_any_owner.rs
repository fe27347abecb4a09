//! Renewal by a bare `PEXPIRE`: it renews whoever's lock it finds, and takes that for its own.

use std::time::Duration;

use async_trait::async_trait;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use tenure_checker::Freed;

use crate::recipes::classic::{compare_and_delete, connect, millis, spin};
use crate::recipes::{Held, Keeper, Recipe, Renewal, Trouble};

#[derive(Debug)]
pub(super) struct RenewAnyOwner {
    redis: MultiplexedConnection,
    ttl: Duration,
}

impl RenewAnyOwner {
    pub(super) async fn open(url: &str, ttl: Duration) -> Result<Self, Trouble> {
        let redis = connect(url).await?;
        Ok(Self { redis, ttl })
    }

    fn renewal(&self, name: &str) -> Renewal {
        let (redis, name, ttl) = (self.redis.clone(), name.to_owned(), self.ttl);
        Renewal::start(ttl, move || {
            let (mut redis, name) = (redis.clone(), name.clone());
            let ttl_ms = i64::try_from(millis(ttl)).unwrap_or(i64::MAX);
            async move { Ok(redis.pexpire(name, ttl_ms).await?) }
        })
    }
}

#[async_trait]
impl Recipe for RenewAnyOwner {
    async fn lock(&self, name: &str) -> Result<Held, Trouble> {
        let token = spin(&mut self.redis.clone(), name, self.ttl).await?;
        let renewal = self.renewal(name);
        Ok(Held::new(name, token).kept_by(Keeper::Renewal(renewal)))
    }

    async fn unlock(&self, held: Held) -> Result<Freed, Trouble> {
        compare_and_delete(&mut self.redis.clone(), &held.name, &held.token).await
    }
}

//! `SETNX`, then `EXPIRE`: who dies between the two keeps the lock for ever.

use std::time::Duration;

use async_trait::async_trait;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use tenure_checker::Freed;

use crate::recipes::classic::{PAUSE, compare_and_delete, connect, token};
use crate::recipes::{Held, Recipe, Stage, Trouble};

#[derive(Debug)]
pub(super) struct SetnxExpire {
    redis: MultiplexedConnection,
    ttl: Duration,
}

impl SetnxExpire {
    pub(super) async fn open(url: &str, ttl: Duration) -> Result<Self, Trouble> {
        let redis = connect(url).await?;
        Ok(Self { redis, ttl })
    }
}

#[async_trait]
impl Recipe for SetnxExpire {
    async fn lock(&self, name: &str) -> Result<Held, Trouble> {
        let mut redis = self.redis.clone();
        let token = token();
        while !redis.set_nx::<_, _, bool>(name, &token).await? {
            tokio::time::sleep(PAUSE).await;
        }
        Stage::reach("after-setnx").await;
        let seconds = i64::try_from(self.ttl.as_secs().max(1)).unwrap_or(i64::MAX);
        redis.expire::<_, ()>(name, seconds).await?;
        Ok(Held::new(name, token))
    }

    async fn unlock(&self, held: Held) -> Result<Freed, Trouble> {
        compare_and_delete(&mut self.redis.clone(), &held.name, &held.token).await
    }
}

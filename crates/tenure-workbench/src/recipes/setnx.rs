//! `SETNX` without expiry: who dies with the lock keeps it for ever.

use async_trait::async_trait;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use tenure_checker::Freed;

use crate::recipes::classic::{PAUSE, connect, freed, token};
use crate::recipes::{Held, Recipe, Trouble};

#[derive(Debug)]
pub(super) struct Setnx {
    redis: MultiplexedConnection,
}

impl Setnx {
    pub(super) async fn open(url: &str) -> Result<Self, Trouble> {
        let redis = connect(url).await?;
        Ok(Self { redis })
    }
}

#[async_trait]
impl Recipe for Setnx {
    async fn lock(&self, name: &str) -> Result<Held, Trouble> {
        let mut redis = self.redis.clone();
        let token = token();
        while !redis.set_nx::<_, _, bool>(name, &token).await? {
            tokio::time::sleep(PAUSE).await;
        }
        Ok(Held::new(name, token))
    }

    async fn unlock(&self, held: Held) -> Result<Freed, Trouble> {
        let deleted = self.redis.clone().del(&held.name).await?;
        Ok(freed(deleted))
    }
}

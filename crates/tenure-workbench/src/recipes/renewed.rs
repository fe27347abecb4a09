//! Owner, ttl and renewal are right, and two mistakes are left. There is no number that a resource could check, so nobody stops a
//! holder that was paused; and each call has a token of its own, so a nested call is a stranger to its caller and waits for it.

use std::time::Duration;

use async_trait::async_trait;
use redis::aio::MultiplexedConnection;
use tenure_checker::Freed;

use crate::recipes::classic::{compare_and_delete, connect, renewed_if_owned, spin};
use crate::recipes::{Held, Recipe, Trouble};

#[derive(Debug)]
pub(super) struct Renewed {
    redis: MultiplexedConnection,
    ttl: Duration,
}

impl Renewed {
    pub(super) async fn open(url: &str, ttl: Duration) -> Result<Self, Trouble> {
        let redis = connect(url).await?;
        Ok(Self { redis, ttl })
    }
}

#[async_trait]
impl Recipe for Renewed {
    async fn lock(&self, name: &str) -> Result<Held, Trouble> {
        let token = spin(&mut self.redis.clone(), name, self.ttl).await?;
        let renewal = renewed_if_owned(&self.redis, name, &token, self.ttl);
        Ok(Held::new(name, token).kept_by(renewal))
    }

    async fn unlock(&self, held: Held) -> Result<Freed, Trouble> {
        compare_and_delete(&mut self.redis.clone(), &held.name, &held.token).await
    }
}

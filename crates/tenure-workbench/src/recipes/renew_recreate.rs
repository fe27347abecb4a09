//! Renewal by `SET`: a lock that was lost is created again, over the one who has it now.

use std::time::Duration;

use async_trait::async_trait;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use tenure_checker::Freed;

use crate::recipes::classic::{compare_and_delete, connect, millis, spin};
use crate::recipes::{Held, Keeper, Recipe, Renewal, Trouble};

#[derive(Debug)]
pub(super) struct RenewRecreate {
    redis: MultiplexedConnection,
    ttl: Duration,
}

impl RenewRecreate {
    pub(super) async fn open(url: &str, ttl: Duration) -> Result<Self, Trouble> {
        let redis = connect(url).await?;
        Ok(Self { redis, ttl })
    }

    fn renewal(&self, name: &str, token: &str) -> Renewal {
        let (redis, ttl) = (self.redis.clone(), self.ttl);
        let (name, token) = (name.to_owned(), token.to_owned());
        Renewal::start(ttl, move || {
            let (mut redis, name, token) = (redis.clone(), name.clone(), token.clone());
            async move {
                redis.pset_ex::<_, _, ()>(name, token, millis(ttl)).await?;
                Ok(true)
            }
        })
    }
}

#[async_trait]
impl Recipe for RenewRecreate {
    async fn lock(&self, name: &str) -> Result<Held, Trouble> {
        let token = spin(&mut self.redis.clone(), name, self.ttl).await?;
        let renewal = self.renewal(name, &token);
        Ok(Held::new(name, token).kept_by(Keeper::Renewal(renewal)))
    }

    async fn unlock(&self, held: Held) -> Result<Freed, Trouble> {
        let Held {
            name,
            token,
            keeper,
            ..
        } = held;
        drop(keeper);
        compare_and_delete(&mut self.redis.clone(), &name, &token).await
    }
}

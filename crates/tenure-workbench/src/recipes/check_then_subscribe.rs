//! A waiter that looks first and subscribes then: a release between the two wakes nobody.

use std::time::Duration;

use async_trait::async_trait;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, PushKind, Script};
use tenure_checker::Freed;
use tokio::sync::mpsc;

use crate::recipes::classic::{client, connect_as, freed, renewed_if_owned, set_nx_px, token};
use crate::recipes::{Held, Recipe, Stage, Trouble};

#[derive(Debug)]
pub(super) struct CheckThenSubscribe {
    client: Client,
    redis: MultiplexedConnection,
    ttl: Duration,
}

impl CheckThenSubscribe {
    pub(super) async fn open(url: &str, ttl: Duration) -> Result<Self, Trouble> {
        let client = client(url)?;
        let redis = connect_as(&client, AsyncConnectionConfig::new()).await?;
        Ok(Self { client, redis, ttl })
    }

    /// Subscribes to the lock's channel, and waits for the word that it is free.
    async fn released(&self, name: &str) -> Result<(), Trouble> {
        let (tell, mut told) = mpsc::unbounded_channel();
        let config = AsyncConnectionConfig::new().set_push_sender(tell);
        let mut inbox = connect_as(&self.client, config).await?;
        inbox.subscribe(channel(name)).await?;
        Stage::reach("subscribed").await;
        while let Some(push) = told.recv().await {
            if push.kind == PushKind::Message {
                break;
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Recipe for CheckThenSubscribe {
    async fn lock(&self, name: &str) -> Result<Held, Trouble> {
        let mut redis = self.redis.clone();
        let token = token();
        while !set_nx_px(&mut redis, name, &token, self.ttl).await? {
            Stage::reach("after-check").await;
            self.released(name).await?;
        }
        let renewal = renewed_if_owned(&redis, name, &token, self.ttl);
        Ok(Held::new(name, token).kept_by(renewal))
    }

    async fn unlock(&self, held: Held) -> Result<Freed, Trouble> {
        let script = Script::new(
            "if redis.call('GET', KEYS[1]) == ARGV[1] then
               redis.call('DEL', KEYS[1])
               redis.call('PUBLISH', ARGV[2], 'free')
               return 1
             end
             return 0",
        );
        let mut call = script.key(&held.name);
        call.arg(&held.token).arg(channel(&held.name));
        let deleted: u64 = call.invoke_async(&mut self.redis.clone()).await?;
        Ok(freed(deleted))
    }
}

fn channel(name: &str) -> String {
    format!("{name}:released")
}

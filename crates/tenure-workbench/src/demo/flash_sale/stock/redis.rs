//! The stock on a Redis server.

use std::time::Duration;

use async_trait::async_trait;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisResult, Script};

use super::{Stock, Written, failed};
use crate::bench::redis_client;
use crate::demo::flash_sale::record::Counted;
use tenure_cli::error::Result;

/// A hash of four numbers; a script makes the comparison of the fence and the write one step.
#[derive(Debug)]
pub(super) struct Redis {
    connection: MultiplexedConnection,
    write: Script,
    key: String,
}

impl Redis {
    pub(super) async fn open(url: &str, key: &str) -> Result<Self> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(None);
        let client = redis_client(url).map_err(|error| failed(&error))?;
        let connecting = client.get_multiplexed_async_connection_with_config(&config);
        Ok(Self {
            connection: connecting.await.map_err(|error| failed(&error))?,
            write: Script::new(include_str!("write.lua")),
            key: key.to_owned(),
        })
    }

    async fn ask<T: redis::FromRedisValue>(&self, command: &redis::Cmd) -> Result<T> {
        let mut connection = self.connection.clone();
        let answer: RedisResult<T> = command.query_async(&mut connection).await;
        answer.map_err(|error| failed(&error))
    }
}

#[async_trait]
impl Stock for Redis {
    async fn fill(&self, left: u64) -> Result<()> {
        self.ask::<()>(redis::cmd("DEL").arg(&self.key)).await?;
        let mut set = redis::cmd("HSET");
        set.arg(&self.key).arg("left").arg(left);
        self.ask::<()>(&set).await?;
        // In case that nobody lives to remove it.
        self.ask(redis::cmd("EXPIRE").arg(&self.key).arg(A_DAY))
            .await
    }

    async fn read(&self) -> Result<u64> {
        self.ask(redis::cmd("HGET").arg(&self.key).arg("left"))
            .await
    }

    async fn write(&self, left: u64, fence: Option<u64>) -> Result<Written> {
        let mut connection = self.connection.clone();
        let mut script = self.write.key(&self.key);
        // Text, because Lua's numbers are not exact above 2^53.
        script
            .arg(left)
            .arg(fence.map(|fence| format!("{fence:020}")));
        let written: RedisResult<u8> = script.invoke_async(&mut connection).await;
        match written.map_err(|error| failed(&error))? {
            1 => Ok(Written::Accepted),
            _ => Ok(Written::Stale),
        }
    }

    async fn counted(&self) -> Result<Counted> {
        let mut get = redis::cmd("HMGET");
        get.arg(&self.key)
            .arg("left")
            .arg("accepted")
            .arg("refused");
        let (left, accepted, refused): (u64, Option<u64>, Option<u64>) = self.ask(&get).await?;
        Ok(Counted {
            left,
            accepted: accepted.unwrap_or(0),
            refused: refused.unwrap_or(0),
        })
    }

    async fn remove(&self, lock: &str) -> Result<()> {
        self.ask(redis::cmd("DEL").arg(&self.key).arg(lock)).await
    }
}

/// In seconds; longer than any sale.
const A_DAY: u32 = 24 * 60 * 60;

const PATIENCE: Duration = Duration::from_secs(5);

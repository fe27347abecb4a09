//! The stock on a Redis server.

use async_trait::async_trait;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisResult, Script};
use tenure_checker::Written;

use super::{Kind, Means, Stock, StockLocation, failed};
use crate::demo::flash_sale::record::Counted;
use crate::{recipes, servers};
use tenure_cli::Result;

pub(super) const KIND: Kind = Kind {
    schemes: recipes::SCHEMES,
    // If servers vote, the first of them.
    server: |store| match servers::each(store).swap_remove(0) {
        server if recipes::is_one_server(&server) => Ok(server),
        _ => Err("the stock of the sale lives on one server; name it with --store redis://…"),
    },
    means: Means::Recipes,
    open: |at| Box::pin(async move { Ok(Box::new(Redis::open(&at).await?) as _) }),
};

pub(super) const KIND_OF_VOTES: Kind = Kind {
    schemes: &["redlock", "redlocks"],
    ..KIND
};

/// A hash of four numbers; a script makes the comparison of the fence and the write atomic.
#[derive(Debug)]
struct Redis {
    connection: MultiplexedConnection,
    write: Script,
    key: String,
}

impl Redis {
    async fn open(at: &StockLocation) -> Result<Self> {
        let client = recipes::client(&at.server).map_err(|error| failed(&error))?;
        let connecting = recipes::connect(&client, AsyncConnectionConfig::new());
        Ok(Self {
            connection: connecting.await.map_err(|error| failed(&error))?,
            write: Script::new(include_str!("write.lua")),
            key: format!("tenure-demo:{}:stock", at.id),
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
        // In case no process survives to remove it.
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
        // Passed as text, because Lua's numbers are not exact above 2^53.
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

#[cfg(test)]
mod tests {
    use tenure::url::StoreUrl;

    use super::*;

    #[test]
    fn the_stock_of_a_vote_lives_on_its_first_server() {
        let cases = [
            ("redlock://a,b:1?prefix=x:", "redis://a"),
            ("redlocks://ann:secret@a:1,b", "rediss://ann:secret@a:1"),
            ("redlock://rediss://a:1/3,b,c", "rediss://a:1/3"),
            ("redlock://unix:/run/r.sock,b,c", "unix:/run/r.sock"),
        ];
        for (url, server) in cases {
            let found = (KIND_OF_VOTES.server)(&StoreUrl::parse(url).unwrap());
            assert_eq!(found.unwrap().reveal(), server, "{url}");
        }
    }
}

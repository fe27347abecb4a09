//! A lock on whichever server is the master: the next master may never have heard of it.

use std::time::Duration;

use async_trait::async_trait;
use redis::aio::MultiplexedConnection;
use tenure_checker::Freed;

use crate::recipes::classic::{PAUSE, compare_and_delete, connect, set_nx_px, token};
use crate::recipes::{Held, Recipe, Trouble};

#[derive(Debug)]
pub(super) struct Failover {
    urls: Vec<String>,
    ttl: Duration,
}

impl Failover {
    pub(super) fn open(urls: &[String], ttl: Duration) -> Self {
        let urls = urls.to_vec();
        Self { urls, ttl }
    }

    /// Connects to the first server that says it is the master.
    async fn master(&self) -> Result<MultiplexedConnection, Trouble> {
        for url in &self.urls {
            let Ok(mut redis) = connect(url).await else {
                continue;
            };
            let mut info = redis::cmd("INFO");
            let said: String = info.arg("replication").query_async(&mut redis).await?;
            if said.contains("role:master") {
                return Ok(redis);
            }
        }
        Err(Trouble::NoMaster)
    }
}

#[async_trait]
impl Recipe for Failover {
    async fn lock(&self, name: &str) -> Result<Held, Trouble> {
        let token = token();
        loop {
            let mut redis = self.master().await?;
            if set_nx_px(&mut redis, name, &token, self.ttl).await? {
                return Ok(Held::new(name, token));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn unlock(&self, held: Held) -> Result<Freed, Trouble> {
        let mut redis = self.master().await?;
        compare_and_delete(&mut redis, &held.name, &held.token).await
    }
}

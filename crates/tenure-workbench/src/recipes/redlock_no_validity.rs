//! Redlock that counts votes and does not look at the clock again: the votes may have expired meanwhile.

use std::time::Duration;

use async_trait::async_trait;
use redis::aio::MultiplexedConnection;
use tenure_checker::Freed;
use tokio::task::JoinSet;

use crate::recipes::classic::{PAUSE, compare_and_delete, connect, set_nx_px, token};
use crate::recipes::{Held, Recipe, Stage, Trouble};

#[derive(Debug)]
pub(super) struct RedlockNoValidity {
    nodes: Vec<MultiplexedConnection>,
    ttl: Duration,
}

impl RedlockNoValidity {
    pub(super) async fn open(urls: &[String], ttl: Duration) -> Result<Self, Trouble> {
        let mut nodes = Vec::with_capacity(urls.len());
        for url in urls {
            nodes.push(connect(url).await?);
        }
        Ok(Self { nodes, ttl })
    }

    /// Asks all nodes at once, and counts those that said yes.
    async fn votes(&self, name: &str, token: &str) -> usize {
        let mut asked = JoinSet::new();
        for node in &self.nodes {
            let (mut node, ttl) = (node.clone(), self.ttl);
            let (name, token) = (name.to_owned(), token.to_owned());
            asked.spawn(async move { set_nx_px(&mut node, &name, &token, ttl).await });
        }
        Stage::reach("asked").await;
        let answers = asked.join_all().await;
        answers
            .iter()
            .filter(|vote| matches!(vote, Ok(true)))
            .count()
    }

    /// Lets go on all nodes; returns how many had the lock.
    async fn release(&self, name: &str, token: &str) -> usize {
        let mut freed = 0;
        for node in &self.nodes {
            let released = compare_and_delete(&mut node.clone(), name, token).await;
            freed += usize::from(matches!(released, Ok(Freed::Freed)));
        }
        freed
    }
}

#[async_trait]
impl Recipe for RedlockNoValidity {
    async fn lock(&self, name: &str) -> Result<Held, Trouble> {
        loop {
            let token = token();
            if self.votes(name, &token).await > self.nodes.len() / 2 {
                return Ok(Held::new(name, token));
            }
            self.release(name, &token).await;
            tokio::time::sleep(PAUSE.mul_f64(1.0 + fastrand::f64())).await;
        }
    }

    async fn unlock(&self, held: Held) -> Result<Freed, Trouble> {
        match self.release(&held.name, &held.token).await {
            0 => Ok(Freed::NotHeld),
            _ => Ok(Freed::Freed),
        }
    }
}

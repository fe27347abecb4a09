//! Locks on Redis as people write them: what the broken locks of the lab and of the flash sale are made of.
//!
//! A [`Recipe`] is right where nothing else is written: each broken lock overrides what it gets wrong.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use tenure_checker::Freed;

pub(crate) mod breakpoint;
mod error;
mod held;
mod redis;
mod spin;

pub(crate) use breakpoint::breakpoint;
pub(crate) use error::{Error, Result};
pub(crate) use held::{Held, Keeper, Renewal};
pub(crate) use redis::{PAUSE, Redis, client, connect, freed, millis, token};
pub(crate) use spin::Spin;

/// A lock as somebody wrote it.
#[async_trait]
pub(crate) trait Recipe: Debug + Send + Sync {
    /// Waits until the lock is taken: by default a `SET NX PX` with a random token, tried every 20 ms.
    async fn lock(&self, redis: &Redis, name: &str) -> Result<Held> {
        let token = redis.spin(name).await?;
        Ok(Held::new(name, token))
    }

    /// Releases the lock, and returns what came of it: by default a script that compares the token.
    async fn unlock(&self, redis: &Redis, held: Held) -> Result<Freed> {
        redis.compare_and_delete(&held.name, &held.token).await
    }
}

/// A recipe on its servers.
#[derive(Debug)]
pub(crate) struct RecipeLock {
    recipe: &'static dyn Recipe,
    redis: Redis,
}

impl RecipeLock {
    /// Connects to these servers, of which most recipes use the first alone.
    ///
    /// `ttl` is how long a lock lasts that nobody renews, where the recipe knows such a thing.
    pub(crate) async fn open(
        recipe: &'static dyn Recipe,
        urls: &[String],
        ttl: Duration,
    ) -> Result<Self> {
        let redis = Redis::open(urls, ttl).await?;
        Ok(Self { recipe, redis })
    }

    pub(crate) async fn lock(&self, name: &str) -> Result<Held> {
        self.recipe.lock(&self.redis, name).await
    }

    pub(crate) async fn unlock(&self, held: Held) -> Result<Freed> {
        self.recipe.unlock(&self.redis, held).await
    }
}

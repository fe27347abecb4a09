//! Locks on Redis as people write them: the parts of the broken locks in the lab and in the flash
//! sale.
//!
//! A [`Recipe`] is correct by default: each broken lock overrides what it gets wrong.

use std::pin::Pin;
use std::time::Duration;

use tenure_checker::Freed;

use crate::history;

pub(crate) mod breakpoint;
mod error;
mod held;
mod redis;
mod spin;

pub(crate) use breakpoint::breakpoint;
pub(crate) use error::{Error, Result};
pub(crate) use held::{Held, Keeper, Renewal};
pub(crate) use redis::{
    PAUSE, PLAIN_SCHEMES, Redis, SCHEMES, client, connect, freed, is_one_server, token,
};
pub(crate) use spin::SPIN;

/// A lock as somebody wrote it: two functions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Recipe {
    /// Waits for the lock.
    pub(crate) lock: for<'a> fn(&'a Redis, &'a str) -> Pending<'a, Held>,
    /// Releases the lock, and returns the outcome.
    pub(crate) unlock: for<'a> fn(&'a Redis, Held) -> Pending<'a, Freed>,
}

type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

impl Recipe {
    /// A `SET NX PX` with a random token, retried every 20 ms, and a script that compares the token
    /// before it deletes.
    pub(crate) const PLAIN: Self = Self {
        lock: |redis, name| Box::pin(async move { Ok(Held::new(name, redis.spin(name).await?)) }),
        unlock: |redis, held| {
            Box::pin(async move { redis.compare_and_delete(&held.name, &held.token).await })
        },
    };
}

/// A lock that is ready to use.
#[derive(Debug)]
pub(crate) enum AnyLock {
    /// No lock: everybody holds it at once.
    None,
    /// A recipe on its servers.
    Recipe(Recipe, Redis),
    Tenure(tenure::Lock),
}

impl AnyLock {
    /// Connects a recipe to these servers. Most recipes use only the first server, and one uses
    /// none.
    ///
    /// `ttl` is how long a lock lasts without renewal, if the recipe has a ttl.
    pub(crate) async fn of_recipe(recipe: Recipe, urls: &[String], ttl: Duration) -> Result<Self> {
        Ok(Self::Recipe(recipe, Redis::open(urls, ttl).await?))
    }

    /// Waits for the lock.
    ///
    /// # Cancel safety
    ///
    /// A cancelled call of tenure gives up its place in line; a recipe may leave its lock behind.
    pub(crate) async fn lock(&self, name: &str) -> Result<Held> {
        match self {
            Self::None => Ok(Held::new(name, String::new())),
            Self::Recipe(recipe, redis) => (recipe.lock)(redis, name).await,
            Self::Tenure(lock) => {
                let guard = lock.lock().await?;
                let fence = guard.fence().get();
                let held = Held::new(name, String::new()).with_fence(fence);
                Ok(held.kept_by(Keeper::Guard(guard)))
            }
        }
    }

    /// Releases the lock, and returns the outcome.
    pub(crate) async fn unlock(&self, held: Held) -> Result<Freed> {
        match (self, held.keeper) {
            (Self::Recipe(recipe, redis), keeper) => {
                (recipe.unlock)(redis, Held { keeper, ..held }).await
            }
            (_, Keeper::Guard(guard)) => Ok(history::freed(&guard.release().await)),
            _ => Ok(Freed::NotHeld),
        }
    }
}

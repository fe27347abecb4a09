//! `SETNX`, tried again by a call of the same function: each try leaves a frame on the stack.

use std::thread;

use async_trait::async_trait;
use redis::{Client, Commands, Connection};
use tenure_checker::Freed;
use tokio::sync::oneshot;

use crate::recipes::classic::{PAUSE, client, freed, token};
use crate::recipes::{Held, Recipe, Trouble};

#[derive(Debug)]
pub(super) struct Recursion {
    redis: Client,
}

impl Recursion {
    pub(super) fn open(url: &str) -> Result<Self, Trouble> {
        let redis = client(url)?;
        Ok(Self { redis })
    }
}

/// Takes the lock, or sleeps and begins again.
fn lock(redis: &mut Connection, name: &str) -> Result<String, Trouble> {
    let token = token();
    if redis.set_nx(name, &token)? {
        return Ok(token);
    }
    thread::sleep(PAUSE / 20);
    lock(redis, name)
}

#[async_trait]
impl Recipe for Recursion {
    async fn lock(&self, name: &str) -> Result<Held, Trouble> {
        let (redis, owned) = (self.redis.clone(), name.to_owned());
        let (answer, answered) = oneshot::channel();
        let call = move || {
            let locked = redis.get_connection().map_err(Trouble::from);
            let locked = locked.and_then(|mut redis| lock(&mut redis, &owned));
            // Nobody listens if the caller has gone.
            let _ = answer.send(locked);
        };
        let thread = thread::Builder::new().stack_size(STACK_BYTES).spawn(call);
        thread.map_err(|_| Trouble::ThreadEnded)?;
        let token = answered.await.map_err(|_| Trouble::ThreadEnded)??;
        Ok(Held::new(name, token))
    }

    async fn unlock(&self, held: Held) -> Result<Freed, Trouble> {
        let (redis, name) = (self.redis.clone(), held.name);
        let delete = move || -> Result<u64, Trouble> { Ok(redis.get_connection()?.del(name)?) };
        let deleted = tokio::task::spawn_blocking(delete).await;
        Ok(freed(deleted.map_err(|_| Trouble::ThreadEnded)??))
    }
}

/// Small, and the pause between two tries short, so that what takes minutes in a service takes a second or two here.
const STACK_BYTES: usize = 256 * 1024;

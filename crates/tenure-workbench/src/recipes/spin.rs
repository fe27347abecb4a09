//! The classic recipe done right: a hash with owner and depth, changed by scripts, and renewed
//! while held. A client that finds it taken sleeps for 20 ms and retries.
//!
//! It is re-entrant within a task. It has no line of waiters and no fence. It is the baseline for
//! speed.

use std::sync::LazyLock;

use redis::Script;
use tenure_checker::Freed;

use crate::recipes::{Held, Keeper, PAUSE, Recipe, Redis, Result, freed, token};
use tenure_cli::output::millis;

/// The lock, which is re-entrant for the tasks of a process.
pub(crate) const SPIN: Recipe = Recipe {
    lock: |redis, name| Box::pin(lock(redis, name)),
    unlock: |redis, held| Box::pin(unlock(redis, held)),
};

/// Returns the running task as the owner, which may take again what it holds.
fn owner(redis: &Redis) -> String {
    match tokio::task::try_id() {
        Some(task) => format!("{}:{task}", redis.id),
        None => format!("{}:{}", redis.id, token()),
    }
}

fn renewal(redis: &Redis, name: &str, owner: &str) -> Keeper {
    let (name, owner, ttl) = (name.to_owned(), owner.to_owned(), redis.ttl);
    redis.renewed(move |mut redis| {
        let (name, owner) = (name.clone(), owner.clone());
        async move {
            let mut call = RENEW.key(name);
            call.arg(owner).arg(millis(ttl));
            Ok(call.invoke_async(&mut redis).await?)
        }
    })
}

async fn lock(redis: &Redis, name: &str) -> Result<Held> {
    let owner = owner(redis);
    loop {
        let mut call = ACQUIRE.key(name);
        call.arg(&owner).arg(millis(redis.ttl));
        let depth: u64 = call.invoke_async(&mut redis.first()).await?;
        match depth {
            0 => tokio::time::sleep(PAUSE).await,
            1 => {
                let renewal = renewal(redis, name, &owner);
                return Ok(Held::new(name, owner).kept_by(renewal));
            }
            // The outermost call renews for all.
            _ => return Ok(Held::new(name, owner)),
        }
    }
}

async fn unlock(redis: &Redis, held: Held) -> Result<Freed> {
    let mut call = RELEASE.key(&held.name);
    call.arg(&held.token);
    let lowered: u64 = call.invoke_async(&mut redis.first()).await?;
    Ok(freed(lowered))
}

/// Takes the lock, or takes it once more. Returns how many times the owner holds it, or 0 if
/// another owner does.
static ACQUIRE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
           local depth = redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
           redis.call('PEXPIRE', KEYS[1], ARGV[2])
           return depth
         end
         return 0",
    )
});

/// Releases it once; returns 1 if the owner held it.
static RELEASE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
           return 0
         end
         if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) == 0 then
           redis.call('DEL', KEYS[1])
         end
         return 1",
    )
});

/// Restarts its ttl; returns 1 if the owner holds it.
static RENEW: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
           return redis.call('PEXPIRE', KEYS[1], ARGV[2])
         end
         return 0",
    )
});

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tenure_testkit::RedisServer;

    use super::*;
    use crate::recipes::AnyLock;

    #[tokio::test]
    async fn one_task_takes_it_twice_and_others_wait_for_both_releases() {
        let server = RedisServer::start().unwrap();
        let ttl = Duration::from_secs(30);
        let open = async || {
            AnyLock::of_recipe(SPIN, &[server.url()], ttl)
                .await
                .unwrap()
        };
        let (spin, other) = (Arc::new(open().await), open().await);
        let mine = Arc::clone(&spin);
        let (outer, inner) = tokio::spawn(async move {
            let outer = mine.lock("a").await.unwrap();
            (outer, mine.lock("a").await.unwrap())
        })
        .await
        .unwrap();
        assert_eq!(spin.unlock(inner).await.unwrap(), Freed::Freed);
        let mut theirs = std::pin::pin!(other.lock("a"));
        let still_taken = tokio::time::timeout(Duration::from_millis(100), theirs.as_mut()).await;
        assert!(still_taken.is_err());
        assert_eq!(spin.unlock(outer).await.unwrap(), Freed::Freed);
        let theirs = theirs.await.unwrap();
        let token = theirs.token.clone();
        assert_eq!(other.unlock(theirs).await.unwrap(), Freed::Freed);
        let gone = Held::new("a", token);
        assert_eq!(other.unlock(gone).await.unwrap(), Freed::NotHeld);
    }
}

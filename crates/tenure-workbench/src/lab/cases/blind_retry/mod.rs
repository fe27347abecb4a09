//! A blind retry: after a lost reply the call starts again with a new token, and waits for its own
//! first attempt.

use crate::lab::prelude::*;

pub(super) const CASE: Case = Case {
    number: 15,
    name: "blind-retry",
    title: "Blind retry after a lost reply",
    recipe: Recipe {
        lock: |redis, name| Box::pin(lock(redis, name)),
        unlock: |redis, held| Box::pin(unlock(redis, held)),
    },
    fault: "the reply to SET NX is lost",
    faults: &["reply-loss"],
    breaks: Promise::Liveness,
    instead: "asks again as the same owner, and is told what it has.",
    lesson: include_str!("lesson.md"),
    ttl: LONG,
    grants: 2,
    run,
};

/// Returns the same on a new connection, one for each attempt.
async fn connected(redis: &Redis) -> recipes::Result<Redis> {
    let node = recipes::connect(&redis.client()?, AsyncConnectionConfig::new()).await?;
    Ok(redis.on(node))
}

/// Makes one attempt; returns `None` if the lock is taken.
async fn try_lock(redis: &Redis, name: &str) -> recipes::Result<Option<Held>> {
    let (redis, token) = (connected(redis).await?, token());
    if !redis.set_nx_px(name, &token).await? {
        return Ok(None);
    }
    let renewal = redis.renewed_if_owned(name, &token);
    Ok(Some(Held::new(name, token).kept_by(renewal)))
}

async fn lock(redis: &Redis, name: &str) -> recipes::Result<Held> {
    loop {
        // Mistakes an error for "not locked", and retries.
        if let Ok(Some(held)) = try_lock(redis, name).await {
            return Ok(held);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn unlock(redis: &Redis, held: Held) -> recipes::Result<Freed> {
    let redis = connected(redis).await?;
    redis.compare_and_delete(&held.name, &held.token).await
}

/// The store grants the lock, but its reply to the client is lost.
fn run(lab: &mut Experiment) -> Result<()> {
    let ann = lab.client_through_proxies()?;
    let warm = lab.lock(ann)?;
    lab.release(warm)?;
    lab.proxies[0].lose_reply_then_cut(NAME.as_bytes());
    let claim = lab.ask(ann)?;
    lab.until("the reply is lost", |lab| {
        Ok(lab.proxies[0].replies_swallowed() == 1)
    })?;
    if !lab.is_taken()? {
        return Err(Error::Step("the lost reply was not a yes".to_owned()));
    }
    lab.fault("reply-loss", None);
    lab.heal();
    lab.finish(claim)
}

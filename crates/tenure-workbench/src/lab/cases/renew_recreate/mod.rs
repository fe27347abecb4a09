//! Renewal by `SET`: it creates a lost lock again, and overwrites the lock of the new holder.

use crate::lab::prelude::*;

pub(super) const CASE: Case = Case {
    number: 9,
    name: "renew-recreate",
    title: "Renewal that creates a lost lock again",
    recipe: Recipe {
        lock: |redis, name| Box::pin(lock(redis, name)),
        unlock: |redis, held| Box::pin(unlock(redis, held)),
    },
    fault: "the holder is paused past its lease",
    faults: &["pause"],
    breaks: Promise::OwnerOnly,
    instead: "never creates a lock by renewing: what is lost stays lost, and the next holder is left alone.",
    lesson: include_str!("lesson.md"),
    ttl: SHORT,
    grants: 2,
    run,
};

async fn lock(redis: &Redis, name: &str) -> recipes::Result<Held> {
    let token = redis.spin(name).await?;
    let (key, value, ttl_ms) = (name.to_owned(), token.clone(), millis(redis.ttl));
    let renewal = redis.renewed(move |mut redis| {
        let (key, value) = (key.clone(), value.clone());
        async move {
            redis.pset_ex::<_, _, ()>(key, value, ttl_ms).await?;
            Ok(true)
        }
    });
    Ok(Held::new(name, token).kept_by(renewal))
}

async fn unlock(redis: &Redis, held: Held) -> recipes::Result<Freed> {
    // Otherwise the renewal may create again what was just deleted.
    drop(held.keeper);
    redis.compare_and_delete(&held.name, &held.token).await
}

/// The holder is paused past its lease; another client gets the lock; then the first one renews and
/// releases.
fn run(lab: &mut Experiment) -> Result<()> {
    let (ann, bob) = lab.two_clients()?;
    let first = lab.lock(ann)?;
    let second = lab.ask(bob)?;
    lab.pause(ann)?;
    lab.break_at(bob, "renewed")?;
    lab.granted(second)?;
    // Both renew in the same way. The renewal of this client must not happen between the renewal
    // and the release of the other.
    lab.until_at(bob, "renewed")?;
    lab.break_at(ann, "renewed")?;
    lab.resume(ann)?;
    lab.heal();
    lab.until_at(ann, "renewed")?;
    lab.release(first)?;
    lab.release(second)
}

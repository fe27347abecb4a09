//! Renewal by a bare `PEXPIRE`: it renews the lock of any owner, and mistakes it for its own.

use crate::lab::prelude::*;

pub(super) const CASE: Case = Case {
    number: 9,
    name: "renew-any-owner",
    title: "Renewal that does not check the owner",
    recipe: Recipe {
        lock: |redis, name| Box::pin(lock(redis, name)),
        ..Recipe::PLAIN
    },
    fault: "the holder is paused past its lease",
    faults: &["pause"],
    breaks: Promise::NoLostUpdate,
    instead: "renews only what is still its own, and tells a holder that has lost its lock.",
    lesson: include_str!("lesson.md"),
    ttl: SHORT,
    grants: 2,
    run,
};

async fn lock(redis: &Redis, name: &str) -> recipes::Result<Held> {
    let token = redis.spin(name).await?;
    let ttl_ms = i64::try_from(redis.ttl.as_millis()).unwrap_or(i64::MAX);
    let key = name.to_owned();
    let renewal = redis.renewed(move |mut redis| {
        let key = key.clone();
        async move { Ok(redis.pexpire(key, ttl_ms).await?) }
    });
    Ok(Held::new(name, token).kept_by(renewal))
}

/// The holder is paused past its lease; another client gets the lock; then the first one renews,
/// and both write.
fn run(lab: &mut Experiment) -> Result<()> {
    let (ann, bob) = lab.two_clients()?;
    let first = lab.lock(ann)?;
    let second = lab.ask(bob)?;
    lab.pause(ann)?;
    lab.granted(second)?;
    lab.break_at(ann, "renewed")?;
    lab.resume(ann)?;
    lab.heal();
    lab.until_at(ann, "renewed")?;
    lab.continue_from(ann, "renewed")?;
    if lab.is_tenure() {
        lab.lost(first)?;
    }
    lab.read(first)?;
    lab.read(second)?;
    lab.write(first)?;
    lab.write(second)?;
    lab.release(first)?;
    lab.release(second)
}

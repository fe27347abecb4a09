//! `SETNX` without expiry: a client that dies with the lock keeps it for ever.

use crate::lab::prelude::*;

pub(super) const CASE: Case = Case {
    number: 2,
    name: "setnx",
    title: "SETNX without expiry",
    recipe: Recipe {
        lock: |redis, name| Box::pin(lock(redis, name)),
        unlock: |redis, held| Box::pin(unlock(redis, held)),
    },
    fault: "the holder is killed",
    faults: &["kill"],
    breaks: Promise::Liveness,
    instead: "gives leases that end by themselves: who dies keeps nothing for longer than its ttl.",
    lesson: include_str!("lesson.md"),
    ttl: SHORT,
    grants: 2,
    run,
};

async fn lock(redis: &Redis, name: &str) -> recipes::Result<Held> {
    Ok(Held::new(name, redis.spin_without_ttl(name).await?))
}

async fn unlock(redis: &Redis, held: Held) -> recipes::Result<Freed> {
    redis.delete(&held.name).await
}

/// The holder is killed while another client waits.
fn run(lab: &mut Experiment) -> Result<()> {
    let (ann, bob) = lab.two_clients()?;
    lab.lock(ann)?;
    let second = lab.ask(bob)?;
    lab.kill(ann)?;
    lab.heal();
    lab.finish(second)
}

//! `DEL` without checking the owner: a late holder deletes the lock of the next one.

use crate::lab::prelude::*;

pub(super) const CASE: Case = Case {
    number: 5,
    name: "del",
    title: "DEL without looking who owns it",
    recipe: Recipe {
        unlock: |redis, held| Box::pin(unlock(redis, held)),
        ..Recipe::PLAIN
    },
    fault: "the holder is paused past its lease, then lets go",
    faults: &["pause"],
    breaks: Promise::OwnerOnly,
    instead: "lets go in one step that compares the owner first, and says that the lock was no longer held.",
    lesson: include_str!("lesson.md"),
    ttl: SHORT,
    grants: 2,
    run,
};

async fn unlock(redis: &Redis, held: Held) -> recipes::Result<Freed> {
    redis.delete(&held.name).await
}

/// The holder is paused past its lease; another client gets the lock; then the first one releases.
fn run(lab: &mut Experiment) -> Result<()> {
    let (ann, bob) = lab.two_clients()?;
    let first = lab.lock(ann)?;
    let second = lab.ask(bob)?;
    lab.pause(ann)?;
    lab.granted(second)?;
    lab.resume(ann)?;
    lab.heal();
    lab.release(first)?;
    lab.release(second)
}

//! Owner, ttl and renewal are correct, but each call has its own token: a nested call waits for its
//! caller.

use crate::lab::prelude::*;

pub(super) const CASE: Case = Case {
    number: 8,
    name: "no-reentry",
    title: "A nested call without re-entry",
    recipe: Recipe {
        lock: |redis, name| Box::pin(lock(redis, name)),
        ..Recipe::PLAIN
    },
    fault: "the holder takes the same lock again",
    faults: &["nested-call"],
    breaks: Promise::Liveness,
    instead: "knows the owner of nested calls, counts how often it holds the lock, and grants it again.",
    lesson: include_str!("lesson.md"),
    ttl: SHORT,
    grants: 2,
    run,
};

async fn lock(redis: &Redis, name: &str) -> recipes::Result<Held> {
    let token = redis.spin(name).await?;
    let renewal = redis.renewed_if_owned(name, &token);
    Ok(Held::new(name, token).kept_by(renewal))
}

/// The holder calls a function that takes the same lock.
fn run(lab: &mut Experiment) -> Result<()> {
    let ann = lab.client()?;
    let outer = lab.lock(ann)?;
    let inner = lab.ask(ann)?;
    lab.fault("nested-call", Some(ann));
    lab.heal();
    lab.finish(inner)?;
    match lab.is_granted(inner) {
        true => lab.release(outer),
        false => Ok(()),
    }
}

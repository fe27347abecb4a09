//! `SETNX`, then `EXPIRE`: a client that dies between the two keeps the lock for ever.

use crate::lab::prelude::*;

pub(super) const CASE: Case = Case {
    number: 4,
    name: "setnx-expire",
    title: "SETNX, then EXPIRE",
    recipe: Recipe {
        lock: |redis, name| Box::pin(lock(redis, name)),
        ..Recipe::PLAIN
    },
    fault: "the client is killed between the two",
    faults: &["kill"],
    breaks: Promise::Liveness,
    instead: "takes a lock and sets its ttl in one step of the store; nothing lies between.",
    lesson: include_str!("lesson.md"),
    ttl: SHORT,
    grants: 1,
    run,
};

async fn lock(redis: &Redis, name: &str) -> recipes::Result<Held> {
    let token = redis.spin_without_ttl(name).await?;
    breakpoint("after-setnx").await;
    let seconds = i64::try_from(redis.ttl.as_secs().max(1)).unwrap_or(i64::MAX);
    redis.first().expire::<_, ()>(name, seconds).await?;
    Ok(Held::new(name, token))
}

/// A client is killed when the store has granted its lock and the reply has not arrived.
fn run(lab: &mut Experiment) -> Result<()> {
    let ann = lab.client_through_proxies()?;
    lab.set_proxies(Fault::Delay(DELAY));
    let bob = lab.client()?;
    lab.break_at(ann, "after-setnx")?;
    lab.ask(ann)?;
    lab.until("the store has the lock", Experiment::is_taken)?;
    lab.until_at(ann, "after-setnx")?;
    lab.kill(ann)?;
    let second = lab.ask(bob)?;
    lab.heal();
    lab.finish(second)
}

/// The delay of the reply, during which the client is killed.
const DELAY: Duration = Duration::from_millis(200);

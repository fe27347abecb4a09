//! A waiter that checks first and then subscribes: a release between the two wakes nobody.

use redis::{PushKind, Script};
use tokio::sync::mpsc;

use crate::lab::prelude::*;

pub(super) const CASE: Case = Case {
    number: 14,
    name: "check-then-subscribe",
    title: "A waiter that checks, then subscribes",
    recipe: Recipe {
        lock: |redis, name| Box::pin(lock(redis, name)),
        unlock: |redis, held| Box::pin(unlock(redis, held)),
    },
    fault: "the holder lets go between the two",
    faults: &["release-in-the-gap"],
    breaks: Promise::Liveness,
    instead: "stands in line in the store, which hands over to the next by name; and asks again at the time the store named.",
    lesson: include_str!("lesson.md"),
    ttl: SHORT,
    grants: 2,
    run,
};

/// Subscribes to the lock's channel, and waits for the message that it is free.
async fn released(redis: &Redis, name: &str) -> recipes::Result<()> {
    let (sender, mut pushes) = mpsc::unbounded_channel();
    let config = AsyncConnectionConfig::new().set_push_sender(sender);
    let mut inbox = recipes::connect(&redis.client()?, config).await?;
    inbox.subscribe(channel(name)).await?;
    breakpoint("subscribed").await;
    while let Some(push) = pushes.recv().await {
        if push.kind == PushKind::Message {
            break;
        }
    }
    Ok(())
}

async fn lock(redis: &Redis, name: &str) -> recipes::Result<Held> {
    let token = token();
    while !redis.set_nx_px(name, &token).await? {
        breakpoint("after-check").await;
        released(redis, name).await?;
    }
    let renewal = redis.renewed_if_owned(name, &token);
    Ok(Held::new(name, token).kept_by(renewal))
}

async fn unlock(redis: &Redis, held: Held) -> recipes::Result<Freed> {
    let script = Script::new(
        "if redis.call('GET', KEYS[1]) == ARGV[1] then
           redis.call('DEL', KEYS[1])
           redis.call('PUBLISH', ARGV[2], 'free')
           return 1
         end
         return 0",
    );
    let mut call = script.key(&held.name);
    call.arg(&held.token).arg(channel(&held.name));
    let deleted: u64 = call.invoke_async(&mut redis.first()).await?;
    Ok(recipes::freed(deleted))
}

fn channel(name: &str) -> String {
    format!("{name}:released")
}

/// The holder releases after the waiter has checked and before it subscribes.
fn run(lab: &mut Experiment) -> Result<()> {
    let (ann, bob) = lab.two_clients()?;
    let first = lab.lock(ann)?;
    lab.break_at(bob, "after-check")?;
    let second = lab.ask(bob)?;
    lab.until_at(bob, "after-check")?;
    lab.release(first)?;
    lab.fault("release-in-the-gap", None);
    lab.heal();
    lab.continue_from(bob, "after-check")?;
    lab.finish(second)
}

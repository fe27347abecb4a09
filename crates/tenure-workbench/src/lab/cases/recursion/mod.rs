//! `SETNX`, retried by recursion: each attempt leaves a frame on the stack.

use std::thread;

use redis::{Commands, Connection};
use tokio::sync::oneshot;

use crate::lab::prelude::*;

pub(super) const CASE: Case = Case {
    number: 3,
    name: "recursion",
    title: "Retry by recursion",
    recipe: Recipe {
        lock: |redis, name| Box::pin(lock(redis, name)),
        unlock: |redis, held| Box::pin(unlock(redis, held)),
    },
    fault: "a long wait",
    faults: &["long-wait"],
    breaks: Promise::Liveness,
    instead: "waits in line without trying again and again, on no stack at all.",
    lesson: include_str!("lesson.md"),
    ttl: LONG,
    grants: 2,
    run,
};

/// Takes the lock, or sleeps and calls itself.
fn lock_by_recursion(redis: &mut Connection, name: &str) -> recipes::Result<String> {
    let token = token();
    if redis.set_nx(name, &token)? {
        return Ok(token);
    }
    thread::sleep(PAUSE / 20);
    lock_by_recursion(redis, name)
}

async fn lock(redis: &Redis, name: &str) -> recipes::Result<Held> {
    let (client, owned) = (redis.client()?, name.to_owned());
    let (answer, answered) = oneshot::channel();
    let call = move || {
        let locked = client.get_connection().map_err(recipes::Error::from);
        let locked = locked.and_then(|mut redis| lock_by_recursion(&mut redis, &owned));
        // Nobody receives it if the caller is gone.
        let _ = answer.send(locked);
    };
    let thread = thread::Builder::new().stack_size(STACK_BYTES).spawn(call);
    thread.map_err(|_| recipes::Error::ThreadEnded)?;
    let answered = answered.await;
    let token = answered.map_err(|_| recipes::Error::ThreadEnded)??;
    Ok(Held::new(name, token))
}

async fn unlock(redis: &Redis, held: Held) -> recipes::Result<Freed> {
    redis.delete(&held.name).await
}

/// The stack is small, and the pause between two attempts is short, so that a crash that takes
/// minutes in a service takes a second or two here.
const STACK_BYTES: usize = 256 * 1024;

/// The holder keeps the lock for longer than the waiter's stack lasts.
fn run(lab: &mut Experiment) -> Result<()> {
    let (ann, bob) = lab.two_clients()?;
    let first = lab.lock(ann)?;
    let second = lab.ask(bob)?;
    let longest = match lab.is_tenure() {
        true => WAIT,
        false => LONG,
    };
    let crashed = lab.crashes(bob, longest)?;
    lab.fault("long-wait", Some(bob));
    lab.heal();
    lab.release(first)?;
    match crashed {
        true => Ok(()),
        false => lab.finish(second),
    }
}

/// How long the waiter of tenure waits: about as long as the stack of the other one lasts.
const WAIT: Duration = Duration::from_secs(2);

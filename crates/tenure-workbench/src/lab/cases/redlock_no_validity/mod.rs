//! Redlock that counts votes without checking the elapsed time: the votes may have expired
//! meanwhile.

use tokio::task::JoinSet;

use crate::lab::prelude::*;

pub(super) const CASE: Case = Case {
    number: 13,
    name: "redlock-no-validity",
    title: "Redlock without the validity check",
    recipe: Recipe {
        lock: |redis, name| Box::pin(lock(redis, name)),
        unlock: |redis, held| Box::pin(unlock(redis, held)),
    },
    fault: "the client is paused while the votes are in its buffers",
    faults: &["pause"],
    breaks: Promise::Exclusion,
    instead: "looks at the clock again after the votes, and counts only what is left of the ttl.",
    lesson: include_str!("lesson.md"),
    ttl: SHORT,
    grants: 2,
    run,
};

/// Asks all nodes at once, and counts the votes.
async fn votes(redis: &Redis, name: &str, token: &str) -> usize {
    let mut asked = JoinSet::new();
    for node in &redis.nodes {
        let node = redis.on(node.clone());
        let (name, token) = (name.to_owned(), token.to_owned());
        asked.spawn(async move { node.set_nx_px(&name, &token).await });
    }
    breakpoint("asked").await;
    let votes = asked.join_all().await;
    votes.iter().filter(|vote| matches!(vote, Ok(true))).count()
}

/// Releases on all nodes; returns how many had the lock.
async fn release(redis: &Redis, name: &str, token: &str) -> u64 {
    let mut freed = 0;
    for node in &redis.nodes {
        let released = redis.on(node.clone()).compare_and_delete(name, token).await;
        freed += u64::from(matches!(released, Ok(Freed::Freed)));
    }
    freed
}

async fn lock(redis: &Redis, name: &str) -> recipes::Result<Held> {
    loop {
        let token = token();
        if votes(redis, name, &token).await > redis.nodes.len() / 2 {
            return Ok(Held::new(name, token));
        }
        release(redis, name, &token).await;
        tokio::time::sleep(PAUSE.mul_f64(1.0 + fastrand::f64())).await;
    }
}

async fn unlock(redis: &Redis, held: Held) -> recipes::Result<Freed> {
    Ok(recipes::freed(
        release(redis, &held.name, &held.token).await,
    ))
}

/// A client is paused with a majority of votes in its buffers, until they have expired and another
/// client has the lock.
fn run(lab: &mut Experiment) -> Result<()> {
    for _ in 0..3 {
        lab.start_server()?;
    }
    let ann = lab.client_through_proxies()?;
    // A long lease, so that a missing renewal is not the reason that it breaks.
    let bob = lab.client_for(LONG)?;
    lab.set_proxies(Fault::Delay(DELAY));
    lab.break_at(ann, "asked")?;
    let first = lab.ask(ann)?;
    lab.until("all servers have voted", Experiment::is_taken)?;
    lab.until_at(ann, "asked")?;
    lab.pause(ann)?;
    lab.set_proxies(Fault::Pass);
    lab.until("all votes have expired", Experiment::is_free)?;
    let second = lab.lock(bob)?;
    lab.resume(ann)?;
    lab.heal();
    lab.continue_from(ann, "asked")?;
    if lab.is_tenure() {
        lab.release(second)?;
        lab.answered(first)?;
        // Votes that arrive too late are an error for the caller, who may ask again.
        let again = match lab.is_granted(first) {
            true => first,
            false => lab.ask(ann)?,
        };
        lab.finish(again)
    } else {
        lab.granted(first)?;
        lab.release(first)?;
        lab.release(second)
    }
}

/// How long votes take to arrive, so that a pause catches them in flight.
const DELAY: Duration = Duration::from_millis(100);

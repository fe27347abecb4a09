//! `GET`, then `DEL`: the lock may have changed hands in between.

use crate::lab::prelude::*;

pub(super) const CASE: Case = Case {
    number: 6,
    name: "get-del",
    title: "GET, then DEL",
    recipe: Recipe {
        unlock: |redis, held| Box::pin(unlock(redis, held)),
        ..Recipe::PLAIN
    },
    fault: "the lease ends between the two",
    faults: &["late-release"],
    breaks: Promise::Exclusion,
    instead: "compares and frees in one step of the store, so a release that comes late frees nothing.",
    lesson: include_str!("lesson.md"),
    ttl: SHORT,
    grants: 3,
    run,
};

async fn unlock(redis: &Redis, held: Held) -> recipes::Result<Freed> {
    let owner: Option<String> = redis.first().get(&held.name).await?;
    if owner != Some(held.token) {
        return Ok(Freed::NotHeld);
    }
    breakpoint("after-get").await;
    redis.delete(&held.name).await
}

/// The lease expires while its release is in flight, another client gets the lock, and a third one
/// asks.
fn run(lab: &mut Experiment) -> Result<()> {
    let ann = lab.client_through_proxies()?;
    // A long lease, so that a missing renewal is not the reason that a third client gets in.
    let (bob, eve) = (lab.client_for(LONG)?, lab.client()?);
    let first = lab.lock(ann)?;
    lab.break_at(ann, "after-get")?;
    if lab.is_tenure() {
        // There is no gap to wait in, so the whole release is delayed on its way.
        lab.set_proxies(Fault::Freeze);
    }
    lab.begin_release(first)?;
    lab.until_at(ann, "after-get")?;
    let second = lab.lock(bob)?;
    if !lab.is_tenure() && lab.is_released(first) {
        return Err(Error::Step("the release was not late".to_owned()));
    }
    lab.fault("late-release", None);
    lab.set_proxies(Fault::Pass);
    lab.heal();
    lab.continue_from(ann, "after-get")?;
    lab.released(first)?;
    let third = lab.ask(eve)?;
    if lab.is_tenure() {
        lab.release(second)?;
        lab.finish(third)
    } else {
        lab.granted(third)?;
        lab.release(third)?;
        lab.release(second)
    }
}

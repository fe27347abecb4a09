//! A fence counted by `INCR`: a server that loses the counter issues the same numbers again.

use crate::lab::prelude::*;

pub(super) const CASE: Case = Case {
    number: 11,
    name: "incr-fence",
    title: "A fence counted by INCR",
    recipe: Recipe {
        lock: |redis, name| Box::pin(lock(redis, name)),
        ..Recipe::PLAIN
    },
    fault: "the server restarts without its data",
    faults: &["restart"],
    breaks: Promise::GrowingFences,
    instead: "takes the larger of the last fence + 1 and the server's clock, so that it grows through the loss of all data.",
    lesson: include_str!("lesson.md"),
    ttl: LONG,
    grants: 2,
    run,
};

async fn lock(redis: &Redis, name: &str) -> recipes::Result<Held> {
    let token = redis.spin(name).await?;
    let renewal = redis.renewed_if_owned(name, &token);
    let fence: u64 = redis.first().incr(format!("{name}:fence"), 1).await?;
    Ok(Held::new(name, token).with_fence(fence).kept_by(renewal))
}

/// The server loses all its data between two grants.
fn run(lab: &mut Experiment) -> Result<()> {
    let ann = lab.client()?;
    let first = lab.lock(ann)?;
    lab.release(first)?;
    let server = lab.server();
    let before = server.pid();
    server.start_again()?;
    if server.pid() == before || server.command(&["DBSIZE"])?.to_string() != "0" {
        return Err(Error::Step("the server has not lost its data".to_owned()));
    }
    lab.fault("restart", None);
    lab.heal();
    let bob = lab.client()?;
    let second = lab.lock(bob)?;
    lab.release(second)
}

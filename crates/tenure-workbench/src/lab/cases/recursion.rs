//! Retry by recursion, and a long wait.

use std::time::Duration;

use tenure_checker::Promise;
use tenure_testkit::RedisServer;

use crate::lab::case::{Case, LONG};
use crate::lab::props::{curtain, urls};
use crate::lab::scene::Scene;
use crate::lab::upset::Result;
use crate::recipes::Kind;

pub(super) const CASE: Case = Case {
    number: 3,
    title: "Retry by recursion",
    recipe: Kind::Recursion,
    fault: "a long wait",
    faults: &["long-wait"],
    breaks: Promise::Liveness,
    instead: "waits in line without trying again and again, on no stack at all.",
    lesson: include_str!("03-recursion.md"),
    ttl: LONG,
    grants: 2,
    play,
};

/// The holder keeps the lock for longer than the waiter's stack lasts.
fn play(scene: &mut Scene) -> Result<()> {
    let server = RedisServer::start()?;
    let urls = urls(scene, &[server.port()]);
    let (ann, bob) = (scene.enter(&urls)?, scene.enter(&urls)?);
    let first = scene.lock(ann)?;
    let second = scene.ask(bob)?;
    let longest = match scene.is_tenure() {
        true => WAIT,
        false => LONG,
    };
    let crashed = scene.crashes(bob, longest)?;
    scene.fault("long-wait", Some(bob));
    scene.heal();
    scene.release(first)?;
    if !crashed {
        scene.finish(second)?;
    }
    curtain(scene, &[&server])
}

/// How long tenure's waiter waits: about as long as the other one's stack lasts.
const WAIT: Duration = Duration::from_secs(2);

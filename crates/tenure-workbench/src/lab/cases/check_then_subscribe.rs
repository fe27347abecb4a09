//! A waiter that checks and then subscribes.

use tenure_checker::Promise;
use tenure_testkit::RedisServer;

use crate::lab::case::{Case, SHORT};
use crate::lab::props::{curtain, urls};
use crate::lab::scene::Scene;
use crate::lab::upset::Result;
use crate::recipes::Kind;

pub(super) const CASE: Case = Case {
    number: 14,
    title: "A waiter that checks, then subscribes",
    recipe: Kind::CheckThenSubscribe,
    fault: "the holder lets go between the two",
    faults: &["release-in-the-gap"],
    breaks: Promise::Liveness,
    instead: "stands in line in the store, which hands over to the next by name; and asks again at the time the store named.",
    lesson: include_str!("14-check-then-subscribe.md"),
    ttl: SHORT,
    grants: 2,
    play,
};

/// The holder lets go after the waiter has looked, and before it listens.
fn play(scene: &mut Scene) -> Result<()> {
    let server = RedisServer::start()?;
    let urls = urls(scene, &[server.port()]);
    let (ann, bob) = (scene.enter(&urls)?, scene.enter(&urls)?);
    let first = scene.lock(ann)?;
    scene.halt(bob, "after-check")?;
    let second = scene.ask(bob)?;
    scene.halts(bob, "after-check")?;
    scene.release(first)?;
    scene.fault("release-in-the-gap", None);
    scene.heal();
    scene.go(bob, "after-check")?;
    scene.finish(second)?;
    curtain(scene, &[&server])
}

//! A nested call without re-entry.

use tenure_checker::Promise;
use tenure_testkit::RedisServer;

use crate::lab::case::{Case, SHORT};
use crate::lab::props::{curtain, urls};
use crate::lab::scene::Scene;
use crate::lab::upset::Result;
use crate::recipes::Kind;

pub(super) const CASE: Case = Case {
    number: 8,
    title: "A nested call without re-entry",
    recipe: Kind::NoReentry,
    fault: "the holder takes the same lock again",
    faults: &["nested-call"],
    breaks: Promise::Liveness,
    instead: "knows the owner of nested calls, counts how often it holds the lock, and grants it again.",
    lesson: include_str!("08-no-reentry.md"),
    ttl: SHORT,
    grants: 2,
    play,
};

/// The holder calls a function that takes the same lock.
fn play(scene: &mut Scene) -> Result<()> {
    let server = RedisServer::start()?;
    let ann = scene.enter(&urls(scene, &[server.port()]))?;
    let outer = scene.lock(ann)?;
    let inner = scene.ask(ann)?;
    scene.fault("nested-call", Some(ann));
    scene.heal();
    scene.finish(inner)?;
    if scene.is_granted(inner) {
        scene.release(outer)?;
    }
    curtain(scene, &[&server])
}

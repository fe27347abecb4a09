//! A lock inside one process, and two processes.

use tenure_checker::Promise;
use tenure_testkit::RedisServer;

use crate::lab::case::{Case, LONG};
use crate::lab::props::{curtain, urls};
use crate::lab::scene::Scene;
use crate::lab::upset::Result;
use crate::recipes::Kind;

pub(super) const CASE: Case = Case {
    number: 1,
    title: "A lock inside one process",
    recipe: Kind::Process,
    fault: "two processes",
    faults: &[],
    breaks: Promise::Exclusion,
    instead: "asks a store that all processes share, and the second one waits in its line.",
    lesson: include_str!("01-process.md"),
    ttl: LONG,
    grants: 2,
    play,
};

/// One holds the lock when another, in a process of its own, asks for it.
fn play(scene: &mut Scene) -> Result<()> {
    let server = RedisServer::start()?;
    let urls = urls(scene, &[server.port()]);
    let (ann, bob) = (scene.enter(&urls)?, scene.enter(&urls)?);
    scene.heal();
    let first = scene.lock(ann)?;
    scene.read(first)?;
    let second = scene.ask(bob)?;
    if scene.is_tenure() {
        scene.write(first)?;
        scene.release(first)?;
        scene.finish(second)?;
    } else {
        scene.granted(second)?;
        scene.release(second)?;
        scene.write(first)?;
        scene.release(first)?;
    }
    curtain(scene, &[&server])
}

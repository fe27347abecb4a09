//! Everything right, but a holder is paused and the resource checks no fence.

use tenure_checker::Promise;
use tenure_testkit::RedisServer;

use crate::lab::BEFORE_WRITE;
use crate::lab::case::{Case, SHORT};
use crate::lab::props::{curtain, urls};
use crate::lab::scene::Scene;
use crate::lab::upset::Result;
use crate::recipes::Kind;

pub(super) const CASE: Case = Case {
    number: 10,
    title: "Everything right, but no fence",
    recipe: Kind::NoFence,
    fault: "the holder is paused between its last check and its write",
    faults: &["pause"],
    breaks: Promise::NoLostUpdate,
    instead: "numbers its grants, and the resource refuses the smaller number.",
    lesson: include_str!("10-no-fence.md"),
    ttl: SHORT,
    grants: 2,
    play,
};

/// The holder has read, and is paused past its lease before it writes; another reads, writes and lets go meanwhile.
fn play(scene: &mut Scene) -> Result<()> {
    let server = RedisServer::start()?;
    let urls = urls(scene, &[server.port()]);
    let (ann, bob) = (scene.enter(&urls)?, scene.enter(&urls)?);
    let first = scene.lock(ann)?;
    scene.read(first)?;
    scene.halt(ann, BEFORE_WRITE)?;
    scene.begin_write(first)?;
    scene.halts(ann, BEFORE_WRITE)?;
    let second = scene.ask(bob)?;
    scene.pause(ann)?;
    scene.granted(second)?;
    scene.read(second)?;
    scene.write(second)?;
    scene.release(second)?;
    scene.resume(ann)?;
    scene.heal();
    scene.go(ann, BEFORE_WRITE)?;
    scene.done(first)?;
    scene.release(first)?;
    curtain(scene, &[&server])
}

//! Renewal that does not check the owner, and a holder that is paused.

use tenure_checker::Promise;
use tenure_testkit::RedisServer;

use crate::lab::case::{Case, SHORT};
use crate::lab::props::{curtain, urls};
use crate::lab::scene::Scene;
use crate::lab::upset::Result;
use crate::recipes::Kind;

pub(super) const CASE: Case = Case {
    number: 9,
    title: "Renewal that does not check the owner",
    recipe: Kind::RenewAnyOwner,
    fault: "the holder is paused past its lease",
    faults: &["pause"],
    breaks: Promise::NoLostUpdate,
    instead: "renews only what is still its own, and tells a holder that has lost its lock.",
    lesson: include_str!("09-renew-any-owner.md"),
    ttl: SHORT,
    grants: 2,
    play,
};

/// The holder is paused past its lease; another is granted the lock; then the first one renews, and both write.
fn play(scene: &mut Scene) -> Result<()> {
    let server = RedisServer::start()?;
    let urls = urls(scene, &[server.port()]);
    let (ann, bob) = (scene.enter(&urls)?, scene.enter(&urls)?);
    let first = scene.lock(ann)?;
    let second = scene.ask(bob)?;
    scene.pause(ann)?;
    scene.granted(second)?;
    scene.halt(ann, "renewed")?;
    scene.resume(ann)?;
    scene.heal();
    scene.halts(ann, "renewed")?;
    scene.go(ann, "renewed")?;
    if scene.is_tenure() {
        scene.lost(first)?;
    }
    scene.read(first)?;
    scene.read(second)?;
    scene.write(first)?;
    scene.write(second)?;
    scene.release(first)?;
    scene.release(second)?;
    curtain(scene, &[&server])
}

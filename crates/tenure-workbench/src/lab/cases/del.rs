//! `DEL` without looking who owns the lock, and a holder that is late.

use tenure_checker::Promise;
use tenure_testkit::RedisServer;

use crate::lab::case::{Case, SHORT};
use crate::lab::props::{curtain, urls};
use crate::lab::scene::Scene;
use crate::lab::upset::Result;
use crate::recipes::Kind;

pub(super) const CASE: Case = Case {
    number: 5,
    title: "DEL without looking who owns it",
    recipe: Kind::Del,
    fault: "the holder is paused past its lease, then lets go",
    faults: &["pause"],
    breaks: Promise::OwnerOnly,
    instead: "lets go in one step that compares the owner first, and says that the lock was no longer held.",
    lesson: include_str!("05-del.md"),
    ttl: SHORT,
    grants: 2,
    play,
};

/// The holder is paused past its lease; another is granted the lock; then the first one lets go.
fn play(scene: &mut Scene) -> Result<()> {
    let server = RedisServer::start()?;
    let urls = urls(scene, &[server.port()]);
    let (ann, bob) = (scene.enter(&urls)?, scene.enter(&urls)?);
    let first = scene.lock(ann)?;
    let second = scene.ask(bob)?;
    scene.pause(ann)?;
    scene.granted(second)?;
    scene.resume(ann)?;
    scene.heal();
    scene.release(first)?;
    scene.release(second)?;
    curtain(scene, &[&server])
}

//! Renewal that creates a lost lock again, and a holder that is paused.

use tenure_checker::Promise;
use tenure_testkit::RedisServer;

use crate::lab::case::{Case, SHORT};
use crate::lab::props::{curtain, urls};
use crate::lab::scene::Scene;
use crate::lab::upset::Result;
use crate::recipes::Kind;

pub(super) const CASE: Case = Case {
    number: 9,
    title: "Renewal that creates a lost lock again",
    recipe: Kind::RenewRecreate,
    fault: "the holder is paused past its lease",
    faults: &["pause"],
    breaks: Promise::OwnerOnly,
    instead: "never creates a lock by renewing: what is lost stays lost, and the next holder is left alone.",
    lesson: include_str!("09-renew-recreate.md"),
    ttl: SHORT,
    grants: 2,
    play,
};

/// The holder is paused past its lease; another is granted the lock; then the first one renews and lets go.
fn play(scene: &mut Scene) -> Result<()> {
    let server = RedisServer::start()?;
    let urls = urls(scene, &[server.port()]);
    let (ann, bob) = (scene.enter(&urls)?, scene.enter(&urls)?);
    let first = scene.lock(ann)?;
    let second = scene.ask(bob)?;
    scene.pause(ann)?;
    scene.halt(bob, "renewed")?;
    scene.granted(second)?;
    // Both renew in the same way; this one's turn must not come between the other's and its release.
    scene.halts(bob, "renewed")?;
    scene.halt(ann, "renewed")?;
    scene.resume(ann)?;
    scene.heal();
    scene.halts(ann, "renewed")?;
    scene.release(first)?;
    scene.release(second)?;
    curtain(scene, &[&server])
}

//! `SETNX` without expiry, and a holder that is killed.

use tenure_checker::Promise;
use tenure_testkit::RedisServer;

use crate::lab::case::{Case, SHORT};
use crate::lab::props::{curtain, urls};
use crate::lab::scene::Scene;
use crate::lab::upset::Result;
use crate::recipes::Kind;

pub(super) const CASE: Case = Case {
    number: 2,
    title: "SETNX without expiry",
    recipe: Kind::Setnx,
    fault: "the holder is killed",
    faults: &["kill"],
    breaks: Promise::Liveness,
    instead: "gives leases that end by themselves: who dies keeps nothing for longer than its ttl.",
    lesson: include_str!("02-setnx.md"),
    ttl: SHORT,
    grants: 2,
    play,
};

/// The holder is killed while another waits.
fn play(scene: &mut Scene) -> Result<()> {
    let server = RedisServer::start()?;
    let urls = urls(scene, &[server.port()]);
    let (ann, bob) = (scene.enter(&urls)?, scene.enter(&urls)?);
    scene.lock(ann)?;
    let second = scene.ask(bob)?;
    scene.kill(ann)?;
    scene.heal();
    scene.finish(second)?;
    curtain(scene, &[&server])
}

//! An atomic release, and a job that outlives its lease.

use tenure_checker::Promise;
use tenure_testkit::RedisServer;

use crate::lab::case::{Case, LONG, SHORT};
use crate::lab::props::{curtain, urls};
use crate::lab::scene::Scene;
use crate::lab::upset::Result;
use crate::recipes::Kind;

pub(super) const CASE: Case = Case {
    number: 7,
    title: "A job that outlives its lease",
    recipe: Kind::Lease,
    fault: "the job takes longer than the ttl",
    faults: &["long-hold"],
    breaks: Promise::Exclusion,
    instead: "renews the lease while the guard lives, at a third of its ttl.",
    lesson: include_str!("07-lease.md"),
    ttl: SHORT,
    grants: 2,
    play,
};

/// The holder works for longer than its lease lasts, while another waits.
fn play(scene: &mut Scene) -> Result<()> {
    let server = RedisServer::start()?;
    let urls = urls(scene, &[server.port()]);
    let (ann, bob) = (scene.enter(&urls)?, scene.enter(&urls)?);
    let first = scene.lock(ann)?;
    scene.read(first)?;
    let second = scene.ask(bob)?;
    let longest = match scene.is_tenure() {
        true => scene.ttl() * 2,
        false => LONG,
    };
    scene.hold(second, longest)?;
    scene.fault("long-hold", Some(ann));
    scene.heal();
    scene.write(first)?;
    scene.release(first)?;
    scene.finish(second)?;
    curtain(scene, &[&server])
}

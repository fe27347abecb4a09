//! `GET`, then `DEL`, and a lease that ends in between.

use tenure_checker::Promise;
use tenure_testkit::{Fault, Proxy, RedisServer};

use crate::lab::case::{Case, LONG, SHORT};
use crate::lab::props::{curtain, urls};
use crate::lab::scene::Scene;
use crate::lab::upset::{Result, Upset};
use crate::recipes::Kind;

pub(super) const CASE: Case = Case {
    number: 6,
    title: "GET, then DEL",
    recipe: Kind::GetDel,
    fault: "the lease ends between the two",
    faults: &["late-release"],
    breaks: Promise::Exclusion,
    instead: "compares and frees in one step of the store, so a release that comes late frees nothing.",
    lesson: include_str!("06-get-del.md"),
    ttl: SHORT,
    grants: 3,
    play,
};

/// The lease ends while its release is under way, another is granted the lock, and a third one asks.
fn play(scene: &mut Scene) -> Result<()> {
    let server = RedisServer::start()?;
    let wire = Proxy::start(server.port())?;
    let ann = scene.enter(&urls(scene, &[wire.port()]))?;
    let direct = urls(scene, &[server.port()]);
    // A long lease: that it is not renewed shall not be what lets a third one in.
    let (bob, eve) = (scene.enter_for(&direct, LONG)?, scene.enter(&direct)?);
    let first = scene.lock(ann)?;
    scene.halt(ann, "after-get")?;
    if scene.is_tenure() {
        // There is no gap to halt in, so the whole release is held up on its way.
        wire.set(Fault::Freeze);
    }
    scene.begin_release(first)?;
    scene.halts(ann, "after-get")?;
    let second = scene.lock(bob)?;
    if !scene.is_tenure() && scene.is_released(first) {
        return Err(Upset::Play("the release was not late".to_owned()));
    }
    scene.fault("late-release", None);
    wire.set(Fault::Pass);
    scene.heal();
    scene.go(ann, "after-get")?;
    scene.released(first)?;
    let third = scene.ask(eve)?;
    if !scene.is_tenure() {
        scene.granted(third)?;
        scene.release(third)?;
    }
    scene.release(second)?;
    if scene.is_tenure() {
        scene.finish(third)?;
    }
    curtain(scene, &[&server])
}

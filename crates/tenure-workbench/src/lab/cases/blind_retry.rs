//! Blind retry after a lost reply.

use tenure_checker::Promise;
use tenure_testkit::{Proxy, RedisServer};

use crate::lab::NAME;
use crate::lab::case::{Case, LONG};
use crate::lab::props::{curtain, is_taken, urls};
use crate::lab::scene::Scene;
use crate::lab::upset::{Result, Upset};
use crate::recipes::Kind;

pub(super) const CASE: Case = Case {
    number: 15,
    title: "Blind retry after a lost reply",
    recipe: Kind::BlindRetry,
    fault: "the reply to SET NX is lost",
    faults: &["reply-loss"],
    breaks: Promise::Liveness,
    instead: "asks again as the same owner, and is told what it has.",
    lesson: include_str!("15-blind-retry.md"),
    ttl: LONG,
    grants: 2,
    play,
};

/// The store grants the lock, and the client does not hear of it.
fn play(scene: &mut Scene) -> Result<()> {
    let server = RedisServer::start()?;
    let wire = Proxy::start(server.port())?;
    let ann = scene.enter(&urls(scene, &[wire.port()]))?;
    let warm = scene.lock(ann)?;
    scene.release(warm)?;
    wire.lose_reply_then_cut(NAME.as_bytes());
    let claim = scene.ask(ann)?;
    scene.until("the reply is lost", |_| Ok(wire.replies_swallowed() == 1))?;
    if !is_taken(scene, &server)? {
        return Err(Upset::Play("the lost reply was not a yes".to_owned()));
    }
    scene.fault("reply-loss", None);
    scene.heal();
    scene.finish(claim)?;
    curtain(scene, &[&server])
}

//! `SETNX`, then `EXPIRE`, and a client that is killed in between.

use std::time::Duration;

use tenure_checker::Promise;
use tenure_testkit::{Fault, Proxy, RedisServer};

use crate::lab::case::{Case, SHORT};
use crate::lab::props::{curtain, is_taken, urls};
use crate::lab::scene::Scene;
use crate::lab::upset::Result;
use crate::recipes::Kind;

pub(super) const CASE: Case = Case {
    number: 4,
    title: "SETNX, then EXPIRE",
    recipe: Kind::SetnxExpire,
    fault: "the client is killed between the two",
    faults: &["kill"],
    breaks: Promise::Liveness,
    instead: "takes a lock and sets its ttl in one step of the store; nothing lies between.",
    lesson: include_str!("04-setnx-expire.md"),
    ttl: SHORT,
    grants: 1,
    play,
};

/// A client is killed when the store has its lock, and before it has heard so.
fn play(scene: &mut Scene) -> Result<()> {
    let server = RedisServer::start()?;
    let wire = Proxy::start(server.port())?;
    wire.set(Fault::Delay(DELAY));
    let ann = scene.enter(&urls(scene, &[wire.port()]))?;
    let bob = scene.enter(&urls(scene, &[server.port()]))?;
    scene.halt(ann, "after-setnx")?;
    scene.ask(ann)?;
    scene.until("the store has the lock", |scene| is_taken(scene, &server))?;
    scene.halts(ann, "after-setnx")?;
    scene.kill(ann)?;
    let second = scene.ask(bob)?;
    scene.heal();
    scene.finish(second)?;
    curtain(scene, &[&server])
}

/// The answer takes so long, in which the client is killed.
const DELAY: Duration = Duration::from_millis(200);

//! Redlock without the validity check, and a client that is paused before it counts.

use std::time::Duration;

use tenure_checker::Promise;
use tenure_testkit::{Fault, Proxy, RedisServer};

use crate::lab::case::{Case, LONG, SHORT};
use crate::lab::props::{curtain, is_taken, urls};
use crate::lab::scene::Scene;
use crate::lab::upset::Result;
use crate::recipes::Kind;

pub(super) const CASE: Case = Case {
    number: 13,
    title: "Redlock without the validity check",
    recipe: Kind::RedlockNoValidity,
    fault: "the client is paused while the votes are in its buffers",
    faults: &["pause"],
    breaks: Promise::Exclusion,
    instead: "looks at the clock again after the votes, and counts only what is left of the ttl.",
    lesson: include_str!("13-redlock-no-validity.md"),
    ttl: SHORT,
    grants: 2,
    play,
};

/// A client is paused with a majority of votes in its buffers, until they have expired and another has the lock.
fn play(scene: &mut Scene) -> Result<()> {
    let servers = [
        RedisServer::start()?,
        RedisServer::start()?,
        RedisServer::start()?,
    ];
    let ports: Vec<_> = servers.iter().map(RedisServer::port).collect();
    let wires = ports.iter().map(|port| Proxy::start(*port));
    let wires = wires.collect::<std::result::Result<Vec<_>, _>>()?;
    let detour: Vec<_> = wires.iter().map(Proxy::port).collect();
    let ann = scene.enter(&urls(scene, &detour))?;
    // A long lease: that it is not renewed shall not be what breaks it.
    let bob = scene.enter_for(&urls(scene, &ports), LONG)?;
    for wire in &wires {
        wire.set(Fault::Delay(DELAY));
    }
    scene.halt(ann, "asked")?;
    let first = scene.ask(ann)?;
    scene.until("all servers have voted", |scene| {
        voted(scene, &servers, true)
    })?;
    scene.halts(ann, "asked")?;
    scene.pause(ann)?;
    for wire in &wires {
        wire.set(Fault::Pass);
    }
    scene.until("all votes have expired", |scene| {
        voted(scene, &servers, false)
    })?;
    let second = scene.lock(bob)?;
    scene.resume(ann)?;
    scene.heal();
    scene.go(ann, "asked")?;
    if scene.is_tenure() {
        scene.release(second)?;
        scene.answered(first)?;
        // Votes that came too late are an error to the caller, who may ask again.
        let again = match scene.is_granted(first) {
            true => first,
            false => scene.ask(ann)?,
        };
        scene.finish(again)?;
    } else {
        scene.granted(first)?;
        scene.release(first)?;
        scene.release(second)?;
    }
    curtain(scene, &servers.each_ref())
}

/// Whether all servers have the lock, or none has.
fn voted(scene: &Scene, servers: &[RedisServer], wanted: bool) -> Result<bool> {
    for server in servers {
        if is_taken(scene, server)? != wanted {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Votes take so long to arrive, so that a pause finds them on their way.
const DELAY: Duration = Duration::from_millis(100);

//! Failover to a replica that never saw the lock.

use tenure_checker::Promise;
use tenure_testkit::{Fault, Proxy, RedisServer};

use crate::lab::case::{Case, LONG};
use crate::lab::props::{curtain, is_taken};
use crate::lab::scene::Scene;
use crate::lab::upset::{Result, Upset};
use crate::recipes::Kind;

pub(super) const CASE: Case = Case {
    number: 12,
    title: "Failover to a replica that never saw the lock",
    recipe: Kind::Failover,
    fault: "the link to the replica hangs, and the master dies",
    faults: &["failover"],
    breaks: Promise::Exclusion,
    instead: "counts a grant only when a replica has it, if asked to with replicas=1; else the fence at the resource is what protects.",
    lesson: include_str!("12-failover.md"),
    ttl: LONG,
    grants: 1,
    play,
};

/// The master grants the lock, dies before its replica has heard of it, and the replica takes its place.
fn play(scene: &mut Scene) -> Result<()> {
    let mut master = RedisServer::start()?;
    let link = Proxy::start(master.port())?;
    let replica = RedisServer::builder().replica_of(link.port()).start()?;
    replica.wait_until_linked()?;
    link.set(Fault::Freeze);
    let ann = scene.enter(&urls(scene, &[&master, &replica]))?;
    let first = scene.ask(ann)?;
    scene.until("the master has the lock", |scene| is_taken(scene, &master))?;
    if !scene.is_tenure() {
        scene.granted(first)?;
    }
    if is_taken(scene, &replica)? {
        return Err(Upset::Play("the replica has heard of the lock".to_owned()));
    }
    master.kill()?;
    replica.command(&["REPLICAOF", "NO", "ONE"])?;
    // Whoever operates servers with replicas replaces the one that is gone.
    let spare = RedisServer::builder().replica_of(replica.port()).start()?;
    spare.wait_until_linked()?;
    scene.fault("failover", None);
    let believes = scene.is_granted(first);
    if !believes {
        // It was never told yes, and gives up.
        scene.leave(ann)?;
    }
    scene.heal();
    let bob = scene.enter(&urls(scene, &[&replica]))?;
    let second = scene.lock(bob)?;
    if believes {
        scene.release(first)?;
    }
    scene.release(second)?;
    curtain(scene, &[&replica])
}

/// The URLs of these servers; the first of them that is a master counts.
fn urls(scene: &Scene, servers: &[&RedisServer]) -> Vec<String> {
    let option = match scene.is_tenure() {
        true => "?replicas=1",
        false => "",
    };
    let url = |server: &&RedisServer| format!("{}{option}", server.url());
    servers.iter().map(url).collect()
}

//! A lock on the current master: the next master may never have received it.

use crate::lab::prelude::*;

pub(super) const CASE: Case = Case {
    number: 12,
    name: "failover",
    title: "Failover to a replica that never saw the lock",
    recipe: Recipe {
        lock: |redis, name| Box::pin(lock(redis, name)),
        unlock: |redis, held| Box::pin(unlock(redis, held)),
    },
    fault: "the link to the replica hangs, and the master dies",
    faults: &["failover"],
    breaks: Promise::Exclusion,
    instead: "counts a grant only when a replica has it, if asked to with replicas=1; else the fence at the resource is what protects.",
    lesson: include_str!("lesson.md"),
    ttl: LONG,
    grants: 1,
    run,
};

/// Returns the first server that reports to be the master.
async fn master(redis: &Redis) -> recipes::Result<Redis> {
    for url in &redis.urls {
        let client = recipes::client(url)?;
        let Ok(mut node) = recipes::connect(&client, AsyncConnectionConfig::new()).await else {
            continue;
        };
        let mut info = redis::cmd("INFO");
        let said: String = info.arg("replication").query_async(&mut node).await?;
        if said.contains("role:master") {
            return Ok(redis.on(node));
        }
    }
    Err(recipes::Error::NoMaster)
}

async fn lock(redis: &Redis, name: &str) -> recipes::Result<Held> {
    let token = token();
    while !master(redis).await?.set_nx_px(name, &token).await? {
        tokio::time::sleep(PAUSE).await;
    }
    Ok(Held::new(name, token))
}

async fn unlock(redis: &Redis, held: Held) -> recipes::Result<Freed> {
    let master = master(redis).await?;
    master.compare_and_delete(&held.name, &held.token).await
}

/// The master grants the lock and dies before its replica has received it. The replica becomes the
/// master.
fn run(lab: &mut Experiment) -> Result<()> {
    let mut master = RedisServer::start()?;
    let link = Proxy::start(master.port())?;
    let replica = lab.add_server(RedisServer::builder().replica_of(link.port()))?;
    replica.wait_until_linked()?;
    let replica = replica.url();
    link.set(Fault::Freeze);
    let ann = lab.client_on(urls(lab, &[master.url(), replica.clone()]), LONG)?;
    let first = lab.ask(ann)?;
    lab.until("the master has the lock", |lab| lab.is_taken_on(&master))?;
    if !lab.is_tenure() {
        lab.granted(first)?;
    }
    if lab.is_taken()? {
        return Err(Error::Step("the replica has heard of the lock".to_owned()));
    }
    master.kill()?;
    lab.server().command(&["REPLICAOF", "NO", "ONE"])?;
    // An operator of servers with replicas replaces the one that is gone.
    let spare = RedisServer::builder().replica_of(lab.server().port());
    let spare = spare.start()?;
    spare.wait_until_linked()?;
    lab.fault("failover", None);
    let believes = lab.is_granted(first);
    if !believes {
        // Its claim was never granted, and it gives up.
        lab.end_client(ann)?;
    }
    lab.heal();
    let bob = lab.client_on(urls(lab, &[replica]), LONG)?;
    let second = lab.lock(bob)?;
    if believes {
        lab.release(first)?;
    }
    lab.release(second)
}

/// Returns the URLs of a client, which uses the first master among them.
fn urls(lab: &Experiment, servers: &[String]) -> Vec<String> {
    let option = match lab.is_tenure() {
        true => "?replicas=1",
        false => "",
    };
    let urls = servers.iter().map(|server| format!("{server}{option}"));
    urls.collect()
}

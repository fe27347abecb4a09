//! Many clients that want a few names in every way at once, without faults and with them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use tenure::{Client, Error, Lock, Owner};
use tokio::task::JoinSet;

use crate::databases::resource::Register;
use crate::databases::{LONG, PATIENCE, chain, millis, open, until_free};
use crate::{Server, dialect};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_meets_in_a_storm() {
    let server = Server::builder().max_connections(120).start().unwrap();
    storm(&server, 200, || {}).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_meets_in_a_storm_of_ended_sessions() {
    let server = Server::builder().max_connections(120).start().unwrap();
    // A few at a time, because it takes a while to log in again.
    storm(&server, 100, || dialect::end_some_sessions(&server)).await;
}

/// What is interrupted is mostly not the sleep of a waiter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_meets_in_a_storm_of_interrupted_statements() {
    let server = Server::builder().max_connections(120).start().unwrap();
    storm(&server, 100, || {
        for _ in 0..5 {
            dialect::interrupt(&server);
        }
    })
    .await;
}

/// Lets tasks lock and unlock for a while, until so many grants and a few hits at least, and checks that nobody meets
/// anybody.
async fn storm(server: &Server, least: u64, hit: impl Fn()) {
    let register = Arc::new(Register::default());
    let (faults, over) = (
        Arc::new(AtomicU64::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let (mut tasks, mut clients) = (JoinSet::new(), Vec::new());
    for _ in 0..8 {
        clients.push(open(&server.url()).await);
    }
    for client in &clients {
        for task in 0..6 {
            let (client, register) = (client.clone(), Arc::clone(&register));
            let (faults, over) = (Arc::clone(&faults), Arc::clone(&over));
            tasks.spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    let done = once(&client, task, &register).await;
                    faults.fetch_add(u64::from(done.is_err()), Ordering::Relaxed);
                }
            });
        }
    }
    let (begun, mut hits) = (Instant::now(), 0);
    // Fewer are no storm.
    while begun.elapsed() < millis(5000) || register.grants() < least || hits < 3 {
        let grants = register.grants();
        assert!(
            begun.elapsed() < 2 * PATIENCE,
            "{grants} grants, {hits} hits"
        );
        hit();
        hits += 1;
        tokio::time::sleep(millis(700)).await;
    }
    over.store(true, Ordering::Relaxed);
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    println!("{} grants, {faults:?} faults told", register.grants());
    for name in NAMES {
        until_free(&clients[0], name).await;
    }
}

/// Locks one of the names in some way, and gives it back in some way.
async fn once(client: &Client, task: u32, register: &Register) -> Result<(), Error> {
    let name = NAMES[fastrand::usize(..NAMES.len())];
    let is_writer = fastrand::u8(..4) > 0;
    let lock: Lock = match is_writer {
        true => client.rwlock(name).write(),
        false => client.rwlock(name).read(),
    };
    let lock = match fastrand::u8(..8) {
        0 => lock.ttl(LONG).owner(Owner::unique()),
        1 if is_writer => lock.ttl(LONG).keep(millis(50)),
        2 => lock.ttl(LONG).reason(&format!("task {task}")),
        _ => lock.ttl(LONG),
    };
    let patience = millis(fastrand::u64(1..400));
    let granted = match fastrand::u8(..6) {
        0 => lock.try_lock().await?,
        1 => lock.lock_timeout(patience).await.ok(),
        // Cancelled from outside.
        2 => match tokio::time::timeout(patience, lock.lock()).await {
            Ok(granted) => Some(granted?),
            Err(_) => None,
        },
        _ => Some(lock.lock().await?),
    };
    let Some(guard) = granted else {
        return Ok(());
    };
    register.enter(&guard, is_writer);
    if fastrand::bool() {
        tokio::time::sleep(millis(fastrand::u64(..3))).await;
    }
    register.leave(&guard, is_writer);
    if fastrand::u8(..4) == 0 {
        drop(guard);
        return Ok(());
    }
    let released = guard.release().await;
    if let Err(error) = &released {
        assert!(error.may_pass(), "{}", chain(error));
    }
    released.map(drop)
}

const NAMES: [&str; 4] = ["storm one", "storm two", "storm three", "storm four"];

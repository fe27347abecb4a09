//! A lock inside one process, which other processes do not see.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex as StdMutex, PoisonError};

use tokio::sync::Mutex;

use crate::lab::prelude::*;

pub(super) const CASE: Case = Case {
    number: 1,
    name: "process",
    title: "A lock inside one process",
    recipe: Recipe {
        lock: |redis, name| Box::pin(lock(redis, name)),
        unlock: |_, held| {
            drop(held);
            Box::pin(std::future::ready(Ok(Freed::Freed)))
        },
    },
    fault: "two processes",
    faults: &[],
    breaks: Promise::Exclusion,
    instead: "asks a store that all processes share, and the second one waits in its line.",
    lesson: include_str!("lesson.md"),
    ttl: LONG,
    grants: 2,
    run,
};

async fn lock(_redis: &Redis, name: &str) -> recipes::Result<Held> {
    let lock = {
        let mut locks = LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
        locks.entry(name.to_owned()).or_default().clone()
    };
    let _guard = lock.lock_owned().await;
    Ok(Held::new(name, String::new()).kept_by(Keeper::Mutex { _guard }))
}

/// One per process, which is the mistake.
static LOCKS: LazyLock<StdMutex<HashMap<String, Arc<Mutex<()>>>>> =
    LazyLock::new(StdMutex::default);

/// One client holds the lock when another, in a different process, asks for it.
fn run(lab: &mut Experiment) -> Result<()> {
    let (ann, bob) = lab.two_clients()?;
    lab.heal();
    let first = lab.lock(ann)?;
    lab.read(first)?;
    let second = lab.ask(bob)?;
    if lab.is_tenure() {
        lab.write(first)?;
        lab.release(first)?;
        lab.finish(second)
    } else {
        lab.granted(second)?;
        lab.release(second)?;
        lab.write(first)?;
        lab.release(first)
    }
}

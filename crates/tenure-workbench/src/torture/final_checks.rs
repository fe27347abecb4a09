//! The checks after all faults: whether every name can be locked, and whether anything is left in
//! the store.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure::{Client, Name, Owner};
use tenure_checker::{Mode, What};
use tokio::time::{sleep, timeout};

use super::recorder::Recorder;
use super::target::Target;
use crate::history;

/// Locks every name once. A name that does not become free within the patience stays a claim
/// without an end.
pub(super) async fn probe(
    client: &Client,
    names: &[Name],
    ttl: Duration,
    patience: Duration,
    recorder: &Arc<Recorder>,
) {
    let note = |what| {
        recorder.note(history::now(0, what));
    };
    for (claim, name) in (1..).zip(names) {
        let owner = Owner::unique();
        note(What::Asked {
            claim,
            name: name.as_str().to_owned(),
            mode: Mode::Exclusive,
            owner: owner.as_str().to_owned(),
        });
        let lock = client.mutex(name.as_str()).ttl(ttl).owner(owner);
        match timeout(patience, lock.lock()).await {
            Ok(Ok(guard)) => {
                let fence = Some(guard.fence().get());
                note(What::Granted { claim, fence });
                note(What::Releasing { claim });
                let freed = history::freed(&guard.release().await);
                note(What::Released { claim, freed });
            }
            Ok(Err(error)) => note(What::Unknown {
                claim,
                error: error.to_string(),
            }),
            // An event at this time makes the history long enough to show it.
            Err(_) => note(history::over("patience", None)),
        }
    }
    client.settled().await;
}

/// Waits until nothing of the names is left in the store; records what is still there after the
/// patience.
///
/// Leases and places in line of killed clients expire by themselves after some seconds. On a Redis
/// server the next use of the name removes the key of such a place, so each name is used again
/// while keys are left.
pub(super) async fn find_left_over(
    client: &Client,
    names: &[Name],
    target: &Target,
    patience: Duration,
    recorder: &Arc<Recorder>,
) {
    let give_up = Instant::now() + patience;
    let mut found = listed(client, names).await;
    while !found.is_empty() && Instant::now() < give_up {
        sleep(TICK).await;
        found = listed(client, names).await;
    }
    let mut left = target.left_over(names);
    while !left.is_empty() && Instant::now() < give_up {
        for name in names {
            // If this fails, something is left and it is repeated.
            if let Ok(Some(guard)) = client.mutex(name.as_str()).try_lock().await {
                let _ = guard.release().await;
            }
        }
        sleep(TICK).await;
        left = target.left_over(names);
    }
    found.extend(left);
    for found in found {
        recorder.note(history::now(0, What::Left { found }));
    }
}

/// Returns the names that somebody holds or waits for, or why that is not known.
async fn listed(client: &Client, names: &[Name]) -> Vec<String> {
    let mut found = Vec::new();
    for name in names {
        match client.list(Some(name)).await {
            Ok(entries) => found.extend(entries.iter().map(|entry| {
                let (holders, waiters) = (entry.holders.len(), entry.waiters.len());
                format!("{name}: {holders} hold it and {waiters} wait for it")
            })),
            Err(error) => found.push(format!("{name}: the store failed: {error}")),
        }
    }
    found
}

const TICK: Duration = Duration::from_millis(100);

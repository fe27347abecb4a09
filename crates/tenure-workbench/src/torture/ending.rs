//! When all is healed: whether every name can be locked, and whether anything is left in the store.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::Commands;
use tenure::{Client, Name, Owner};
use tenure_checker::{Event, Freed, Mode, What};
use tokio::time::{sleep, timeout};

use super::address::Address;
use super::clock::now_us;
use super::recorder::Recorder;

/// Locks every name once; what does not come free within the patience stays a claim without an end.
pub(super) async fn probe(
    client: &Client,
    names: &[Name],
    ttl: Duration,
    patience: Duration,
    recorder: &Arc<Recorder>,
) {
    let note = |what| {
        recorder.note(Event {
            at_us: now_us(),
            process: 0,
            what,
        });
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
                let freed = match guard.release().await {
                    Ok(tenure::Outcome::Released) => Freed::Freed,
                    Ok(tenure::Outcome::NotHeld(_)) => Freed::NotHeld,
                    Ok(_) | Err(_) => Freed::Unknown,
                };
                note(What::Released { claim, freed });
            }
            Ok(Err(error)) => note(What::Unknown {
                claim,
                error: error.to_string(),
            }),
            // Long enough for the history to say so.
            Err(_) => note(What::Over {
                kind: "patience".to_owned(),
                target: None,
            }),
        }
    }
    client.settled().await;
}

/// Waits until nothing of the names is in the store; notes what is still there when the patience is over.
///
/// Leases and places of clients that were killed end by themselves, after some seconds. In a Redis server the key of such a
/// place is removed by whoever next uses the name, so each name is used again while keys are left.
pub(super) async fn look_for_rests(
    client: &Client,
    names: &[Name],
    address: Option<&Address>,
    patience: Duration,
    recorder: &Arc<Recorder>,
) {
    let give_up = Instant::now() + patience;
    let mut found = listed(client, names).await;
    while !found.is_empty() && Instant::now() < give_up {
        sleep(TICK).await;
        found = listed(client, names).await;
    }
    if let Some(address) = address {
        let mut kept = keys(address, names);
        while !kept.is_empty() && Instant::now() < give_up {
            for name in names {
                // If it fails, the keys stay and it is done again.
                if let Ok(Some(guard)) = client.mutex(name.as_str()).try_lock().await {
                    let _ = guard.release().await;
                }
            }
            sleep(TICK).await;
            kept = keys(address, names);
        }
        found.extend(kept);
    }
    for found in found {
        recorder.note(Event {
            at_us: now_us(),
            process: 0,
            what: What::Left { found },
        });
    }
}

/// The names that somebody holds or waits for, or why that is not known.
async fn listed(client: &Client, names: &[Name]) -> Vec<String> {
    let mut found = Vec::new();
    for name in names {
        match client.list(Some(name)).await {
            Ok(entries) => found.extend(entries.iter().map(|entry| {
                let (holders, waiters) = (entry.holders.len(), entry.waiters.len());
                format!("{name}: {holders} hold it and {waiters} wait for it")
            })),
            Err(error) => found.push(format!("{name}, of which the store says only: {error}")),
        }
    }
    found
}

/// The keys of the names on all servers, or why they are not known.
fn keys(address: &Address, names: &[Name]) -> Vec<String> {
    let mut found = Vec::new();
    for server in address.each() {
        for name in names {
            match keys_of(&server, prefix(address), name) {
                Ok(keys) => found.extend(keys),
                Err(error) => found.push(format!("{name}, of which a server says only: {error}")),
            }
        }
    }
    found
}

/// The keys of a name in a Redis server, but for its last fence, which goes by itself.
fn keys_of(server: &str, prefix: &str, name: &Name) -> redis::RedisResult<Vec<String>> {
    let mut connection = redis::Client::open(server)?.get_connection()?;
    // The names of a torture have no character that the keys write otherwise.
    let tag = format!("{prefix}{{{name}}}");
    let mut found = Vec::new();
    for part in ["", ":fence", ":line", ":places", ":ends"] {
        let key = format!("{tag}{part}");
        if !connection.exists::<_, bool>(&key)? {
            continue;
        }
        let goes_in_ms: i64 = connection.pttl(&key)?;
        match part {
            ":fence" if goes_in_ms >= 0 => {}
            _ => found.push(format!("the key {key} ({goes_in_ms} ms to live)")),
        }
    }
    Ok(found)
}

fn prefix(address: &Address) -> &str {
    address.option("prefix").unwrap_or("tenure:")
}

const TICK: Duration = Duration::from_millis(100);

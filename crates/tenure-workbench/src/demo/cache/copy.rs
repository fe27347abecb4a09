//! A copy of the service: its callers read the entry, and rebuild it when it has expired.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use tenure::{Lock, Once, Seen};
use tenure_testkit::Parent;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::clock::micros;
use crate::demo::cache::CacheArgs;
use crate::demo::cache::entry::{Cache, Entry};
use crate::process::OrFail;
use tenure_cli::{Failure, Result, Store, exit_code};

/// How callers prevent that all of them rebuild the entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Strategy {
    /// No lock: every caller that finds the entry expired rebuilds it
    None,
    /// A lock inside each copy
    Process,
    /// tenure's `once`: single-flight, one rebuilds and the others wait
    Tenure,
    /// tenure's `once_or_stale`: one rebuilds, the others use the stale entry
    Stale,
}

/// The first message to a copy.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Settings {
    pub(super) folder: PathBuf,
    pub(super) strategy: Strategy,
    /// The number of the copy, from 1.
    pub(super) copy: u32,
    pub(super) args: CacheArgs,
}

/// The last message from a copy: the calls of all its callers.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Calls {
    /// Calls that found the entry fresh.
    pub(super) hits: u64,
    /// How long each of the other calls took, in microseconds.
    pub(super) misses_us: Vec<u64>,
    /// Those of them that were answered with the stale entry.
    pub(super) stale: u64,
    /// Why the copy failed, if it did.
    pub(super) failed: Option<String>,
}

impl Calls {
    pub(super) fn add(&mut self, other: Self) {
        self.hits += other.hits;
        self.stale += other.stale;
        self.misses_us.extend(other.misses_us);
    }
}

/// Runs one copy.
pub(crate) async fn play(store: &Store) -> Result<ExitCode> {
    let (settings, _) = Parent::listen("demo-cache-copy", "tenure demo cache").or_fail()?;
    let calls = call_all(store, settings)
        .await
        .unwrap_or_else(|failure| Calls {
            failed: Some(failure.to_string()),
            ..Calls::default()
        });
    Parent::send(&calls)?;
    Ok(exit_code::DONE)
}

async fn call_all(store: &Store, settings: Settings) -> Result<Calls> {
    let client = store.open().await?;
    let service = Arc::new(Service {
        cache: Cache::new(&settings.folder, settings.args.fresh),
        lock: client.mutex("demo:cache"),
        inside: Mutex::new(()),
        settings,
    });
    let mut callers = JoinSet::new();
    for _ in 0..service.settings.args.callers {
        let service = Arc::clone(&service);
        callers.spawn(async move { service.calls().await });
    }
    let mut all = Calls::default();
    for calls in callers.join_all().await {
        all.add(calls?);
    }
    client.settled().await;
    Ok(all)
}

/// What all callers of a copy share.
#[derive(Debug)]
struct Service {
    cache: Cache,
    lock: Lock,
    inside: Mutex<()>,
    settings: Settings,
}

impl Service {
    /// Calls in a loop, until the entry has expired often enough.
    async fn calls(&self) -> Result<Calls> {
        let mut calls = Calls::default();
        loop {
            let began = Instant::now();
            let seen = self.cache.look()?;
            if let Seen::Fresh(entry) = seen {
                calls.hits += 1;
                if entry.generation > self.settings.args.expiries {
                    return Ok(calls);
                }
                tokio::time::sleep(BETWEEN).await;
                continue;
            }
            let got = self.get().await?;
            calls.misses_us.push(micros(began.elapsed()));
            match got {
                Once::Stale(_) => {
                    calls.stale += 1;
                    tokio::time::sleep(BETWEEN).await;
                }
                got if got.into_inner().generation > self.settings.args.expiries => {
                    return Ok(calls);
                }
                _ => {}
            }
        }
    }

    /// Gets a fresh entry, or the stale one if the strategy allows that.
    async fn get(&self) -> Result<Once<Entry>> {
        let look = || std::future::ready(self.cache.look().map_err(Failure::from));
        let make = |fence: tenure::Fence| self.rebuild(Some(fence.get()));
        match self.settings.strategy {
            Strategy::None => self.rebuild(None).await.map(Once::Made),
            Strategy::Process => {
                let _inside = self.inside.lock().await;
                match look().await? {
                    Seen::Fresh(entry) => Ok(Once::Found(entry)),
                    _ => self.rebuild(None).await.map(Once::Made),
                }
            }
            Strategy::Tenure => self.lock.once(look, make).await,
            Strategy::Stale => self.lock.once_or_stale(look, make).await,
        }
    }

    async fn rebuild(&self, fence: Option<u64>) -> Result<Entry> {
        let Settings { copy, args, .. } = &self.settings;
        Ok(self.cache.rebuild(*copy, fence, args.rebuild).await?)
    }
}

/// The pause between two calls of a caller.
const BETWEEN: Duration = Duration::from_millis(5);

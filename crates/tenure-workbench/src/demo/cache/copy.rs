//! A copy of the service: its callers read the entry, and make it anew when it has expired.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use tenure::{Lock, Once, Seen};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::demo::cache::entry::{Cache, Entry};
use crate::parent::{Parent, tell};
use tenure_cli::error::{Failure, Result};
use tenure_cli::exit_code;
use tenure_cli::store::Store;

/// Who keeps callers from all making the entry anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Keeper {
    /// Nobody: whoever finds the entry expired makes it anew
    None,
    /// A lock inside each copy
    Process,
    /// tenure's `once`: one makes it, the others wait for it
    Tenure,
    /// tenure's `once_or_stale`: one makes it, the others go on with the old one
    Stale,
}

impl Keeper {
    /// Returns the name that people write.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Process => "process",
            Self::Tenure => "tenure",
            Self::Stale => "stale",
        }
    }
}

/// The first line to a copy.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Settings {
    pub(super) folder: PathBuf,
    pub(super) keeper: Keeper,
    /// Which copy it is, from 1.
    pub(super) copy: u32,
    pub(super) callers: u32,
    pub(super) fresh: Duration,
    pub(super) rebuild: Duration,
    /// How many times the entry expires.
    pub(super) expiries: u64,
}

/// The last line from a copy: what its callers met.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Calls {
    /// Calls that found the entry fresh.
    pub(super) hits: u64,
    /// How long each call took that did not, in microseconds.
    pub(super) misses_us: Vec<u64>,
    /// Those of them that were answered with the old entry.
    pub(super) stale: u64,
    /// Why it could not go on, if it could not.
    pub(super) failed: Option<String>,
}

/// Plays one copy.
pub(crate) async fn play(store: &Store) -> Result<ExitCode> {
    let (settings, _) = Parent::listen("demo-cache-copy", "demo cache")?;
    let calls = call_all(store, settings)
        .await
        .unwrap_or_else(|failure| Calls {
            failed: Some(failure.to_string()),
            ..Calls::default()
        });
    tell(&calls)?;
    Ok(exit_code::DONE)
}

async fn call_all(store: &Store, settings: Settings) -> Result<Calls> {
    let client = store.open().await?;
    let service = Arc::new(Service {
        cache: Cache::new(&settings.folder, settings.fresh),
        lock: client.mutex("demo:cache"),
        inside: Mutex::new(()),
        settings,
    });
    let mut callers = JoinSet::new();
    for _ in 0..service.settings.callers {
        let service = Arc::clone(&service);
        callers.spawn(async move { service.calls().await });
    }
    let mut all = Calls::default();
    for calls in callers.join_all().await {
        let calls = calls?;
        all.hits += calls.hits;
        all.stale += calls.stale;
        all.misses_us.extend(calls.misses_us);
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
    /// Calls again and again, until the entry has expired often enough.
    async fn calls(&self) -> Result<Calls> {
        let mut calls = Calls::default();
        loop {
            let began = Instant::now();
            let seen = self.cache.look()?;
            if let Seen::Fresh(entry) = seen {
                calls.hits += 1;
                if entry.generation > self.settings.expiries {
                    return Ok(calls);
                }
                tokio::time::sleep(BETWEEN).await;
                continue;
            }
            let got = self.get().await?;
            let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
            calls.misses_us.push(took);
            match got {
                Once::Stale(_) => {
                    calls.stale += 1;
                    tokio::time::sleep(BETWEEN).await;
                }
                got if got.into_inner().generation > self.settings.expiries => return Ok(calls),
                _ => {}
            }
        }
    }

    /// Gets an entry that is not expired, or the old one where that will do.
    async fn get(&self) -> Result<Once<Entry>> {
        let look = || std::future::ready(self.cache.look().map_err(Failure::from));
        let make = |fence: tenure::Fence| self.rebuild(Some(fence.get()));
        match self.settings.keeper {
            Keeper::None => self.rebuild(None).await.map(Once::Made),
            Keeper::Process => {
                let _inside = self.inside.lock().await;
                match look().await? {
                    Seen::Fresh(entry) => Ok(Once::Found(entry)),
                    _ => self.rebuild(None).await.map(Once::Made),
                }
            }
            Keeper::Tenure => self.lock.once(look, make).await,
            Keeper::Stale => self.lock.once_or_stale(look, make).await,
        }
    }

    async fn rebuild(&self, fence: Option<u64>) -> Result<Entry> {
        let Settings { copy, rebuild, .. } = self.settings;
        Ok(self.cache.rebuild(copy, fence, rebuild).await?)
    }
}

/// Between two calls of a caller.
const BETWEEN: Duration = Duration::from_millis(5);

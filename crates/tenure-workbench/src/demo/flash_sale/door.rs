//! The lock of a copy, by its name: what a sale goes through before it touches the stock.

use std::sync::Arc;
use std::time::Duration;

use tenure::{Client, Guard};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::lock::LockKind;
use super::stock::Shelf;
use super::wire::Settings;
use crate::recipes::{Held, Recipe, Spin};
use tenure_cli::error::{Failure, Result};
use tenure_cli::exit_code;

/// A lock that is ready to be taken.
#[derive(Debug)]
pub(super) enum Door {
    /// Always open.
    Open,
    /// A lock of this process.
    Process(Arc<Mutex<()>>),
    /// tenure's lock, which a task may take again while it holds it.
    Tenure {
        client: Client,
        name: String,
        ttl: Duration,
    },
    /// A lock as people write it.
    Recipe {
        recipe: Arc<dyn Recipe>,
        name: String,
        nested: bool,
    },
}

/// What was got at the door, and is to be given back.
#[derive(Debug)]
pub(super) enum Pass {
    /// Nothing.
    Nothing,
    /// The lock of this process, open again when dropped.
    Process { _held: OwnedMutexGuard<()> },
    /// tenure's guard.
    Tenure(Guard),
    /// What a recipe gives.
    Recipe(Held),
}

impl Door {
    pub(super) async fn open(settings: &Settings) -> Result<Self> {
        Ok(match settings.lock {
            LockKind::None => Self::Open,
            LockKind::Process => Self::Process(Arc::default()),
            LockKind::Tenure => Self::Tenure {
                client: tenure::open(&settings.store).await?,
                name: settings.name.clone(),
                ttl: Duration::from_millis(settings.ttl_ms),
            },
            lock => Self::Recipe {
                recipe: recipe(lock, settings).await?,
                name: settings.name.clone(),
                nested: lock.is_nested(),
            },
        })
    }

    /// Waits for the lock.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: who leaves gives up the place in line.
    pub(super) async fn enter(&self) -> Result<Pass> {
        Ok(match self {
            Self::Open => Pass::Nothing,
            Self::Process(mutex) => Pass::Process {
                _held: Arc::clone(mutex).lock_owned().await,
            },
            Self::Tenure { client, name, ttl } => {
                let lock = client.mutex(name).ttl(*ttl).reentrant();
                Pass::Tenure(lock.lock().await?)
            }
            Self::Recipe { recipe, name, .. } => {
                Pass::Recipe(recipe.lock(name).await.map_err(|error| failed(&error))?)
            }
        })
    }

    /// Takes the lock again in a nested step of who has it, where the lock knows such a thing.
    pub(super) async fn enter_again(&self) -> Result<Pass> {
        match self {
            Self::Open | Self::Process(_) | Self::Recipe { nested: false, .. } => Ok(Pass::Nothing),
            Self::Tenure { .. } | Self::Recipe { .. } => self.enter().await,
        }
    }

    /// Gives the lock back.
    pub(super) async fn leave(&self, pass: Pass) -> Result<()> {
        match (pass, self) {
            (Pass::Tenure(guard), _) => {
                guard.release().await?;
            }
            (Pass::Recipe(held), Self::Recipe { recipe, .. }) => {
                let unlocked = recipe.unlock(held).await;
                unlocked.map_err(|error| failed(&error))?;
            }
            _ => {}
        }
        Ok(())
    }
}

impl Pass {
    /// Returns the number of the grant, which the stock checks.
    pub(super) fn fence(&self) -> Option<u64> {
        match self {
            Self::Nothing | Self::Process { .. } => None,
            Self::Tenure(guard) => Some(guard.fence().get()),
            Self::Recipe(held) => held.fence,
        }
    }
}

async fn recipe(lock: LockKind, settings: &Settings) -> Result<Arc<dyn Recipe>> {
    let ttl = Duration::from_millis(settings.ttl_ms);
    // With several servers, recipes know the one on which the stock lives.
    let server = match &settings.shelf {
        Shelf::Redis { url, .. } => url,
        Shelf::File(_) => &settings.store,
    };
    let opened = match lock.recipe() {
        Some(kind) => kind.open(std::slice::from_ref(server), ttl).await,
        None => Spin::open(server, ttl)
            .await
            .map(|spin| Arc::new(spin) as _),
    };
    opened.map_err(|error| failed(&error))
}

fn failed(why: &dyn std::fmt::Display) -> Failure {
    Failure::new(exit_code::UNAVAILABLE, format!("the lock failed: {why}"))
}

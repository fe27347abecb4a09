//! The lock of a copy: what a sale takes before it touches the stock.

use std::sync::Arc;
use std::time::Duration;

use tenure::{Client, Guard};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::lock_kind::LockKind;
use super::messages::Settings;
use super::stock::StockLocation;
use crate::recipes::{Held as RecipeHeld, RecipeLock};
use tenure_cli::error::{Failure, Result};
use tenure_cli::exit_code;

/// A lock that can be taken.
#[derive(Debug)]
pub(super) enum SaleLock {
    /// No lock.
    None,
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
        recipe: RecipeLock,
        name: String,
        nested: bool,
    },
}

/// A lock that is held, and has to be released.
#[derive(Debug)]
pub(super) enum Held {
    /// Nothing.
    Nothing,
    /// The lock of this process, released when dropped.
    Process { _held: OwnedMutexGuard<()> },
    /// tenure's guard.
    Tenure(Guard),
    /// The lock of a recipe.
    Recipe(RecipeHeld),
}

impl SaleLock {
    pub(super) async fn open(settings: &Settings) -> Result<Self> {
        Ok(match settings.lock {
            LockKind::None => Self::None,
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
    /// Cancel safe: a cancelled call gives up its place in the queue.
    pub(super) async fn lock(&self) -> Result<Held> {
        Ok(match self {
            Self::None => Held::Nothing,
            Self::Process(mutex) => Held::Process {
                _held: Arc::clone(mutex).lock_owned().await,
            },
            Self::Tenure { client, name, ttl } => {
                let lock = client.mutex(name).ttl(*ttl).reentrant();
                Held::Tenure(lock.lock().await?)
            }
            Self::Recipe { recipe, name, .. } => {
                Held::Recipe(recipe.lock(name).await.map_err(|error| failed(&error))?)
            }
        })
    }

    /// Takes the lock again in a nested step of its holder, if the lock is used that way.
    pub(super) async fn lock_nested(&self) -> Result<Held> {
        match self {
            Self::None | Self::Process(_) | Self::Recipe { nested: false, .. } => Ok(Held::Nothing),
            Self::Tenure { .. } | Self::Recipe { .. } => self.lock().await,
        }
    }

    /// Releases the lock.
    pub(super) async fn unlock(&self, held: Held) -> Result<()> {
        match (held, self) {
            (Held::Tenure(guard), _) => {
                guard.release().await?;
            }
            (Held::Recipe(held), Self::Recipe { recipe, .. }) => {
                let unlocked = recipe.unlock(held).await;
                unlocked.map_err(|error| failed(&error))?;
            }
            _ => {}
        }
        Ok(())
    }
}

impl Held {
    /// Returns the fence of the grant, which the stock checks.
    pub(super) fn fence(&self) -> Option<u64> {
        match self {
            Self::Nothing | Self::Process { .. } => None,
            Self::Tenure(guard) => Some(guard.fence().get()),
            Self::Recipe(held) => held.fence,
        }
    }
}

async fn recipe(lock: LockKind, settings: &Settings) -> Result<RecipeLock> {
    let ttl = Duration::from_millis(settings.ttl_ms);
    // With several servers, recipes use the one of the stock.
    let server = match &settings.stock {
        StockLocation::Redis { url, .. } => url,
        StockLocation::File(_) => &settings.store,
    };
    let recipe = lock.recipe().ok_or_else(|| failed(&"it is no recipe"))?;
    let opened = RecipeLock::open(recipe, std::slice::from_ref(server), ttl).await;
    opened.map_err(|error| failed(&error))
}

fn failed(why: &dyn std::fmt::Display) -> Failure {
    Failure::new(exit_code::UNAVAILABLE, format!("the lock failed: {why}"))
}

//! Locks in Redis: the classic recipe, with a line, direct hand-over and fences.
//!
//! | file | content |
//! |---|---|
//! | `url` | what a URL specifies: servers, access, layout, times |
//! | `link` | the one connection, maintained through restarts and failovers |
//! | `timeout` | how long to wait for a reply |
//! | `connect`, `sentinel` | connecting; finding the master |
//! | `hash`, `script`, `scripts/` | the default layout: all modes, decided by Lua scripts |
//! | `string`, `compare`, `watch` | the layout that other libraries share, also without scripts |
//! | `slots` | which master of a cluster has which keys |
//! | `answers`, `inbox`, `snapshot`, `scan` | replies, messages and lists |
//! | `parts` | batches of renewals that fail independently |
//! | `keys` | from names to keys and back |
//! | `fault` | what errors mean |
//! | `acl` | the commands that a user needs |
//! | `doctor` | settings of a deployment that endanger locks |
//!
//! `docs/stores/redis.md` states what is promised for each kind of deployment, and what every key
//! contains.

#[cfg(feature = "doctor")]
pub(crate) mod acl;
mod answers;
pub(crate) mod compare;
pub(crate) mod connect;
#[cfg(feature = "doctor")]
pub(crate) mod doctor;
mod fault;
pub(crate) mod hash;
mod inbox;
mod keys;
mod link;
#[cfg(test)]
#[path = "../../../tests/redis_script_mutants/mod.rs"]
mod mutants;
pub(crate) mod parts;
mod scan;
pub(crate) mod script;
mod sentinel;
mod slots;
pub(crate) mod snapshot;
mod string;
mod timeout;
pub(crate) mod url;
mod watch;

use std::sync::Arc;

use crate::driver::Driver;
use crate::error::Result;
use hash::Hash;
use string::StringLocks;
use url::{Layout, Settings};

#[cfg(feature = "doctor")]
pub use doctor::doctor;

/// Opens a client of the locks in a Redis deployment.
///
/// # Errors
///
/// [`InvalidUrl`](crate::Error::InvalidUrl) for an invalid URL;
/// [`Unavailable`](crate::Error::Unavailable) if no connection can be made.
///
/// # Panics
///
/// Outside a Tokio runtime with I/O and time enabled.
///
/// # Cancel safety
///
/// Cancel safe: opening changes nothing in the server.
pub async fn open(url: &str) -> Result<Arc<dyn Driver>> {
    let settings = Settings::parse(url)?;
    use_a_crypto_provider(&settings);
    Ok(match settings.layout {
        Layout::Hash => Arc::new(Hash::open(settings).await?),
        Layout::String { scripts, fences } => {
            Arc::new(StringLocks::open(settings, scripts, fences).await?)
        }
    })
}

/// Installs a TLS crypto provider, unless the program has installed one.
#[cfg(feature = "redis-tls")]
pub(crate) fn use_a_crypto_provider(settings: &Settings) {
    if settings.tls.is_some() && rustls::crypto::CryptoProvider::get_default().is_none() {
        // Fails only if another thread was faster.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    }
}

#[cfg(not(feature = "redis-tls"))]
pub(crate) fn use_a_crypto_provider(_: &Settings) {}

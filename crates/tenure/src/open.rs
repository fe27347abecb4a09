//! From a URL to a client: the one list of schemes.

use std::sync::Arc;

use crate::client::Client;
use crate::doctor::Finding;
use crate::driver::Driver;
use crate::error::{Error, Result};
use crate::store::memory::Memory;

/// Opens the store that a URL names.
///
/// | URL | store |
/// |---|---|
/// | `local:` | a folder of this machine, under the user's state directory; no server |
/// | `local:/some/folder` | a folder of your choice |
/// | `memory:` | a store of this client alone, for tests |
/// | `memory:label` | a store that clients of this process share |
/// | `redis://host:6379/` | a Redis or Valkey server; `rediss://` with TLS, `unix:/path` by socket |
/// | `redis+sentinel://host1,host2/master` | the master that sentinels name |
/// | `redis+cluster://host1,host2` | a Redis Cluster |
/// | `redlock://host1,host2,host3` | a majority of independent Redis servers |
///
/// # Errors
///
/// [`Error::InvalidUrl`] for a URL that names no store; what the store reports.
///
/// # Panics
///
/// Outside a Tokio runtime.
///
/// # Cancel safety
///
/// Cancel safe: a dropped call leaves nothing that another call would find.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> tenure::Result<()> {
/// let locks = tenure::open("memory:").await?;
/// let guard = locks.mutex("inventory:001").lock().await?;
/// println!("fence {}", guard.fence());
/// # Ok(())
/// # }
/// ```
pub async fn open(url: &str) -> Result<Client> {
    let Some((scheme, rest)) = url.split_once(':') else {
        return Err(no_scheme());
    };
    let driver: Arc<dyn Driver> = match scheme {
        "local" => local(rest).await?,
        "memory" if rest.is_empty() => Arc::new(Memory::new()),
        "memory" => Arc::new(Memory::shared(rest)),
        scheme if REDIS.contains(&scheme) => redis(url).await?,
        scheme if REDLOCK.contains(&scheme) => redlock(url).await?,
        _ => return Err(unknown(scheme)),
    };
    Ok(Client::with_driver(driver))
}

/// Looks at the store that a URL names for what endangers locks.
pub(crate) async fn doctor(url: &str) -> Result<Vec<Finding>> {
    match url.split_once(':') {
        None => Err(no_scheme()),
        Some(("local", folder)) => doctor_local(folder).await,
        Some(("memory", _)) => Ok(crate::store::memory::doctor()),
        Some((scheme, _)) if REDIS.contains(&scheme) => doctor_redis(url).await,
        Some((scheme, _)) if REDLOCK.contains(&scheme) => doctor_redlock(url).await,
        Some((scheme, _)) => Err(unknown(scheme)),
    }
}

#[cfg(all(feature = "local", target_os = "linux"))]
async fn local(folder: &str) -> Result<Arc<dyn Driver>> {
    use crate::store::local::Local;
    let folder = (!folder.is_empty()).then(|| std::path::Path::new(folder));
    Ok(Arc::new(Local::open(folder).await?))
}

#[cfg(all(feature = "local", target_os = "linux"))]
async fn doctor_local(folder: &str) -> Result<Vec<Finding>> {
    let folder = (!folder.is_empty()).then(|| std::path::Path::new(folder));
    crate::store::local::doctor(folder).await
}

#[cfg(not(all(feature = "local", target_os = "linux")))]
#[expect(
    clippy::unused_async,
    reason = "the same call as where the store is there"
)]
async fn local(_folder: &str) -> Result<Arc<dyn Driver>> {
    Err(no_local())
}

#[cfg(not(all(feature = "local", target_os = "linux")))]
#[expect(
    clippy::unused_async,
    reason = "the same call as where the store is there"
)]
async fn doctor_local(_folder: &str) -> Result<Vec<Finding>> {
    Err(no_local())
}

#[cfg(not(all(feature = "local", target_os = "linux")))]
fn no_local() -> Error {
    invalid("local: needs Linux and the feature \"local\" of the crate".to_owned())
}

#[cfg(feature = "redis")]
async fn redis(url: &str) -> Result<Arc<dyn Driver>> {
    crate::store::redis::open(url).await
}

#[cfg(feature = "redis")]
async fn redlock(url: &str) -> Result<Arc<dyn Driver>> {
    crate::store::redlock::open(url).await
}

#[cfg(feature = "redis")]
async fn doctor_redis(url: &str) -> Result<Vec<Finding>> {
    crate::store::redis::doctor(url).await
}

#[cfg(feature = "redis")]
async fn doctor_redlock(url: &str) -> Result<Vec<Finding>> {
    crate::store::redlock::doctor(url).await
}

#[cfg(not(feature = "redis"))]
#[expect(
    clippy::unused_async,
    reason = "the same call as where the store is there"
)]
async fn redis(_url: &str) -> Result<Arc<dyn Driver>> {
    Err(no_redis())
}

#[cfg(not(feature = "redis"))]
#[expect(
    clippy::unused_async,
    reason = "the same call as where the store is there"
)]
async fn redlock(_url: &str) -> Result<Arc<dyn Driver>> {
    Err(no_redis())
}

#[cfg(not(feature = "redis"))]
#[expect(
    clippy::unused_async,
    reason = "the same call as where the store is there"
)]
async fn doctor_redis(_url: &str) -> Result<Vec<Finding>> {
    Err(no_redis())
}

#[cfg(not(feature = "redis"))]
#[expect(
    clippy::unused_async,
    reason = "the same call as where the store is there"
)]
async fn doctor_redlock(_url: &str) -> Result<Vec<Finding>> {
    Err(no_redis())
}

#[cfg(not(feature = "redis"))]
fn no_redis() -> Error {
    invalid("redis:// and redlock:// need the feature \"redis\" of the crate".to_owned())
}

fn no_scheme() -> Error {
    invalid(format!("a store's URL begins with one of {SCHEMES}"))
}

/// What follows the scheme may hold a password, and so is not repeated.
fn unknown(scheme: &str) -> Error {
    invalid(format!(
        "no store has the scheme {scheme:?}; known: {SCHEMES}"
    ))
}

fn invalid(reason: String) -> Error {
    Error::InvalidUrl { reason }
}

const SCHEMES: &str = "local:, memory:, redis://, rediss://, redis+sentinel://, redis+cluster://, unix:, redlock://, redlocks://";

/// The schemes of Redis servers that vote.
const REDLOCK: [&str; 2] = ["redlock", "redlocks"];

/// The schemes of a Redis deployment.
const REDIS: [&str; 10] = [
    "redis",
    "rediss",
    "valkey",
    "valkeys",
    "unix",
    "redis+unix",
    "redis+sentinel",
    "rediss+sentinel",
    "redis+cluster",
    "rediss+cluster",
];

//! Locks that hold across processes and machines.
//!
//! Two copies of a service must not sell the same last item or send the same mail. A lock inside one process does not
//! see the other copies. A lock in a store does, if it is done right: with leases that expire, owners, a fair line,
//! and a [`Fence`] that makes even a paused holder harmless.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let locks = tenure::open("memory:").await?; // or "local:", across processes, with no server
//! let guard = locks.mutex("inventory:001").lock().await?; // waits its turn, renews itself
//! println!("send fence {} along with every write", guard.fence());
//! guard.release().await?; // or drop it, also at the end of main
//! # Ok(())
//! # }
//! ```
//!
//! - [`open()`] chooses the store by its URL, and returns a [`Client`].
//! - [`Client::mutex`], [`rwlock`](Client::rwlock) and [`semaphore`](Client::semaphore) return a [`Lock`]; its
//!   options and [`lock`](Lock::lock), [`try_lock`](Lock::try_lock) and [`lock_timeout`](Lock::lock_timeout) are the
//!   same for all.
//! - A [`Guard`] knows its [`fence`](Guard::fence) and its [`health`](Guard::health), reports a [loss](Guard::lost)
//!   before anyone else can hold the lock, and releases the lock when dropped.
//! - [`Lock::once`] computes a result once for all callers that want it: a cache entry, a report.
//! - `doctor` (feature `doctor`) checks a store for settings that endanger locks.
//! - [`transaction`] has locks for data in a database: taken in the caller's own transaction, or proved by its last
//!   statement.
//! - [`guarded`] has writes that ZooKeeper accepts only while a lock is held.
//! - [`url`] parses the URLs of stores, and shows them without passwords.
//! - [`blocking`] has the same API for code that is not async.
//! - [`driver`] is the contract for your own stores; the feature `conformance` tests them.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `local` (default) | the store `local:`, for processes of one Linux machine |
//! | `redis` | the stores `redis://`, `redis+sentinel://`, `redis+cluster://`, `unix:` and `redlock://` |
//! | `redis-tls` | TLS for them by rustls: `rediss://`, `redlocks://` and the like |
//! | `mysql` | the stores `mysql://` and `mariadb://` |
//! | `mysql-tls` | TLS for them by rustls: `tls=on` |
//! | `postgres` | the store `postgres://` |
//! | `postgres-tls` | TLS for it by rustls: `tls=on` |
//! | `zookeeper` | the store `zookeeper://` |
//! | `zookeeper-tls` | TLS for it by rustls: `zookeepers://` |
//! | `doctor` | the function `doctor`, which checks a store for settings that endanger locks |
//! | `metrics` | counters and histograms through the `metrics` facade: `tenure_granted_total`, `tenure_lost_total`, `tenure_held`, `tenure_waiting`, `tenure_wait_seconds`, `tenure_hold_seconds`, each with the label `store` |
//! | `conformance` | the rules that every driver must keep, and fault injection, for tests |
//! | `serde` | nothing by itself: `local`, `mysql`, `postgres` and `zookeeper` need it to write their state |
//! | `simulation` | a seed for all random choices, so that a simulated run can be repeated |
//!
//! The store `memory:` is always available. No feature changes a type or a behaviour.
//!
//! Events go to `tracing`: grants at `debug`, losses and failed requests at `warn`, with the fields `name`, `fence`,
//! `loss` and `error`. Owners and URLs are never logged.

mod background;
pub mod blocking;
mod by_hand;
mod client;
mod clock;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
#[cfg(feature = "doctor")]
mod doctor;
pub mod driver;
mod engine;
mod error;
mod fork;
mod guard;
pub mod guarded;
mod lock;
mod name;
mod once;
mod open;
mod random;
mod schemes;
pub mod store;
mod sync;
mod thread;
pub mod transaction;
pub mod url;
mod with;

pub use crate::by_hand::{Lease, LeaseRenewal};
pub use crate::client::Client;
#[cfg(feature = "doctor")]
pub use crate::doctor::{Finding, Verdict, doctor};
pub use crate::driver::Loss;
pub use crate::error::{BoxError, Error, Result};
pub use crate::guard::{Guard, Health, Outcome, RenewalFailure};
pub use crate::lock::{DEFAULT_TTL, Lock, RwLock, Semaphore};
pub use crate::name::{ClaimId, Fence, Name, Owner};
pub use crate::once::{Once, Seen};
pub use crate::open::open;
#[cfg(feature = "simulation")]
pub use crate::random::seeded::seed;
pub use crate::schemes::{Scheme, schemes};

/// Compiles the README's examples.
#[cfg(all(doctest, feature = "local"))]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// Compiles and runs the Rust recipes of the cookbook.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/cookbook.md")]
struct Cookbook;

/// Compiles the code of the page about databases.
#[cfg(all(doctest, feature = "mysql", feature = "postgres"))]
#[doc = include_str!("../../../docs/databases.md")]
struct Databases;

#[cfg(test)]
mod tests {
    /// The feature table in the docs of this crate.
    #[test]
    fn the_docs_list_the_features_of_the_manifest() {
        let manifest = include_str!("../Cargo.toml");
        let (_, features) = manifest.split_once("\n[features]\n").unwrap();
        let features = features.split("\n[").next().unwrap().lines();
        let features = features.filter_map(|line| line.split_once(" = ["));
        let mut declared: Vec<_> = features.map(|(name, _)| name).collect();
        declared.retain(|name| *name != "default");
        let docs = include_str!("lib.rs").lines();
        let rows = docs.filter_map(|line| line.strip_prefix("//! | `"));
        let mut documented: Vec<_> = rows.filter_map(|row| row.split('`').next()).collect();
        declared.sort_unstable();
        documented.sort_unstable();
        assert_eq!(documented, declared);
    }
}

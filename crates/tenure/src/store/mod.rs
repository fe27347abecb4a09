//! The stores: each its own module, each behind its own feature but for memory.
//!
//! | store | module | lives in | waiters are told by |
//! |---|---|---|---|
//! | `memory:` | [`memory`] | this process | a channel |
//! | `local:` | `local` | a folder of this machine | a Unix datagram |
//! | `redis://` | `redis` | a Redis or Valkey server, or a cluster of them | a message on its connection |
//! | `redlock://` | `redlock` | a majority of independent Redis servers | messages of the servers |
//!
//! Drivers use [`driver`](crate::driver), the names and the error of this crate, and nothing else of it.

pub(crate) mod ledger;
#[cfg(all(feature = "local", target_os = "linux"))]
pub mod local;
pub mod memory;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "redis")]
pub mod redlock;
#[cfg(feature = "redis")]
#[cfg_attr(
    not(feature = "simulation"),
    expect(unreachable_pub, reason = "only simulations name these types")
)]
pub(crate) mod vote;

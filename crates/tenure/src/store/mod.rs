//! The stores: each has its own module and, except for memory, its own feature.
//!
//! | store | module | lives in | waiters are told by |
//! |---|---|---|---|
//! | `memory:` | [`memory`] | this process | a channel |
//! | `local:` | `local` | a directory of this machine | a Unix datagram |
//! | `redis://` | `redis` | a Redis or Valkey server, or a cluster of them | a message on its connection |
//! | `redlock://` | `redlock` | a majority of independent Redis servers | messages of the servers |
//! | `mysql://`, `mariadb://` | `mysql` | a table in MySQL or MariaDB | a query that is interrupted |
//! | `postgres://` | `postgres` | a table in PostgreSQL | `NOTIFY` |
//! | `zookeeper://` | `zookeeper` | nodes of a ZooKeeper ensemble | a watch |
//!
//! Drivers use only [`driver`](crate::driver), the names and the error of this crate.

pub(crate) mod ledger;
#[cfg(all(feature = "local", target_os = "linux"))]
pub mod local;
pub mod memory;
#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "redis")]
pub mod redlock;
#[cfg(feature = "zookeeper")]
pub(crate) mod session;
#[cfg(all(
    any(feature = "mysql", feature = "postgres"),
    not(feature = "simulation")
))]
pub(crate) mod sql;
#[cfg(feature = "simulation")]
#[cfg_attr(
    not(any(feature = "mysql", feature = "postgres")),
    expect(dead_code, reason = "a simulated database has no URL")
)]
pub mod sql;
#[cfg(any(
    feature = "mysql",
    feature = "postgres",
    feature = "simulation",
    feature = "zookeeper"
))]
#[cfg_attr(
    not(any(feature = "mysql", feature = "postgres", feature = "zookeeper")),
    allow(dead_code, reason = "a simulated database has no URL")
)]
pub(crate) mod tls;
#[cfg(feature = "redis")]
#[cfg_attr(
    not(feature = "simulation"),
    expect(unreachable_pub, reason = "only simulations name these types")
)]
pub(crate) mod vote;
#[cfg(feature = "zookeeper")]
pub mod zookeeper;

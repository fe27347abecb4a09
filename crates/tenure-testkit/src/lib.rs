//! Starts real servers for tests and demonstrations, breaks them on command, and leaves nothing
//! behind.
//!
//! [`RedisServer`], [`MariaDbServer`], [`PostgresServer`] and [`ZooKeeperServer`] have the same
//! methods for what they have in common. There are also groups of Redis and ZooKeeper servers,
//! replicas of the databases, and a [`PgBouncer`]. A [`Proxy`] can be put in front of any of them.
//!
//! Each server has its own directory and loopback port, and stops when its value is dropped. It
//! also stops when the process that started it is killed: a small guardian process takes care of
//! that. A program that is not installed is an error that says what to install; nothing is skipped.
//!
//! The kit also starts programs in several processes that exchange messages: [`Child`] is the
//! process that was started, [`Parent`] the one that started it.
//!
//! Everything here except [`Parent::next`] blocks, so that any test can use it. Linux only.
//!
//! ```no_run
//! use tenure_testkit::{Proxy, RedisServer};
//!
//! let server = RedisServer::start()?;
//! let proxy = Proxy::start(server.port())?;
//! let url = server.url_on(proxy.port());
//! proxy.lose_next_reply_then_cut();
//! // … the client at `url` does not learn the outcome of its next request …
//! assert_eq!(proxy.replies_swallowed(), 1);
//! # Ok::<(), tenure_testkit::Error>(())
//! ```

mod alone;
mod browser;
mod clock;
mod error;
mod mariadb;
mod port;
mod postgres;
mod process;
mod proxy;
mod redis;
mod server;
pub mod shared;
mod sql;
mod tls;
mod url;
mod user;
mod wait;
mod zookeeper;

pub use alone::alone;
pub use browser::{Browser, Scheme};
pub use error::{Error, Result};
pub use mariadb::{MariaDb, MariaDbBuilder, MariaDbServer};
pub use port::Port;
pub use postgres::{PgBouncer, PoolMode, Postgres, PostgresBuilder, PostgresServer};
pub use process::{Child, Parent, Process};
pub use proxy::{Fault, Proxy};
pub use redis::{
    Persistence, RedisBuilder, RedisCluster, RedisSentinel, RedisServer, Reply, SlotMove, slot_of,
};
pub use sql::{Durability, Kind, SqlBuilder, SqlServer};
pub use tls::{Certificate, ClientCertificate, Tls};
pub use zookeeper::{ZooKeeperBuilder, ZooKeeperEnsemble, ZooKeeperServer};

//! Starts real servers for tests and demonstrations, breaks them on command, and leaves nothing behind.
//!
//! Each server has a folder and a loopback port of its own, and stops when its value is dropped. It also stops when
//! the process that started it is killed: a small guardian waits for just that. A program that is not installed is an
//! error that says what to install; nothing is skipped.
//!
//! Everything here blocks, so that it can be used from any test. For Linux.
//!
//! ```no_run
//! use tenure_testkit::{Proxy, RedisServer};
//!
//! let server = RedisServer::start()?;
//! let proxy = Proxy::start(server.port())?;
//! let url = server.url_on(proxy.port());
//! proxy.lose_next_reply_then_cut();
//! // … the client at `url` does not learn what became of its next request …
//! assert_eq!(proxy.replies_swallowed(), 1);
//! # Ok::<(), tenure_testkit::Error>(())
//! ```

mod browser;
mod error;
mod port;
mod process;
mod proxy;
mod redis;
pub mod shared;
mod wait;

pub use browser::{Browser, Scheme};
pub use error::{Error, Result};
pub use port::Port;
pub use process::Process;
pub use proxy::{Fault, Proxy};
pub use redis::{
    Certificate, ClientCertificate, Persistence, RedisBuilder, RedisCluster, RedisSentinel,
    RedisServer, Reply, SlotMove, Tls, slot_of,
};

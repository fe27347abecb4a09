//! Redis in all its forms: one server, a cluster, and sentinels.

mod builder;
mod cluster;
mod reply;
mod sentinel;
mod server;
mod slot;

pub use builder::{Persistence, RedisBuilder};
pub use cluster::{RedisCluster, SlotMove};
pub use reply::Reply;
pub use sentinel::RedisSentinel;
pub use server::RedisServer;
pub use slot::slot_of;

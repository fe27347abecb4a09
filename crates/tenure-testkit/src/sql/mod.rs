//! SQL servers: what MariaDB and PostgreSQL have in common.

mod builder;
mod client;
mod kind;
mod server;
mod template;

pub(crate) use builder::{Account, Options};
pub use builder::{Durability, SqlBuilder};
pub(crate) use client::run;
pub use kind::Kind;
pub(crate) use kind::{DATABASE, Start, Way};
pub use server::SqlServer;
pub(crate) use template::unpack;

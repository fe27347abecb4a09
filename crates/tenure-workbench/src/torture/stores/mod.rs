//! What differs between the stores, for a torture.
//!
//! A new store adds a file here, with how its server is started and broken, and a line to [`of`]; a variant of [`Servers`] if
//! torture can start its servers.

use std::fmt::Debug;

use clap::ValueEnum;
use tenure::Name;

use super::address::Address;
use tenure_cli::error::{Failure, Result};
use tenure_cli::exit_code;

mod redis;
mod redlock;

/// A store that can be tortured.
pub(super) trait TortureStore: Debug + Send + Sync {
    /// Returns whether waiters are promised their order, while servers or the links to them are broken or are not.
    fn promises_order(&self, is_broken: bool) -> bool;

    /// Returns whether its servers vote: then readers that ask at the same time may get the same fence, and claims of one owner
    /// different ones.
    fn votes(&self) -> bool {
        false
    }

    /// Starts servers that keep every answered write; returns them and the URL of the store.
    fn start(&self) -> tenure_testkit::Result<(Vec<Box<dyn Server>>, String)>;

    /// Returns what a server answers at once.
    fn ping(&self) -> &'static [u8];

    /// Returns what every request contains that changes something.
    fn changing_request(&self) -> &'static [u8];

    /// Returns what is left of the names on the servers, or why that is not known.
    fn left_over(&self, address: &Address, names: &[Name]) -> Vec<String>;
}

/// A server of our own.
pub(super) trait Server: Debug + Send {
    fn pid(&self) -> u32;

    fn is_running(&self) -> bool;

    /// Kills it with signal 9.
    fn kill(&mut self) -> tenure_testkit::Result<()>;

    /// Starts it again with its data.
    fn start_again(&mut self) -> tenure_testkit::Result<()>;
}

/// Servers that a torture can start by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Servers {
    /// One Redis server, which keeps every answered write
    Redis,
    /// Three of them, which vote
    Redlock,
}

impl Servers {
    pub(super) fn store(self) -> &'static dyn TortureStore {
        match self {
            Self::Redis => &redis::Redis,
            Self::Redlock => &redlock::Redlock,
        }
    }
}

/// Returns the store of a URL; `None` if it has no servers.
pub(super) fn of(url: &str) -> Result<Option<&'static dyn TortureStore>> {
    let scheme = url.split(':').next().unwrap_or_default();
    let sentence = match scheme {
        "local" => return Ok(None),
        "memory" => {
            "memory: is a store of one process alone, and a torture needs several; take local:"
        }
        "redlock" | "redlocks" => return Ok(Some(&redlock::Redlock)),
        _ if url.contains("layout=string") => {
            "layout=string has neither a line nor a list of locks that could be looked at; leave it out"
        }
        "redis" | "rediss" | "unix" | "redis+sentinel" | "rediss+sentinel" | "redis+cluster"
        | "rediss+cluster" => return Ok(Some(&redis::Redis)),
        _ => "this store cannot be tortured; take local:, redis://… or redlock://…, or --server",
    };
    Err(Failure::new(exit_code::USAGE, sentence))
}

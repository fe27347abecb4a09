//! Where the stock lives: the resource that the lock protects.
//!
//! It counts by itself what it accepts and refuses, in the same step as each write. So the table does
//! not depend on what copies and buyers lived to tell.

use std::path::PathBuf;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::demo::flash_sale::record::Counted;
use tenure_cli::error::{Failure, Result};
use tenure_cli::exit_code;

mod local;
mod redis;

/// A number of pieces, as a sale reads and writes it.
#[async_trait]
pub(crate) trait Stock: std::fmt::Debug + Send + Sync {
    /// Puts so many pieces there, and forgets all that was counted.
    async fn fill(&self, left: u64) -> Result<()>;

    /// Reads how many are left.
    async fn read(&self) -> Result<u64>;

    /// Writes how many are left.
    ///
    /// With a fence, the write is refused if a larger one was seen before. Without, it is a plain write.
    async fn write(&self, left: u64, fence: Option<u64>) -> Result<Written>;

    /// Returns what is left, and what was counted.
    async fn counted(&self) -> Result<Counted>;

    /// Removes it, and what a broken lock of this name may have left behind on its server.
    async fn remove(&self, lock: &str) -> Result<()>;
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// It is there.
    Accepted,
    /// Its fence is older than one that was seen; nothing changed.
    Stale,
}

/// Which stock is meant, so that a copy can be told.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Shelf {
    /// A file of this machine.
    File(PathBuf),
    /// A key of a Redis server.
    Redis { url: String, key: String },
}

impl Shelf {
    /// Opens the stock.
    pub(crate) async fn open(&self) -> Result<Box<dyn Stock>> {
        Ok(match self {
            Self::File(path) => Box::new(local::File::open(path)?),
            Self::Redis { url, key } => Box::new(redis::Redis::open(url, key).await?),
        })
    }
}

fn failed(why: &dyn std::fmt::Display) -> Failure {
    let sentence = format!("the stock of the sale cannot be used: {why}");
    Failure::new(exit_code::UNAVAILABLE, sentence)
}

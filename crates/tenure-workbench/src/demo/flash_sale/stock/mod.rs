//! Where the stock lives: the resource that the lock protects.
//!
//! It counts by itself what it accepts and refuses, atomically with each write. So the table does not
//! depend on copies that were killed and buyers that got no answer.

use std::path::PathBuf;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::demo::flash_sale::record::Counted;
use tenure_cli::error::{Failure, Result};
use tenure_cli::exit_code;

mod file;
mod redis;

/// A number of pieces, as a sale reads and writes it.
#[async_trait]
pub(crate) trait Stock: std::fmt::Debug + Send + Sync {
    /// Sets the number of pieces, and resets the counts.
    async fn fill(&self, left: u64) -> Result<()>;

    /// Reads how many are left.
    async fn read(&self) -> Result<u64>;

    /// Writes how many are left.
    ///
    /// With a fence, the write is refused if a larger one was seen before. Without, it is a plain write.
    async fn write(&self, left: u64, fence: Option<u64>) -> Result<Written>;

    /// Returns what is left, and what was counted.
    async fn counted(&self) -> Result<Counted>;

    /// Removes it, and what a broken lock of this name may have left on its server.
    async fn remove(&self, lock: &str) -> Result<()>;
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// It is stored.
    Accepted,
    /// Its fence is older than one that was seen; nothing changed.
    Stale,
}

/// Where the stock is, for the copies to open it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StockLocation {
    /// A file of this machine.
    File(PathBuf),
    /// A key of a Redis server.
    Redis { url: String, key: String },
}

impl StockLocation {
    /// Opens the stock.
    pub(crate) async fn open(&self) -> Result<Box<dyn Stock>> {
        Ok(match self {
            Self::File(path) => Box::new(file::File::open(path)?),
            Self::Redis { url, key } => Box::new(redis::Redis::open(url, key).await?),
        })
    }
}

fn failed(why: &dyn std::fmt::Display) -> Failure {
    let sentence = format!("the stock of the sale cannot be used: {why}");
    Failure::new(exit_code::UNAVAILABLE, sentence)
}

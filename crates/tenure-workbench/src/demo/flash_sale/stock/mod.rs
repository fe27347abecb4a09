//! Where the stock lives: the resource that the lock protects.
//!
//! It counts what it accepts and refuses, atomically with each write. The table therefore does not
//! depend on copies that were killed and buyers that got no answer.
//!
//! It lives where the locks do. A new place is a file here and a line in [`KINDS`].

use std::path::PathBuf;
use std::pin::Pin;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tenure::url::StoreUrl;
use tenure_checker::Written;

use crate::demo::flash_sale::record::Counted;
use tenure_cli::{Failure, Result};

mod file;
mod mysql;
mod postgres;
mod redis;
mod row;

static KINDS: [&Kind; 5] = [
    &file::KIND,
    &mysql::KIND,
    &postgres::KIND,
    &redis::KIND,
    &redis::KIND_OF_VOTES,
];

/// A kind of place for the stock.
#[derive(Debug)]
struct Kind {
    /// The schemes of the stores whose locks it can live beside.
    schemes: &'static [&'static str],
    /// Returns the server of a store to live on, or why there is none.
    server: fn(&StoreUrl) -> Result<StoreUrl, &'static str>,
    /// What such a server offers to locks other than tenure's.
    means: Means,
    open: fn(StockLocation) -> Opening,
}

type Opening = Pin<Box<dyn Future<Output = Result<Box<dyn Stock>>> + Send>>;

/// What a lock needs from the server of the stock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Means {
    Nothing,
    /// The hand-written locks: a Redis server.
    Recipes,
    /// Sales that protect their own row: a database.
    Rows,
}

/// How a database protects a sale without a lock of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowGuard {
    /// The row is locked when it is read, until the transaction ends: `SELECT … FOR UPDATE`.
    Pessimistic,
    /// The write compares the version that was read.
    Optimistic,
}

/// A sale that the database protects, from its read to its write.
#[async_trait]
pub(crate) trait RowSale: std::fmt::Debug + Send {
    /// Returns how many pieces were left at the read.
    fn left(&self) -> u64;

    /// Writes how many pieces are left; refused if somebody else has written since the read.
    async fn write(self: Box<Self>, left: u64) -> Result<Written>;

    /// Ends the sale without a write.
    async fn give_up(self: Box<Self>) -> Result<()>;
}

/// The number of pieces, which a sale reads and writes.
#[async_trait]
pub(crate) trait Stock: std::fmt::Debug + Send + Sync {
    /// Sets the number of pieces, and resets the counts.
    async fn fill(&self, left: u64) -> Result<()>;

    /// Reads how many pieces are left.
    async fn read(&self) -> Result<u64>;

    /// Writes how many pieces are left.
    ///
    /// With a fence, the write is refused if a larger fence was seen before. Without one, it is a
    /// plain write.
    async fn write(&self, left: u64, fence: Option<u64>) -> Result<Written>;

    /// Returns what is left, and the counts.
    async fn counted(&self) -> Result<Counted>;

    /// Starts a sale that the stock's own database protects.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, like the sale that it returns: dropping either rolls back.
    async fn begin(&self, _guard: RowGuard) -> Result<Box<dyn RowSale + '_>> {
        Err(failed(&"it is not in a database"))
    }

    /// Removes the stock, and what a broken lock with this name may have left on its server.
    async fn remove(&self, lock: &str) -> Result<()>;
}

/// Where the stock is, for the copies to open it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StockLocation {
    /// The URL of its server, which may contain a password.
    pub(crate) server: String,
    /// An id that no other sale has.
    id: String,
    /// The directory of the sale.
    folder: PathBuf,
}

impl StockLocation {
    /// Returns a place beside the locks of a store.
    pub(crate) fn beside(store: &str, id: String, folder: PathBuf) -> Result<Self> {
        let store = StoreUrl::parse(store)?;
        let server = (Kind::of(&store)?.server)(&store).map_err(Failure::usage)?;
        Ok(Self {
            server: server.reveal(),
            id,
            folder,
        })
    }

    /// Returns whether its server offers what a lock needs.
    pub(crate) fn has(&self, means: Means) -> bool {
        means == Means::Nothing || self.kind().is_ok_and(|kind| kind.means == means)
    }

    /// Opens the stock.
    pub(crate) async fn open(&self) -> Result<Box<dyn Stock>> {
        (self.kind()?.open)(self.clone()).await
    }

    fn kind(&self) -> Result<&'static Kind> {
        Kind::of(&StoreUrl::parse(&self.server)?)
    }
}

impl Kind {
    fn of(store: &StoreUrl) -> Result<&'static Self> {
        let knows = |kind: &&&Self| kind.schemes.contains(&store.scheme);
        let kind = KINDS.iter().find(knows);
        let kind =
            kind.ok_or_else(|| Failure::usage("no sale can keep its stock in this store"))?;
        Ok(kind)
    }
}

fn failed(why: &dyn std::fmt::Display) -> Failure {
    Failure::unavailable(format!("the stock of the sale cannot be used: {why}"))
}

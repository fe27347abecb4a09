//! What all sales of one run share: the store, the stock and a folder.

use tempfile::TempDir;
use tenure::{Client, Name};
use tenure_testkit::RedisServer;

use super::args::FlashSaleArgs;
use super::lock::LockKind;
use super::stock::Shelf;
use crate::bench::Nodes;
use tenure_cli::error::{Failure, Result};
use tenure_cli::exit_code;
use tenure_cli::store::Store;

/// Where the sales take place; what it started and wrote is gone when it is dropped.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(super) args: FlashSaleArgs,
    pub(super) store: Store,
    pub(super) shelf: Shelf,
    /// Looks at who holds the lock and who waits.
    pub(super) client: Client,
    pub(super) folder: TempDir,
    /// Our own server, if one was needed.
    _server: Option<RedisServer>,
}

impl Stage {
    /// Opens the store, or starts one of our own if nobody chose any.
    pub(crate) async fn open(
        store: &Store,
        args: FlashSaleArgs,
        locks: &[LockKind],
    ) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("tenure-demo-").tempdir()?;
        let named = store.is_named();
        let server = match named {
            false if locks.iter().any(|lock| lock.needs_redis()) => Some(own_server()?),
            _ => None,
        };
        let store = match &server {
            Some(server) => Store::of(&server.url()),
            None if named => Store::of(store.url()),
            None => Store::of(&format!("local:{}", folder.path().join("locks").display())),
        };
        let shelf = match server_of(store.url())? {
            Some(url) => Shelf::Redis {
                url,
                key: format!("tenure-demo:{}:stock", id()),
            },
            None => Shelf::File(folder.path().join("stock")),
        };
        if matches!(shelf, Shelf::File(_)) && locks.iter().any(|lock| lock.needs_redis()) {
            let sentence = "this lock needs Redis; write --store redis://…, or leave --store out";
            return Err(Failure::new(exit_code::USAGE, sentence));
        }
        Ok(Self {
            client: store.open().await?,
            args,
            store,
            shelf,
            folder,
            _server: server,
        })
    }

    /// Returns what is locked in a sale: a name that nobody else uses, nor another sale, since a
    /// broken lock may stay taken for ever.
    pub(super) fn name() -> Result<Name> {
        Ok(Name::new(&format!("tenure-demo/{}/inventory", id()))?)
    }

    /// Returns where the locks live, as it may be shown.
    pub(super) fn shown(&self) -> String {
        match &self._server {
            Some(_) => format!("{} (started for the demo)", self.store.shown()),
            None => self.store.shown(),
        }
    }
}

/// The Redis server on which the stock of a store lives; `None` if that is this machine.
fn server_of(url: &str) -> Result<Option<String>> {
    let wrong = |sentence: &str| Err(Failure::new(exit_code::USAGE, sentence));
    let scheme = url.split(':').next().unwrap_or(url);
    match scheme {
        "redis" | "rediss" | "valkey" | "valkeys" | "unix" | "redis+unix" => {
            Ok(Some(url.to_owned()))
        }
        "redlock" | "redlocks" => Ok(Some(Nodes::of(url).server(0))),
        "redis+sentinel" | "rediss+sentinel" | "redis+cluster" | "rediss+cluster" => {
            wrong("the stock of the sale lives on one server; name it with --store redis://…")
        }
        "memory" => wrong("memory: is for one process, and the copies are several; try local:"),
        _ => Ok(None),
    }
}

/// A text that nobody else has.
fn id() -> String {
    format!("{:08x}", fastrand::u32(..))
}

fn own_server() -> Result<RedisServer> {
    RedisServer::start().map_err(|error| {
        let sentence =
            format!("a Redis server is needed for this lock: {error}; or name one with --store");
        Failure::new(exit_code::UNAVAILABLE, sentence)
    })
}

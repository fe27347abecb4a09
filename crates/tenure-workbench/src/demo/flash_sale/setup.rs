//! What all sales of one run share: the store, the stock and a directory.

use clap::ValueEnum;
use tempfile::TempDir;
use tenure::{Client, Name};
use tenure_testkit::{MariaDbServer, RedisServer};

use super::args::FlashSaleArgs;
use super::lock_kind::LockKind;
use super::stock::{Means, StockLocation};
use tenure_cli::{Failure, Result, Store};

/// The store, the stock and a directory; dropping it removes what it started and wrote.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(super) args: FlashSaleArgs,
    pub(super) store: Store,
    pub(super) stock: StockLocation,
    /// Lists who holds the lock and who waits.
    pub(super) client: Client,
    pub(super) folder: TempDir,
    /// Our own server, if one was needed.
    server: Option<OwnServer>,
}

/// A server that was started for the run, and stops with it.
#[derive(Debug)]
enum OwnServer {
    MariaDb(MariaDbServer),
    Redis(RedisServer),
}

impl Setup {
    /// Opens the store, or starts our own if the user chose none.
    pub(crate) async fn open(store: &Store, args: FlashSaleArgs) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("tenure-demo-").tempdir()?;
        let named = store.is_named();
        let needed = match args.all {
            // Most locks are for Redis.
            true => Means::Recipes,
            false => args.lock.needs(),
        };
        let server = match named {
            true => None,
            false => OwnServer::start(needed)?,
        };
        let store = match &server {
            Some(server) => Store::of(&server.url()),
            None if named => Store::of(store.url()),
            None => Store::of(&format!("local:{}", folder.path().join("locks").display())),
        };
        let stock = StockLocation::beside(store.url(), id(), folder.path().to_owned())?;
        if !args.all && !stock.has(needed) {
            let server = match needed {
                Means::Rows => "a database; write --store mysql://… or postgres://…",
                _ => "Redis; write --store redis://…",
            };
            let sentence = format!("this lock needs {server}, or leave --store out");
            return Err(Failure::usage(sentence));
        }
        Ok(Self {
            client: store.open().await?,
            args,
            store,
            stock,
            folder,
            server,
        })
    }

    /// Stops and removes everything that was started and written.
    pub(super) fn finish(self) -> FlashSaleArgs {
        self.args
    }

    /// Returns the locks of the run: the chosen one, or all that work here.
    pub(super) fn locks(&self) -> Vec<LockKind> {
        let all = LockKind::value_variants().iter().copied();
        match self.args.all {
            true => all.filter(|lock| self.stock.has(lock.needs())).collect(),
            false => vec![self.args.lock],
        }
    }

    /// Returns a new name for each sale, since a broken lock may stay taken for ever.
    pub(super) fn name() -> Result<Name> {
        Ok(Name::new(&format!("tenure-demo/{}/inventory", id()))?)
    }

    /// Returns where the locks live, without a password.
    pub(super) fn shown(&self) -> String {
        match &self.server {
            Some(_) => format!("{} (started for the demo)", self.store.shown()),
            None => self.store.shown(),
        }
    }
}

/// Returns a random text that is unique enough.
fn id() -> String {
    format!("{:08x}", fastrand::u32(..))
}

impl OwnServer {
    /// Starts a server that provides what is needed; returns `None` if nothing is.
    fn start(needed: Means) -> Result<Option<Self>> {
        let (server, started) = match needed {
            Means::Nothing => return Ok(None),
            Means::Recipes => ("a Redis", RedisServer::start().map(Self::Redis)),
            Means::Rows => ("a MariaDB", MariaDbServer::start().map(Self::MariaDb)),
        };
        started.map(Some).map_err(|error| {
            let sentence = format!(
                "{server} server is needed for this lock: {error}; or name one with --store"
            );
            Failure::unavailable(sentence)
        })
    }

    fn url(&self) -> String {
        match self {
            Self::MariaDb(server) => server.url(),
            Self::Redis(server) => server.url(),
        }
    }
}

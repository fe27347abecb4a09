//! What all sales of one run share: the store, the stock and a folder.

use tempfile::TempDir;
use tenure::{Client, Name};
use tenure_testkit::RedisServer;

use super::args::FlashSaleArgs;
use super::lock_kind::LockKind;
use super::stock::StockLocation;
use tenure_cli::error::{Failure, Result};
use tenure_cli::exit_code;
use tenure_cli::store::Store;

/// The store, the stock and a folder; what it started and wrote is removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(super) args: FlashSaleArgs,
    pub(super) store: Store,
    pub(super) stock: StockLocation,
    /// Looks at who holds the lock and who waits.
    pub(super) client: Client,
    pub(super) folder: TempDir,
    /// Our own server, if one was needed.
    _server: Option<RedisServer>,
}

impl Setup {
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
        let stock = match server_of(store.url())? {
            Some(url) => StockLocation::Redis {
                url,
                key: format!("tenure-demo:{}:stock", id()),
            },
            None => StockLocation::File(folder.path().join("stock")),
        };
        if matches!(stock, StockLocation::File(_)) && locks.iter().any(|lock| lock.needs_redis()) {
            let sentence = "this lock needs Redis; write --store redis://…, or leave --store out";
            return Err(Failure::new(exit_code::USAGE, sentence));
        }
        Ok(Self {
            client: store.open().await?,
            args,
            store,
            stock,
            folder,
            _server: server,
        })
    }

    /// Stops and removes all that was started and written.
    pub(super) fn finish(self) -> FlashSaleArgs {
        self.args
    }

    /// Returns what is locked in a sale: a new name each time, since a broken lock may stay taken forever.
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
        "redlock" | "redlocks" => Ok(Some(first_server(url))),
        "redis+sentinel" | "rediss+sentinel" | "redis+cluster" | "rediss+cluster" => {
            wrong("the stock of the sale lives on one server; name it with --store redis://…")
        }
        "memory" => wrong("memory: is for one process, and the copies are several; try local:"),
        _ => Ok(None),
    }
}

/// The first server of a redlock URL as a server by itself.
fn first_server(url: &str) -> String {
    let (scheme, nodes) = url.split_once("://").unwrap_or((url, ""));
    let node = nodes.split(',').next().unwrap_or(nodes);
    match node.contains("://") || node.starts_with("unix:") {
        true => node.to_owned(),
        // The scheme ends in an s if the connection is encrypted.
        false => format!("{}://{node}", scheme.replace("redlock", "redis")),
    }
}

/// A random text, unique enough.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stock_of_a_vote_lives_on_its_first_server() {
        let cases = [
            ("redlock://a,b:1?prefix=x:", "redis://a"),
            ("redlocks://ann:secret@a:1,b", "rediss://ann:secret@a:1"),
            ("redlock://rediss://a:1/3,b,c", "rediss://a:1/3"),
            ("redlock://unix:/run/r.sock,b,c", "unix:/run/r.sock"),
        ];
        for (url, server) in cases {
            assert_eq!(first_server(url), server, "{url}");
        }
    }
}

//! Bare locks on Redis, as a careful user writes them by hand with the same client library.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisResult};

use crate::bench::contender::{Attempt, BareLock, BareLocks, bare_failed};
use crate::bench::stores::redis::TOKEN;
use crate::recipes;
use tenure_cli::Result;

/// `SET NX PX`, and a script that deletes the key if it still has the caller's value.
///
/// It never waits. If the key is taken it fails, because only workloads without competition use it.
#[derive(Debug)]
struct SetNx {
    connection: MultiplexedConnection,
    /// The hash of the script, by which the server finds it.
    script: Arc<str>,
    key: String,
}

impl SetNx {
    async fn set(&mut self) -> Result<()> {
        let mut set = redis::cmd("SET");
        set.arg(&self.key).arg(VALUE).arg("NX").arg("PX");
        set.arg(TTL_MS);
        match set.query_async(&mut self.connection).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(bare_failed(&"somebody else has its key")),
            Err(error) => Err(bare_failed(&error)),
        }
    }

    async fn delete(&mut self) -> Result<()> {
        let mut delete = redis::cmd("EVALSHA");
        delete.arg(&*self.script).arg(1).arg(&self.key).arg(VALUE);
        match delete.query_async(&mut self.connection).await {
            Ok(1) => Ok(()),
            Ok::<i64, _>(_) => Err(bare_failed(&"its key was gone")),
            Err(error) => Err(bare_failed(&error)),
        }
    }
}

impl BareLock for SetNx {
    fn acquire(&mut self) -> Attempt<'_> {
        Attempt::in_flight(self.set())
    }

    fn release(&mut self) -> Attempt<'_> {
        Attempt::in_flight(self.delete())
    }
}

/// The same on several servers at once. It is done when the slowest has replied: the pair of the
/// slowest node while all are asked, which is the minimum cost of a vote of all.
#[derive(Debug)]
struct Everywhere(Vec<SetNx>);

impl BareLock for Everywhere {
    fn acquire(&mut self) -> Attempt<'_> {
        Attempt::in_flight(together(self.0.iter_mut().map(SetNx::set)))
    }

    fn release(&mut self) -> Attempt<'_> {
        Attempt::in_flight(together(self.0.iter_mut().map(SetNx::delete)))
    }
}

/// Waits for all, and returns the first failure, if any.
async fn together(all: impl Iterator<Item = impl Future<Output = Result<()>>>) -> Result<()> {
    let mut open: Vec<_> = all.map(Box::pin).collect();
    poll_fn(|context| {
        let mut failure = None;
        open.retain_mut(|one| match one.as_mut().poll(context) {
            Poll::Ready(Ok(())) => false,
            Poll::Ready(Err(error)) => {
                failure = Some(error);
                false
            }
            Poll::Pending => true,
        });
        match failure {
            Some(failure) => Poll::Ready(Err(failure)),
            None if open.is_empty() => Poll::Ready(Ok(())),
            None => Poll::Pending,
        }
    })
    .await
}

/// A token in a list, taken by `BLPOP` and put back by `LPUSH`. Without ttl and owner it is not a
/// safe lock, but it is the fastest way to hand something over in Redis.
#[derive(Debug)]
struct Token {
    connection: MultiplexedConnection,
    key: String,
}

impl BareLock for Token {
    fn acquire(&mut self) -> Attempt<'_> {
        Attempt::in_flight(async {
            let mut pop = redis::cmd("BLPOP");
            pop.arg(&self.key).arg(0);
            let popped: RedisResult<(String, String)> = pop.query_async(&mut self.connection).await;
            popped.map(drop).map_err(|error| bare_failed(&error))
        })
    }

    fn release(&mut self) -> Attempt<'_> {
        Attempt::in_flight(async {
            let mut push = redis::cmd("LPUSH");
            push.arg(&self.key).arg(VALUE);
            let pushed: RedisResult<i64> = push.query_async(&mut self.connection).await;
            pushed.map(drop).map_err(|error| bare_failed(&error))
        })
    }
}

/// Opens bare locks on one server, or on several at once.
pub(super) async fn open(lock: String, urls: Vec<String>) -> Result<BareLocks> {
    let mut connections = Vec::with_capacity(urls.len());
    for url in &urls {
        connections.push(connect(url).await?);
    }
    let is_token = lock == TOKEN;
    Ok(Box::new(move |name| {
        if is_token && let Some((connection, _)) = connections.first() {
            // It blocks its connection while it waits, so a process has only one of these.
            return Ok(Box::new(Token {
                connection: connection.clone(),
                key: name.to_owned(),
            }));
        }
        let set = |(connection, script): &(MultiplexedConnection, Arc<str>)| SetNx {
            connection: connection.clone(),
            script: script.clone(),
            key: name.to_owned(),
        };
        match connections.as_slice() {
            [one] => Ok(Box::new(set(one))),
            all => Ok(Box::new(Everywhere(all.iter().map(set).collect()))),
        }
    }))
}

/// Connects, loads the script into the server, and names the connection.
async fn connect(url: &str) -> Result<(MultiplexedConnection, Arc<str>)> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(PATIENCE))
        .set_response_timeout(None);
    let client = client(url)?;
    let connecting = client.get_multiplexed_async_connection_with_config(&config);
    let mut connection = connecting.await.map_err(|error| bare_failed(&error))?;
    let (mut load, mut name) = (redis::cmd("SCRIPT"), redis::cmd("CLIENT"));
    load.arg("LOAD").arg(COMPARE_AND_DELETE);
    name.arg("SETNAME").arg(name_of(std::process::id()));
    let loaded: RedisResult<String> = load.query_async(&mut connection).await;
    let script = loaded.map_err(|error| bare_failed(&error))?.into();
    let named: RedisResult<()> = name.query_async(&mut connection).await;
    named.map_err(|error| bare_failed(&error))?;
    Ok((connection, script))
}

/// Returns the name of a process's connection in the server's list of clients.
pub(super) fn name_of(process: u32) -> String {
    format!("tenure-bench-{process}")
}

/// Returns a client of a store's server.
pub(super) fn client(url: &str) -> Result<Client> {
    recipes::client(url).map_err(|error| bare_failed(&error))
}

const COMPARE_AND_DELETE: &str = "\
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0";

/// As long as the usual tokens of such locks.
const VALUE: &str = "abcdefghijklmnopqrst";
const TTL_MS: u32 = 30_000;

/// How long a connection may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

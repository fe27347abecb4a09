//! Bare locks of Redis, as a careful user writes them by hand with the same client library.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{AsyncConnectionConfig, Client, IntoConnectionInfo, ProtocolVersion, RedisResult};

use crate::bench::contender::Contender;
use tenure_cli::error::{Failure, Result};
use tenure_cli::exit_code;

/// `SET NX PX`, and a script that deletes the key if the value is still the own one.
///
/// Never waits: who finds the key taken fails, because only workloads without rivals use it.
#[derive(Debug)]
pub(in crate::bench) struct SetNx {
    connection: MultiplexedConnection,
    /// The hash of the script, by which the server knows it.
    script: Arc<str>,
    key: String,
}

impl Contender for SetNx {
    async fn acquire(&mut self) -> Result<()> {
        let mut set = redis::cmd("SET");
        set.arg(&self.key)
            .arg(VALUE)
            .arg("NX")
            .arg("PX")
            .arg(TTL_MS);
        match set.query_async(&mut self.connection).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(failed(&"somebody else has its key")),
            Err(error) => Err(failed(&error)),
        }
    }

    async fn release(&mut self) -> Result<()> {
        let mut delete = redis::cmd("EVALSHA");
        delete.arg(&*self.script).arg(1).arg(&self.key).arg(VALUE);
        match delete.query_async(&mut self.connection).await {
            Ok(1) => Ok(()),
            Ok::<i64, _>(_) => Err(failed(&"its key was gone")),
            Err(error) => Err(failed(&error)),
        }
    }
}

/// The same on several servers at once, done when the slowest has answered: the pair of the slowest
/// node while all are asked, which is the least that a vote of all can cost.
#[derive(Debug)]
pub(in crate::bench) struct Everywhere(Vec<SetNx>);

impl Contender for Everywhere {
    async fn acquire(&mut self) -> Result<()> {
        together(self.0.iter_mut().map(SetNx::acquire)).await
    }

    async fn release(&mut self) -> Result<()> {
        together(self.0.iter_mut().map(SetNx::release)).await
    }
}

/// Waits for all, and returns the first failure if there is one.
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

/// A token in a list, taken by `BLPOP` and put back by `LPUSH`: no ttl and no owner, so not a safe
/// lock, but the quickest way in which Redis hands something over.
#[derive(Debug)]
pub(in crate::bench) struct Token {
    connection: MultiplexedConnection,
    key: String,
}

impl Contender for Token {
    async fn acquire(&mut self) -> Result<()> {
        let mut pop = redis::cmd("BLPOP");
        pop.arg(&self.key).arg(0);
        let popped: RedisResult<(String, String)> = pop.query_async(&mut self.connection).await;
        popped.map(drop).map_err(|error| failed(&error))
    }

    async fn release(&mut self) -> Result<()> {
        let mut push = redis::cmd("LPUSH");
        push.arg(&self.key).arg(VALUE);
        let pushed: RedisResult<i64> = push.query_async(&mut self.connection).await;
        pushed.map(drop).map_err(|error| failed(&error))
    }
}

/// A connection that the contenders of a process share, where they can.
#[derive(Debug)]
pub(in crate::bench) struct Bare {
    connection: MultiplexedConnection,
    script: Arc<str>,
}

impl Bare {
    /// Connects, and gives the server the script and the connection a name.
    pub(in crate::bench) async fn open(url: &str) -> Result<Self> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(None);
        let client = client(url)?;
        let connecting = client.get_multiplexed_async_connection_with_config(&config);
        let mut connection = connecting.await.map_err(|error| failed(&error))?;
        let (mut load, mut name) = (redis::cmd("SCRIPT"), redis::cmd("CLIENT"));
        load.arg("LOAD").arg(COMPARE_AND_DELETE);
        name.arg("SETNAME").arg(name_of(std::process::id()));
        let loaded: RedisResult<String> = load.query_async(&mut connection).await;
        let script = loaded.map_err(|error| failed(&error))?.into();
        let named: RedisResult<()> = name.query_async(&mut connection).await;
        named.map_err(|error| failed(&error))?;
        Ok(Self { connection, script })
    }

    pub(in crate::bench) fn set_nx(&self, name: &str) -> SetNx {
        SetNx {
            connection: self.connection.clone(),
            script: self.script.clone(),
            key: name.to_owned(),
        }
    }

    /// One lock on the servers of all these connections.
    pub(in crate::bench) fn everywhere(all: &[Self], name: &str) -> Everywhere {
        Everywhere(all.iter().map(|one| one.set_nx(name)).collect())
    }

    /// Blocks the connection while it waits, so there is one of these for each.
    pub(in crate::bench) fn token(&self, name: &str) -> Token {
        Token {
            connection: self.connection.clone(),
            key: name.to_owned(),
        }
    }
}

/// What the connection of a process is called in the server's list of clients.
pub(in crate::bench) fn name_of(process: u32) -> String {
    format!("tenure-bench-{process}")
}

/// Reads the server's address from a store's URL, whose options only tenure knows.
pub(crate) fn client(url: &str) -> Result<Client> {
    let address = url.split('?').next().unwrap_or(url);
    let opened = address.into_connection_info().and_then(|info| {
        let redis = info.redis_settings().clone();
        let redis = redis.set_protocol(ProtocolVersion::RESP3);
        let tcp = TcpSettings::default().set_nodelay(true);
        Client::open(info.set_redis_settings(redis).set_tcp_settings(tcp))
    });
    opened.map_err(|error| failed(&error))
}

fn failed(why: &dyn std::fmt::Display) -> Failure {
    let sentence = format!("the bare lock to compare with failed: {why}");
    Failure::new(exit_code::UNAVAILABLE, sentence)
}

const COMPARE_AND_DELETE: &str = "\
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0";

/// As long as the owners of those who write such locks often are.
const VALUE: &str = "abcdefghijklmnopqrst";
const TTL_MS: u32 = 30_000;

/// How long a connection may take.
pub(in crate::bench) const PATIENCE: Duration = Duration::from_secs(5);

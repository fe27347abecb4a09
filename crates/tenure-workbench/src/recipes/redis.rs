//! The servers of a recipe, and the statements that most recipes share.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncCommands, AsyncConnectionConfig, Client, IntoConnectionInfo, ProtocolVersion, Script,
};
use tenure::url::StoreUrl;
use tenure_checker::Freed;

use crate::recipes::{Keeper, Renewal, Result};
use tenure_cli::output::millis;

/// Connections to the servers of a recipe.
#[derive(Debug)]
pub(crate) struct Redis {
    pub(crate) urls: Vec<String>,
    /// One connection to each server.
    pub(crate) nodes: Vec<MultiplexedConnection>,
    /// How long a lock lasts without renewal.
    pub(crate) ttl: Duration,
    /// An id that is unique across processes.
    pub(crate) id: String,
}

impl Redis {
    pub(super) async fn open(urls: &[String], ttl: Duration) -> Result<Self> {
        let mut nodes = Vec::with_capacity(urls.len());
        for url in urls {
            nodes.push(connect(&client(url)?, AsyncConnectionConfig::new()).await?);
        }
        Ok(Self {
            urls: urls.to_vec(),
            nodes,
            ttl,
            id: token(),
        })
    }

    /// Returns the same on another connection.
    pub(crate) fn on(&self, node: MultiplexedConnection) -> Self {
        Self {
            urls: self.urls.clone(),
            nodes: vec![node],
            ttl: self.ttl,
            id: self.id.clone(),
        }
    }

    /// Returns a client of the first server.
    pub(crate) fn client(&self) -> Result<Client> {
        client(&self.urls[0])
    }

    /// Returns the connection to the first server.
    pub(crate) fn first(&self) -> MultiplexedConnection {
        self.nodes[0].clone()
    }

    /// Retries until the lock is free; returns the token that it was taken with.
    pub(crate) async fn spin(&self, name: &str) -> Result<String> {
        let token = token();
        while !self.set_nx_px(name, &token).await? {
            tokio::time::sleep(PAUSE).await;
        }
        Ok(token)
    }

    /// Does the same with `SETNX`, which has no ttl.
    pub(crate) async fn spin_without_ttl(&self, name: &str) -> Result<String> {
        let token = token();
        while !self.first().set_nx::<_, _, bool>(name, &token).await? {
            tokio::time::sleep(PAUSE).await;
        }
        Ok(token)
    }

    /// Runs `SET name token NX PX ttl`; returns whether the lock was free.
    pub(crate) async fn set_nx_px(&self, name: &str, token: &str) -> Result<bool> {
        let mut set = redis::cmd("SET");
        set.arg(name).arg(token).arg("NX").arg("PX");
        set.arg(millis(self.ttl));
        Ok(set.query_async(&mut self.first()).await?)
    }

    /// Deletes the lock, whoever owns it.
    pub(crate) async fn delete(&self, name: &str) -> Result<Freed> {
        Ok(freed(self.first().del(name).await?))
    }

    /// Deletes the lock in one step, if it still has this token.
    pub(crate) async fn compare_and_delete(&self, name: &str, token: &str) -> Result<Freed> {
        let script = Script::new(
            "if redis.call('GET', KEYS[1]) == ARGV[1] then
               return redis.call('DEL', KEYS[1])
             end
             return 0",
        );
        let mut call = script.key(name);
        let deleted: u64 = call.arg(token).invoke_async(&mut self.first()).await?;
        Ok(freed(deleted))
    }

    /// Renews the lock while it still has this token.
    pub(crate) fn renewed_if_owned(&self, name: &str, token: &str) -> Keeper {
        let (name, token, ttl) = (name.to_owned(), token.to_owned(), self.ttl);
        self.renewed(move |mut redis| {
            let (name, token) = (name.clone(), token.clone());
            async move {
                let script = Script::new(
                    "if redis.call('GET', KEYS[1]) == ARGV[1] then
                       return redis.call('PEXPIRE', KEYS[1], ARGV[2])
                     end
                     return 0",
                );
                let mut call = script.key(name);
                call.arg(token).arg(millis(ttl));
                Ok(call.invoke_async(&mut redis).await?)
            }
        })
    }

    /// Renews the lock three times per ttl; `renew` returns whether it is still held.
    pub(crate) fn renewed<F, R>(&self, renew: F) -> Keeper
    where
        F: Fn(MultiplexedConnection) -> R + Send + 'static,
        R: Future<Output = Result<bool>> + Send,
    {
        let redis = self.first();
        Keeper::Renewal(Renewal::start(self.ttl, move || renew(redis.clone())))
    }
}

/// Returns whether a Redis URL names a single server, and neither sentinels nor a cluster.
pub(crate) fn is_one_server(url: &StoreUrl) -> bool {
    !url.scheme.ends_with("+sentinel") && !url.scheme.ends_with("+cluster")
}

/// Returns a client of a server whose URL may have options that only tenure knows.
pub(crate) fn client(url: &str) -> Result<Client> {
    let address = url.split('?').next().unwrap_or(url);
    let info = address.into_connection_info()?;
    let settings = info.redis_settings().clone();
    let settings = settings.set_protocol(ProtocolVersion::RESP3);
    let tcp = TcpSettings::default().set_nodelay(true);
    Ok(Client::open(
        info.set_redis_settings(settings).set_tcp_settings(tcp),
    )?)
}

/// Connects; replies have no timeout.
pub(crate) async fn connect(
    client: &Client,
    config: AsyncConnectionConfig,
) -> Result<MultiplexedConnection> {
    let config = config
        .set_connection_timeout(Some(CONNECT_WITHIN))
        .set_response_timeout(None);
    let connecting = client.get_multiplexed_async_connection_with_config(&config);
    Ok(connecting.await?)
}

/// Returns a unique value.
pub(crate) fn token() -> String {
    format!("{:032x}", fastrand::u128(..))
}

/// Converts a number of deleted keys.
pub(crate) fn freed(deleted: u64) -> Freed {
    match deleted {
        0 => Freed::NotHeld,
        _ => Freed::Freed,
    }
}

/// The pause between two attempts, as in the classic recipe.
pub(crate) const PAUSE: Duration = Duration::from_millis(20);

/// A server that takes longer is considered dead.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// The schemes of Redis.
#[rustfmt::skip] // A table: TCP, TLS and sockets in a line each.
pub(crate) const SCHEMES: &[&str] = &[
    "redis", "valkey", "redis+sentinel", "redis+cluster",
    "rediss", "valkeys", "rediss+sentinel", "rediss+cluster",
    "unix", "redis+unix",
];

/// The schemes of a single server over TCP without TLS.
pub(crate) const PLAIN_SCHEMES: &[&str] = &["redis", "valkey"];

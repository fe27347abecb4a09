//! The statements that most recipes share.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{AsyncConnectionConfig, Client, IntoConnectionInfo, ProtocolVersion, Script};
use tenure_checker::Freed;

use crate::recipes::{Keeper, Renewal, Trouble};

/// A client for the server of a URL, whose options only tenure knows.
pub(super) fn client(url: &str) -> Result<Client, Trouble> {
    let address = url.split('?').next().unwrap_or(url);
    let info = address.into_connection_info()?;
    let settings = info.redis_settings().clone();
    let settings = settings.set_protocol(ProtocolVersion::RESP3);
    let tcp = TcpSettings::default().set_nodelay(true);
    Ok(Client::open(
        info.set_redis_settings(settings).set_tcp_settings(tcp),
    )?)
}

/// Connects; an answer may take as long as it takes.
pub(super) async fn connect(url: &str) -> Result<MultiplexedConnection, Trouble> {
    connect_as(&client(url)?, AsyncConnectionConfig::new()).await
}

/// Connects in a certain way.
pub(super) async fn connect_as(
    client: &Client,
    config: AsyncConnectionConfig,
) -> Result<MultiplexedConnection, Trouble> {
    let config = config
        .set_connection_timeout(Some(CONNECT_WITHIN))
        .set_response_timeout(None);
    let connecting = client.get_multiplexed_async_connection_with_config(&config);
    Ok(connecting.await?)
}

/// A value that nobody else has.
pub(super) fn token() -> String {
    format!("{:032x}", fastrand::u128(..))
}

/// `SET name token NX PX ttl`: whether the lock was free.
pub(super) async fn set_nx_px(
    redis: &mut MultiplexedConnection,
    name: &str,
    token: &str,
    ttl: Duration,
) -> Result<bool, Trouble> {
    let mut set = redis::cmd("SET");
    set.arg(name)
        .arg(token)
        .arg("NX")
        .arg("PX")
        .arg(millis(ttl));
    Ok(set.query_async(redis).await?)
}

/// Tries until the lock is free; returns the token that it is taken with.
pub(super) async fn spin(
    redis: &mut MultiplexedConnection,
    name: &str,
    ttl: Duration,
) -> Result<String, Trouble> {
    let token = token();
    while !set_nx_px(redis, name, &token, ttl).await? {
        tokio::time::sleep(PAUSE).await;
    }
    Ok(token)
}

/// Deletes the lock in one step, if it is still this token's.
pub(super) async fn compare_and_delete(
    redis: &mut MultiplexedConnection,
    name: &str,
    token: &str,
) -> Result<Freed, Trouble> {
    let script = Script::new(
        "if redis.call('GET', KEYS[1]) == ARGV[1] then
           return redis.call('DEL', KEYS[1])
         end
         return 0",
    );
    let deleted: u64 = script.key(name).arg(token).invoke_async(redis).await?;
    Ok(freed(deleted))
}

/// Renews the lock if it is still this token's.
pub(super) fn renewed_if_owned(
    redis: &MultiplexedConnection,
    name: &str,
    token: &str,
    ttl: Duration,
) -> Keeper {
    let (redis, name, token) = (redis.clone(), name.to_owned(), token.to_owned());
    let renew = move || {
        let (mut redis, name, token) = (redis.clone(), name.clone(), token.clone());
        async move {
            let script = Script::new(
                "if redis.call('GET', KEYS[1]) == ARGV[1] then
                   return redis.call('PEXPIRE', KEYS[1], ARGV[2])
                 end
                 return 0",
            );
            let mut call = script.key(name);
            call.arg(token).arg(millis(ttl));
            let renewed: bool = call.invoke_async(&mut redis).await?;
            Ok(renewed)
        }
    };
    Keeper::Renewal(Renewal::start(ttl, renew))
}

/// What a number of deleted keys says.
pub(super) fn freed(deleted: u64) -> Freed {
    match deleted {
        0 => Freed::NotHeld,
        _ => Freed::Freed,
    }
}

/// A duration as Redis reads it.
pub(super) fn millis(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)
}

/// Between two tries, as in the classic recipe.
pub(super) const PAUSE: Duration = Duration::from_millis(20);

/// A server that takes longer is taken for dead.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

//! Finding the master through sentinels, and noticing when there is another.

use std::future::Future;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ErrorKind, PushKind, RedisResult, Value};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::store::redis::url::{Host, Servers, Settings};

/// Asks the sentinels for the master, one after another.
pub(crate) async fn master(settings: &Settings) -> RedisResult<Host> {
    let Servers::Sentinel {
        hosts,
        master,
        access,
    } = &settings.servers
    else {
        return Err((ErrorKind::Client, "there are no sentinels").into());
    };
    let mut last = None;
    // Each gets its share of the time, so that one that hangs does not use it all up.
    let share = settings.connect_timeout / u32::try_from(hosts.len().max(1)).unwrap_or(1);
    for host in hosts {
        let ask = async {
            let client = settings.client_of(host, access)?;
            let config = AsyncConnectionConfig::new().set_response_timeout(None);
            let mut sentinel = client
                .get_multiplexed_async_connection_with_config(&config)
                .await?;
            let mut cmd = redis::cmd("SENTINEL");
            cmd.arg("GET-MASTER-ADDR-BY-NAME").arg(master);
            let address: Option<(String, u16)> = cmd.query_async(&mut sentinel).await?;
            RedisResult::Ok(address)
        };
        match timeout(share, ask).await {
            Ok(Ok(Some((name, port)))) => return Ok(Host { name, port }),
            Ok(Ok(None)) => {
                let why = "the sentinels know no master of that name";
                let name = (ErrorKind::MasterNameNotFoundBySentinel, why, master.clone());
                last = Some(name.into());
            }
            Ok(Err(error)) => last = Some(error),
            Err(_) => last = Some((ErrorKind::Io, "no answer", host.to_string()).into()),
        }
    }
    Err(last.unwrap_or_else(|| (ErrorKind::EmptySentinelList, "no sentinel is named").into()))
}

/// Refuses a server that the sentinels still call master but that is none any more.
pub(crate) async fn expect_master(connection: &mut MultiplexedConnection) -> RedisResult<()> {
    let role: Value = redis::cmd("ROLE").query_async(connection).await?;
    match role {
        Value::Array(parts) if matches!(parts.first(), Some(Value::BulkString(role)) if role == b"master") => {
            Ok(())
        }
        _ => Err((ErrorKind::Io, "the server is not the master yet").into()),
    }
}

/// Waits until a sentinel tells of another master; for ever where there are no sentinels.
pub(crate) fn moved(settings: &Settings) -> impl Future<Output = ()> + use<> {
    let settings = settings.clone();
    async move {
        let Servers::Sentinel {
            hosts,
            master,
            access,
        } = &settings.servers
        else {
            return std::future::pending().await;
        };
        let mut next = 0;
        loop {
            let host = &hosts[next % hosts.len()];
            next += 1;
            let told = async {
                let (sender, mut pushes) = mpsc::unbounded_channel();
                let config = AsyncConnectionConfig::new()
                    .set_response_timeout(None)
                    .set_push_sender(sender);
                let client = settings.client_of(host, access)?;
                let listening = async {
                    let mut sentinel = client
                        .get_multiplexed_async_connection_with_config(&config)
                        .await?;
                    sentinel.subscribe("+switch-master").await?;
                    RedisResult::Ok(sentinel)
                };
                // Kept for as long as it listens. One that hangs is not waited for.
                let listening = timeout(settings.connect_timeout, listening).await;
                let Ok(Ok(_sentinel)) = listening else {
                    return RedisResult::Ok(false);
                };
                while let Some(push) = pushes.recv().await {
                    match (push.kind, push.data.last()) {
                        (PushKind::Message, Some(Value::BulkString(message))) => {
                            // "<name> <old address> <old port> <new address> <new port>"
                            let message = String::from_utf8_lossy(message);
                            if message.split(' ').next() == Some(master) {
                                return Ok(true);
                            }
                        }
                        (PushKind::Disconnection, _) => break,
                        _ => {}
                    }
                }
                Ok(false)
            };
            if let Ok(true) = told.await {
                return;
            }
            // The next sentinel is asked; a READONLY answer would tell of a new master as well.
            tokio::time::sleep(settings.connect_timeout / 4).await;
        }
    }
}

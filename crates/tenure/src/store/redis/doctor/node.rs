//! A connection to one server, and what it says of itself.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, ConnectionAddr, ErrorKind, FromRedisValue, RedisError, RedisResult,
    Value,
};
use tokio::time::timeout;

use crate::error::Result;
use crate::store::redis::fault;
use crate::store::redis::url::{Access, Host, Servers, Settings};

/// One server that answers.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) place: String,
    client: redis::Client,
    connection: Connection,
    patience: Duration,
    /// Whether it stopped answering: then nothing more is asked.
    pub(crate) is_silent: bool,
}

#[derive(Clone)]
struct Connection(MultiplexedConnection);

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connection")
    }
}

impl Node {
    /// Connects to a host, with the user of the URL.
    pub(super) async fn open(settings: &Settings, host: &Host) -> Result<Self> {
        let opened = Self::open_as(settings, host, &settings.access).await;
        opened
            .map_err(|error| fault::unreachable(&host.to_string(), settings.is_encrypted(), &error))
    }

    /// Connects to a host, with another user.
    pub(super) async fn open_as(
        settings: &Settings,
        host: &Host,
        access: &Access,
    ) -> RedisResult<Self> {
        let client = settings.client_of(host, access)?;
        Self::connect(settings, client, host.to_string()).await
    }

    /// Connects to the one server that a URL names.
    pub(crate) async fn open_only(settings: &Settings) -> Result<Self> {
        let path = match &settings.servers {
            Servers::One(host) => return Self::open(settings, host).await,
            Servers::Socket(path) => path.clone(),
            Servers::Sentinel { .. } | Servers::Cluster(_) => {
                return Err(fault::unavailable("there is more than one server"));
            }
        };
        let place = settings.place();
        let opened = async {
            let client = settings.client(ConnectionAddr::Unix(path), &settings.access)?;
            Self::connect(settings, client, place.clone()).await
        };
        opened
            .await
            .map_err(|error| fault::unreachable(&place, settings.is_encrypted(), &error))
    }

    async fn connect(
        settings: &Settings,
        client: redis::Client,
        place: String,
    ) -> RedisResult<Self> {
        // Nobody reads what the server says of its own accord.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_push_sender(|_| Ok::<(), ()>(()));
        let connecting = client.get_multiplexed_async_connection_with_config(&config);
        let connected = timeout(settings.connect_timeout, connecting).await;
        Ok(Self {
            connection: Connection(connected.map_err(|_| late())??),
            patience: settings.timeout,
            is_silent: false,
            client,
            place,
        })
    }

    /// Connects to the same server once more.
    pub(super) async fn another(&self, settings: &Settings) -> RedisResult<Self> {
        Self::connect(settings, self.client.clone(), self.place.clone()).await
    }

    /// Sends a command, and waits for its answer.
    pub(super) async fn ask(&mut self, words: &[&str]) -> RedisResult<Value> {
        if self.is_silent {
            return Err(late());
        }
        let mut cmd = redis::Cmd::new();
        cmd.arg(words);
        let answer = self.connection.0.send_packed_command(&cmd);
        let answer = timeout(self.patience, answer).await;
        let answer = answer.unwrap_or_else(|_| Err(late()));
        let answer = answer.and_then(Value::extract_error);
        self.is_silent = matches!(&answer, Err(error) if error.kind() == ErrorKind::Io);
        answer
    }
}

fn late() -> RedisError {
    std::io::Error::from(std::io::ErrorKind::TimedOut).into()
}

/// Whether a server refused a command because of the user's rights.
pub(super) fn is_forbidden(error: &RedisError) -> bool {
    // A refused EXEC is an abort, which says why.
    let in_words = error.detail().is_some_and(|why| why.contains("NOPERM"));
    error.code() == Some("NOPERM") || in_words
}

/// What a server answers, in words without line breaks.
pub(super) fn said(error: &RedisError) -> String {
    let detail = error.detail().unwrap_or_default().trim();
    match error.code() {
        Some(code) if !detail.is_empty() => format!("{code} {detail}"),
        Some(code) => code.to_owned(),
        None if error.kind() == ErrorKind::Io => "no answer".to_owned(),
        None => error.to_string(),
    }
}

/// What a server says of itself.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    info: BTreeMap<String, String>,
    config: BTreeMap<String, String>,
}

impl Facts {
    /// Asks for all that the checks want to know; what is refused is not there.
    pub(crate) async fn ask(node: &mut Node) -> Self {
        let info = node.ask(&["INFO"]).await;
        let info = info
            .ok()
            .and_then(|info| String::from_redis_value(info).ok());
        let mut config = BTreeMap::new();
        // One by one: servers before 7.0 take one name, and a service may hide some.
        for name in SETTINGS {
            let Ok(answer) = node.ask(&["CONFIG", "GET", name]).await else {
                continue;
            };
            let found = <BTreeMap<String, String>>::from_redis_value(answer);
            config.extend(found.unwrap_or_default());
        }
        Self {
            info: read_info(&info.unwrap_or_default()),
            config,
        }
    }

    /// A line of `INFO`.
    pub(crate) fn info(&self, name: &str) -> Option<&str> {
        self.info.get(name).map(String::as_str)
    }

    /// A setting of `CONFIG GET`.
    pub(super) fn config(&self, name: &str) -> Option<&str> {
        self.config.get(name).map(String::as_str)
    }

    /// A setting, or what `INFO` says of it.
    pub(super) fn either(&self, config: &str, info: &str) -> Option<&str> {
        self.config(config).or_else(|| self.info(info))
    }

    #[cfg(test)]
    pub(crate) fn of(info: &[(&str, &str)], config: &[(&str, &str)]) -> Self {
        let map = |pairs: &[(&str, &str)]| {
            let pairs = pairs
                .iter()
                .map(|(name, value)| ((*name).into(), (*value).into()));
            pairs.collect()
        };
        Self {
            info: map(info),
            config: map(config),
        }
    }
}

/// Reads `INFO`: lines of `name:value` under headings.
fn read_info(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.filter_map(|line| line.trim_end().split_once(':'));
    pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// The settings that the checks look at. Never all of them: some are passwords.
const SETTINGS: [&str; 8] = [
    "appendfsync",
    "appendonly",
    "cluster-node-timeout",
    "maxmemory",
    "maxmemory-policy",
    "min-replicas-max-lag",
    "min-replicas-to-write",
    "save",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_is_read_line_by_line() {
        let info = read_info("# Server\r\nredis_version:7.0.15\r\n\r\nslave0:ip=::1,port=1\r\n");
        assert_eq!(info["redis_version"], "7.0.15");
        assert_eq!(info["slave0"], "ip=::1,port=1");
        assert_eq!(info.len(), 2);
    }
}

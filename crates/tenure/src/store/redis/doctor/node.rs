//! A connection to one server, and what the server reports about itself.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::{ConnectionAddr, ErrorKind, FromRedisValue, RedisError, RedisResult, Value};
use tokio::time::timeout;

use crate::error::{Error, Result};
use crate::store::redis::connect::Connection;
use crate::store::redis::fault::{self, Trouble};
use crate::store::redis::url::{Access, Host, Servers, Settings};

/// One server that answers.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) place: String,
    address: ConnectionAddr,
    connection: Connection,
    patience: Duration,
    /// Whether it stopped answering; then it is not asked any more.
    pub(crate) is_silent: bool,
}

impl Node {
    /// Connects to a host, with the user of the URL.
    pub(super) async fn open(settings: &Settings, host: &Host) -> Result<Self> {
        let opened = Self::open_as(settings, host, &settings.access).await;
        opened.map_err(|error| unreachable(settings, &host.to_string(), &error))
    }

    /// Connects to a host, with another user.
    pub(super) async fn open_as(
        settings: &Settings,
        host: &Host,
        access: &Access,
    ) -> RedisResult<Self> {
        let address = settings.address(host);
        Self::connect(settings, address, access, host.to_string()).await
    }

    /// Connects to the one server that a URL names.
    pub(crate) async fn open_only(settings: &Settings) -> Result<Self> {
        let address = match &settings.servers {
            Servers::One(host) => settings.address(host),
            Servers::Socket(path) => ConnectionAddr::Unix(path.clone()),
            Servers::Sentinel { .. } | Servers::Cluster(_) => {
                return Err(fault::unavailable("there is more than one server"));
            }
        };
        let place = settings.place();
        let opened = Self::connect(settings, address, &settings.access, place.clone()).await;
        opened.map_err(|error| unreachable(settings, &place, &error))
    }

    /// Connects to the same server once more, with the user of the URL.
    pub(super) async fn another(&self, settings: &Settings) -> RedisResult<Self> {
        let (address, place) = (self.address.clone(), self.place.clone());
        Self::connect(settings, address, &settings.access, place).await
    }

    async fn connect(
        settings: &Settings,
        address: ConnectionAddr,
        access: &Access,
        place: String,
    ) -> RedisResult<Self> {
        // Push messages are not read.
        let connecting = settings.connect(address.clone(), access, |_| Ok::<(), ()>(()));
        let connected = timeout(settings.connect_timeout, connecting).await;
        Ok(Self {
            connection: Connection::Server(connected.map_err(|_| late())??),
            patience: settings.timeout,
            is_silent: false,
            address,
            place,
        })
    }

    /// Sends a command, and waits for its answer.
    pub(super) async fn ask(&mut self, words: &[&str]) -> RedisResult<Value> {
        if self.is_silent {
            return Err(late());
        }
        let mut cmd = redis::Cmd::new();
        cmd.arg(words);
        let answer = timeout(self.patience, self.connection.send(&cmd)).await;
        let answer = answer.unwrap_or_else(|_| Err(late()));
        self.is_silent = matches!(&answer, Err(error) if error.kind() == ErrorKind::Io);
        answer
    }
}

pub(super) fn unreachable(settings: &Settings, place: &str, error: &RedisError) -> Error {
    Trouble::of(place, settings.tls.is_some(), error).error()
}

fn late() -> RedisError {
    std::io::Error::from(std::io::ErrorKind::TimedOut).into()
}

/// Returns whether a server refused a command because the user lacks a permission.
pub(super) fn is_forbidden(error: &RedisError) -> bool {
    // A refused EXEC returns EXECABORT with the cause in its text.
    let in_words = error.detail().is_some_and(|why| why.contains("NOPERM"));
    error.code() == Some("NOPERM") || in_words
}

/// Returns a server's error reply on one line.
pub(super) fn said(error: &RedisError) -> String {
    let detail = error.detail().unwrap_or_default().trim();
    match error.code() {
        Some(code) if !detail.is_empty() => format!("{code} {detail}"),
        Some(code) => code.to_owned(),
        None if error.kind() == ErrorKind::Io => "no answer".to_owned(),
        None => error.to_string(),
    }
}

/// What a server reports about itself.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    info: BTreeMap<String, String>,
    config: BTreeMap<String, String>,
}

impl Facts {
    /// Asks for everything that the checks need; whatever the server refuses is missing.
    pub(crate) async fn ask(node: &mut Node) -> Self {
        let info = node.ask(&["INFO"]).await;
        let info = info
            .ok()
            .and_then(|info| String::from_redis_value(info).ok());
        let mut config = BTreeMap::new();
        // The settings are requested one by one: servers before 7.0 accept only one name, and a
        // managed service may hide some.
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

    /// Returns a field of `INFO`.
    pub(crate) fn info(&self, name: &str) -> Option<&str> {
        self.info.get(name).map(String::as_str)
    }

    /// Returns a setting of `CONFIG GET`.
    pub(super) fn config(&self, name: &str) -> Option<&str> {
        self.config.get(name).map(String::as_str)
    }

    /// Returns a setting, or its value in `INFO`.
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

/// Parses `INFO`: lines of `name:value` under headings.
fn read_info(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.filter_map(|line| line.trim_end().split_once(':'));
    pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// The settings that the checks need; never all of them, because some are passwords.
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

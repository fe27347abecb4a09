//! Servers that tests share, because starting one takes longer than most tests.
//!
//! Only for tests that use their own lock names or tables and leave the server as it is. All tests
//! of one process share them, and all processes that the program `with-servers` started.

use std::process::Command;
use std::sync::OnceLock;

use crate::error::{Error, Result};
use crate::mariadb::{MariaDb, MariaDbServer};
use crate::postgres::{Postgres, PostgresServer};
use crate::redis::RedisServer;
use crate::sql::{Durability, Kind, SqlServer};
use crate::zookeeper::ZooKeeperServer;

/// Returns the ports of `count` Redis servers, at most [`REDIS_SERVERS`], that do not know each
/// other.
///
/// # Errors
///
/// Those of [`RedisServer::start`], and if a variable of `with-servers` names fewer servers.
pub fn redis(count: usize) -> Result<Vec<u16>> {
    if let Ok(ports) = std::env::var(REDIS) {
        let ports: Vec<_> = ports
            .split(',')
            .map_while(|port| port.parse().ok())
            .collect();
        return first(&ports, count);
    }
    static OWN: OnceLock<Vec<RedisServer>> = OnceLock::new();
    let servers = start_once(&OWN, start_redis)?;
    first(
        &servers.iter().map(RedisServer::port).collect::<Vec<_>>(),
        count,
    )
}

/// Returns the URL of a MariaDB server, for its user `tenure`.
///
/// # Errors
///
/// Those of [`MariaDbServer::start`].
pub fn mariadb() -> Result<String> {
    static OWN: OnceLock<MariaDbServer> = OnceLock::new();
    sql(MARIADB, &OWN)
}

/// Returns the URL of a PostgreSQL server, for its user `tenure`.
///
/// # Errors
///
/// Those of [`PostgresServer::start`].
pub fn postgres() -> Result<String> {
    static OWN: OnceLock<PostgresServer> = OnceLock::new();
    sql(POSTGRES, &OWN)
}

/// Returns the URL of a ZooKeeper server.
///
/// # Errors
///
/// Those of [`ZooKeeperServer::start`].
pub fn zookeeper() -> Result<String> {
    static OWN: OnceLock<ZooKeeperServer> = OnceLock::new();
    match std::env::var(ZOOKEEPER) {
        Ok(url) => Ok(url),
        Err(_) => Ok(start_once(&OWN, ZooKeeperServer::start)?.url()),
    }
}

fn sql<K: Kind>(variable: &str, own: &OnceLock<SqlServer<K>>) -> Result<String> {
    match std::env::var(variable) {
        Ok(url) => Ok(url),
        Err(_) => Ok(start_once(own, || start_sql(Durability::Written))?.url()),
    }
}

fn start_once<T>(own: &OnceLock<T>, start: impl FnOnce() -> Result<T>) -> Result<&T> {
    match own.get() {
        Some(started) => Ok(started),
        None => {
            let started = start()?;
            // If two tests start it at once, the slower one stops its own again.
            Ok(own.get_or_init(|| started))
        }
    }
}

/// Starts servers for all processes of a command, which finds them in its environment.
///
/// Databases have the requested durability. The servers stop when the value is dropped. If MariaDB,
/// PostgreSQL or ZooKeeper is not installed, the command runs without it: it may not need it, and a
/// test that does says what to install.
///
/// # Errors
///
/// Those of [`RedisServer::start`], [`MariaDbServer::start`], [`PostgresServer::start`] and [`ZooKeeperServer::start`].
pub fn start_for(command: &mut Command, durability: Durability) -> Result<Shared> {
    let servers = start_redis()?;
    let ports: Vec<_> = servers
        .iter()
        .map(|server| server.port().to_string())
        .collect();
    command.env(REDIS, ports.join(","));
    Ok(Shared {
        _redis: servers,
        _mariadb: start_sql_for::<MariaDb>(command, MARIADB, durability)?,
        _postgres: start_sql_for::<Postgres>(command, POSTGRES, durability)?,
        _zookeeper: start_zookeeper_for(command)?,
    })
}

/// Servers that run for a command.
#[derive(Debug)]
pub struct Shared {
    _redis: Vec<RedisServer>,
    _mariadb: Option<MariaDbServer>,
    _postgres: Option<PostgresServer>,
    _zookeeper: Option<ZooKeeperServer>,
}

fn start_zookeeper_for(command: &mut Command) -> Result<Option<ZooKeeperServer>> {
    match ZooKeeperServer::start() {
        Ok(server) => {
            command.env(ZOOKEEPER, server.url());
            Ok(Some(server))
        }
        Err(Error::Missing { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn start_sql_for<K: Kind>(
    command: &mut Command,
    variable: &str,
    durability: Durability,
) -> Result<Option<SqlServer<K>>> {
    match start_sql(durability) {
        Ok(server) => {
            command.env(variable, server.url());
            Ok(Some(server))
        }
        Err(Error::Missing { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Starts a server with enough connections for many concurrent tests.
fn start_sql<K: Kind>(durability: Durability) -> Result<SqlServer<K>> {
    let server = SqlServer::builder().persistence(durability);
    server.max_connections(500).start()
}

fn start_redis() -> Result<Vec<RedisServer>> {
    (0..REDIS_SERVERS).map(|_| RedisServer::start()).collect()
}

fn first(ports: &[u16], count: usize) -> Result<Vec<u16>> {
    let found = ports.get(..count).ok_or_else(|| Error::Program {
        program: "with-servers".to_owned(),
        log: format!(
            "{count} Redis servers are needed, and {} are there",
            ports.len()
        ),
    })?;
    Ok(found.to_vec())
}

/// How many Redis servers tests can share.
pub const REDIS_SERVERS: usize = 5;

const REDIS: &str = "TENURE_TEST_REDIS";
const MARIADB: &str = "TENURE_TEST_MARIADB";
const POSTGRES: &str = "TENURE_TEST_POSTGRES";
const ZOOKEEPER: &str = "TENURE_TEST_ZOOKEEPER";

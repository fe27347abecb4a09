//! Servers that tests share, because starting one takes longer than most tests.
//!
//! Only for tests that use lock names of their own and leave the server as it is. All tests of one
//! process share them, and all processes that the program `with-servers` started.

use std::process::Command;
use std::sync::OnceLock;

use crate::error::{Error, Result};
use crate::redis::RedisServer;

/// Returns the ports of `count` Redis servers, at most [`REDIS_SERVERS`], that know nothing of each other.
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
    let servers = match OWN.get() {
        Some(servers) => servers,
        None => {
            let started = start_redis()?;
            // Of two tests that start them at once, the slower one stops its own again.
            OWN.get_or_init(|| started)
        }
    };
    first(
        &servers.iter().map(RedisServer::port).collect::<Vec<_>>(),
        count,
    )
}

/// Starts servers for all processes of a command, which finds them in its environment.
///
/// They stop when the value is dropped.
///
/// # Errors
///
/// Those of [`RedisServer::start`].
pub fn start_for(command: &mut Command) -> Result<Shared> {
    let servers = start_redis()?;
    let ports: Vec<_> = servers
        .iter()
        .map(|server| server.port().to_string())
        .collect();
    command.env(REDIS, ports.join(","));
    Ok(Shared { _redis: servers })
}

/// Servers that run for a command.
#[derive(Debug)]
pub struct Shared {
    _redis: Vec<RedisServer>,
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

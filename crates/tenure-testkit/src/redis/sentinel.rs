//! A master with replicas, monitored by sentinels.

use super::builder::{RedisBuilder, quoted};
use super::server::RedisServer;
use crate::error::{Error, Result};
use crate::wait;

/// One master, two replicas, and three sentinels with a quorum of two.
#[derive(Debug)]
pub struct RedisSentinel {
    sentinels: Vec<RedisServer>,
    servers: Vec<RedisServer>,
}

impl RedisSentinel {
    /// The name by which the sentinels know the master.
    pub const MASTER: &str = "tenure";

    /// Starts all six, and returns once the sentinels know the replicas and each other.
    ///
    /// # Errors
    ///
    /// Those of [`RedisBuilder::start`]; also if the sentinels do not find each other.
    pub fn start() -> Result<Self> {
        Self::start_with(&RedisServer::builder(), None)
    }

    /// Starts them with these options for the servers, and a separate password for the sentinels.
    ///
    /// # Errors
    ///
    /// Those of [`start`](Self::start).
    pub fn start_with(options: &RedisBuilder, sentinel_password: Option<&str>) -> Result<Self> {
        let master = options.clone().start()?;
        let port = master.plain_port();
        let mut servers = vec![master];
        for _ in 0..REPLICAS {
            servers.push(options.clone().replica_of(port).start()?);
        }
        servers[1..]
            .iter()
            .try_for_each(RedisServer::wait_until_linked)?;
        let watch = sentinel_options(port, options, sentinel_password);
        let sentinels = (0..SENTINELS)
            .map(|_| watch.clone().start())
            .collect::<Result<Vec<_>>>()?;
        let all = Self { sentinels, servers };
        all.hurry();
        for sentinel in &all.sentinels {
            wait::until("the sentinels know all", || check(sentinel))?;
        }
        Ok(all)
    }

    /// Starts an additional sentinel, which knows the server on a loopback port by the same name,
    /// and no other sentinel.
    ///
    /// It never learns what the others decide, like a sentinel that is cut off from them.
    ///
    /// # Errors
    ///
    /// Those of [`RedisBuilder::start`].
    pub fn start_alone(master: u16) -> Result<RedisServer> {
        sentinel_options(master, &RedisServer::builder(), None).start()
    }

    /// Returns the ports of the sentinels.
    pub fn sentinel_ports(&self) -> Vec<u16> {
        self.sentinels.iter().map(RedisServer::port).collect()
    }

    /// Returns the sentinels.
    pub fn sentinels(&self) -> &[RedisServer] {
        &self.sentinels
    }

    /// Returns the sentinels, to kill or restart them.
    pub fn sentinels_mut(&mut self) -> &mut [RedisServer] {
        &mut self.sentinels
    }

    /// Returns the servers, starting with the one that was the master at the start.
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// Returns the servers, to kill or restart them.
    pub fn servers_mut(&mut self) -> &mut [RedisServer] {
        &mut self.servers
    }

    /// Returns the port of the master, according to the first running sentinel.
    ///
    /// # Errors
    ///
    /// If no sentinel runs, or it does not reply.
    pub fn master_port(&self) -> Result<u16> {
        let command = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", Self::MASTER];
        let awake = self.sentinels.iter().find(|sentinel| sentinel.is_awake());
        let failed = |text: String| Error::Answer {
            command: command.join(" "),
            text,
        };
        let sentinel = awake.ok_or_else(|| failed("no sentinel runs".into()))?;
        let reply = sentinel.command(&command)?;
        let port = reply
            .parts()
            .get(1)
            .and_then(|port| port.to_string().parse().ok());
        port.ok_or_else(|| failed(reply.to_string()))
    }

    /// Kills the master and returns the port that it had.
    ///
    /// # Errors
    ///
    /// Those of [`master_port`](Self::master_port).
    pub fn kill_master(&mut self) -> Result<u16> {
        let port = self.master_port()?;
        for server in self
            .servers
            .iter_mut()
            .filter(|server| server.plain_port() == port)
        {
            server.kill()?;
        }
        Ok(port)
    }

    /// Waits until all running sentinels name a master other than `old`, and that server considers
    /// itself the master.
    ///
    /// # Errors
    ///
    /// If it takes too long.
    pub fn wait_for_new_master(&self, old: u16) -> Result<u16> {
        wait::until("there is a new master", || {
            let new = self.agreed_master()?;
            if new == old {
                return Err("it is the old one".into());
            }
            let server = self
                .servers
                .iter()
                .find(|server| server.plain_port() == new);
            match server.map(|server| server.info("role")) {
                Some(Ok(role)) if role == "master" => Ok(new),
                other => Err(format!("the server on port {new} says {other:?}")),
            }
        })
    }

    fn agreed_master(&self) -> Result<u16, String> {
        let awake = self.sentinels.iter().filter(|sentinel| sentinel.is_awake());
        let mut named: Vec<String> = awake
            .map(|sentinel| {
                let reply =
                    sentinel.command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", Self::MASTER]);
                reply.map_or_else(|error| format!("{error:?}"), |reply| reply.to_string())
            })
            .collect();
        named.sort();
        named.dedup();
        match named.as_slice() {
            [one] => one
                .lines()
                .nth(1)
                .and_then(|port| port.parse().ok())
                .ok_or_else(|| one.clone()),
            _ => Err(format!("the sentinels name {named:?}")),
        }
    }

    /// Makes the sentinels talk more often than every few seconds.
    fn hurry(&self) {
        for sentinel in &self.sentinels {
            // Only for speed, and new in Redis 7.0: without it, everything takes a few seconds
            // longer.
            let _ = sentinel.command(&[
                "SENTINEL",
                "DEBUG",
                "INFO-PERIOD",
                "200",
                "PUBLISH-PERIOD",
                "200",
                "ASK-PERIOD",
                "200",
            ]);
        }
    }
}

fn sentinel_options(master: u16, servers: &RedisBuilder, password: Option<&str>) -> RedisBuilder {
    let name = RedisSentinel::MASTER;
    let mut options = RedisServer::builder()
        .sentinel()
        .config(&format!(
            "sentinel monitor {name} 127.0.0.1 {master} {QUORUM}"
        ))
        .config(&format!(
            "sentinel down-after-milliseconds {name} {DOWN_AFTER_MS}"
        ))
        .config(&format!(
            "sentinel failover-timeout {name} {FAILOVER_TIMEOUT_MS}"
        ))
        .config(&format!("sentinel parallel-syncs {name} {REPLICAS}"));
    if let Some(password) = &servers.password {
        options = options.config(&format!("sentinel auth-pass {name} {}", quoted(password)));
    }
    if let Some(password) = password {
        options = options
            .password(password)
            .config(&format!("sentinel sentinel-pass {}", quoted(password)));
    }
    options
}

/// Checks that a sentinel knows all replicas and all other sentinels, and could decide.
fn check(sentinel: &RedisServer) -> Result<(), String> {
    let name = RedisSentinel::MASTER;
    let reply = sentinel.command(&["SENTINEL", "MASTER", name]);
    let reply = reply.map_err(|error| format!("{error:?}"))?;
    let fields: Vec<String> = reply.parts().iter().map(ToString::to_string).collect();
    let field = |wanted: &str| {
        fields
            .chunks(2)
            .find(|pair| pair[0] == wanted)
            .and_then(|pair| pair.get(1)?.parse().ok())
    };
    let known = (field("num-slaves"), field("num-other-sentinels"));
    if known != (Some(REPLICAS), Some(SENTINELS - 1)) {
        return Err(format!(
            "a sentinel knows {known:?} replicas and sentinels\n{}",
            sentinel.log()
        ));
    }
    let quorum = sentinel.command(&["SENTINEL", "CKQUORUM", name]);
    quorum.map(drop).map_err(|error| format!("{error:?}"))
}

const REPLICAS: usize = 2;

const SENTINELS: usize = 3;

/// How many sentinels must find the master dead.
const QUORUM: usize = 2;

/// A master that does not reply for this long is considered dead.
const DOWN_AFTER_MS: u32 = 500;

/// A failed failover is retried after twice this long.
const FAILOVER_TIMEOUT_MS: u32 = 2000;

//! Three ZooKeeper servers that agree by majority.

use std::fmt::Write as _;

use super::builder::{Member, ZooKeeperBuilder};
use super::{ZooKeeperServer, wait};
use crate::error::Result;
use crate::port::Port;
use crate::server::Server;

/// Three servers, one of which leads.
#[derive(Debug)]
pub struct ZooKeeperEnsemble {
    servers: Vec<ZooKeeperServer>,
}

impl ZooKeeperEnsemble {
    /// Starts all three, and returns once they serve.
    ///
    /// # Errors
    ///
    /// Those of [`ZooKeeperBuilder::start`].
    pub fn start() -> Result<Self> {
        Self::start_with(&ZooKeeperServer::builder())
    }

    /// The same with these options.
    ///
    /// # Errors
    ///
    /// Those of [`start`](Self::start).
    pub fn start_with(options: &ZooKeeperBuilder) -> Result<Self> {
        Server::on_free_port(|| Self::try_start(options))
    }

    fn try_start(options: &ZooKeeperBuilder) -> Result<Self> {
        let mut all = String::new();
        let mut peers = vec![];
        for id in 1..=SERVERS {
            let ports = vec![Port::free()?, Port::free()?];
            let [peer, election] = [ports[0].number(), ports[1].number()];
            // Writing to a string cannot fail.
            let _ = writeln!(all, "server.{id}=127.0.0.1:{peer}:{election}");
            peers.push((id, ports));
        }
        let mut servers = vec![];
        for (id, peers) in peers {
            let all = &all;
            servers.push(options.launch(Port::free()?, Some(Member { id, all, peers }))?);
        }
        let ensemble = Self { servers };
        for server in &ensemble.servers {
            // On a busy machine an election may be held more than once.
            let ready = server.wait_until_ready();
            ready.or_else(|_| server.wait_until_ready())?;
        }
        Ok(ensemble)
    }

    /// Returns the URL for clients: all three servers.
    pub fn url(&self) -> String {
        let ports: Vec<_> = self.servers.iter().map(ZooKeeperServer::port).collect();
        Self::url_on(&ports)
    }

    /// Returns the URL for clients that come by these ports alone, such as those of some servers or of a
    /// [`Proxy`](crate::Proxy).
    pub fn url_on(ports: &[u16]) -> String {
        let hosts: Vec<_> = ports
            .iter()
            .map(|port| format!("127.0.0.1:{port}"))
            .collect();
        format!("zookeeper://{}/tenure", hosts.join(","))
    }

    /// Returns the servers.
    pub fn servers(&self) -> &[ZooKeeperServer] {
        &self.servers
    }

    /// Returns the servers, to kill them or to start them again.
    pub fn servers_mut(&mut self) -> &mut [ZooKeeperServer] {
        &mut self.servers
    }

    /// Waits until a server that is awake leads, and returns its index.
    ///
    /// # Errors
    ///
    /// If none does in time.
    pub fn leader(&self) -> Result<usize> {
        self.find("leader")
    }

    /// Waits until a server that is awake follows, and returns its index.
    ///
    /// # Errors
    ///
    /// If none does in time.
    pub fn follower(&self) -> Result<usize> {
        self.find("follower")
    }

    fn find(&self, wanted: &str) -> Result<usize> {
        wait::until(format!("there is a {wanted}"), || {
            let modes = self.servers.iter().map(|server| match server.is_awake() {
                true => server.mode().unwrap_or_default(),
                false => String::new(),
            });
            let modes: Vec<_> = modes.collect();
            let found = modes.iter().position(|mode| mode == wanted);
            found.ok_or_else(|| format!("{modes:?}"))
        })
    }
}

const SERVERS: usize = 3;

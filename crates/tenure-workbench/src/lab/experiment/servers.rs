//! The servers of an experiment, and the locks in them.

use std::time::Instant;

use tenure_checker::What;
use tenure_testkit::{Fault, RedisBuilder, RedisServer};

use super::{Experiment, PATIENCE};
use crate::lab::NAME;
use crate::lab::error::Result;

impl Experiment {
    /// Starts a server.
    pub(in crate::lab) fn start_server(&mut self) -> Result<&mut RedisServer> {
        self.add_server(RedisServer::builder())
    }

    /// Starts a server with these settings.
    pub(in crate::lab) fn add_server(&mut self, builder: RedisBuilder) -> Result<&mut RedisServer> {
        let place = self.servers.len();
        self.servers.push(builder.start()?);
        Ok(&mut self.servers[place])
    }

    /// Returns the ports of the servers; starts a server if there is none.
    pub(super) fn ports(&mut self) -> Result<Vec<u16>> {
        if self.servers.is_empty() {
            self.start_server()?;
        }
        Ok(self.servers.iter().map(RedisServer::port).collect())
    }

    /// Returns the first server.
    pub(in crate::lab) fn server(&mut self) -> &mut RedisServer {
        &mut self.servers[0]
    }

    /// Sets the fault of all proxies, or ends it.
    pub(in crate::lab) fn set_proxies(&self, fault: Fault) {
        self.proxies.iter().for_each(|proxy| proxy.set(fault));
    }

    /// Returns whether all servers have the lock.
    pub(in crate::lab) fn is_taken(&self) -> Result<bool> {
        self.servers_all(true)
    }

    /// Returns whether no server has the lock.
    pub(in crate::lab) fn is_free(&self) -> Result<bool> {
        self.servers_all(false)
    }

    fn servers_all(&self, taken: bool) -> Result<bool> {
        for server in &self.servers {
            if self.is_taken_on(server)? != taken {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns whether a server has the lock.
    pub(in crate::lab) fn is_taken_on(&self, server: &RedisServer) -> Result<bool> {
        exists(server, &self.key())
    }

    /// Ends the experiment and all clients. If none of them was still waiting, nothing may be left
    /// on the servers.
    pub(in crate::lab) fn end(&mut self) -> Result<()> {
        if !self.end_clients()? {
            return Ok(());
        }
        let parts: &[&str] = match self.is_tenure() {
            true => &["", ":line", ":places", ":ends"],
            false => &[""],
        };
        for part in parts {
            let key = format!("{}{part}", self.key());
            // The last request of a client may still be in flight.
            let give_up = Instant::now() + PATIENCE;
            for place in 0..self.servers.len() {
                self.until("a key is gone or stays", |lab| {
                    Ok(!exists(&lab.servers[place], &key)? || Instant::now() >= give_up)
                })?;
                if exists(&self.servers[place], &key)? {
                    let found = format!("the key {key}");
                    self.note(What::Left { found });
                }
            }
        }
        Ok(())
    }

    fn key(&self) -> String {
        match self.is_tenure() {
            true => format!("tenure:{{{NAME}}}"),
            false => NAME.to_owned(),
        }
    }
}

fn exists(server: &RedisServer, key: &str) -> Result<bool> {
    Ok(server.command(&["EXISTS", key])?.to_string() == "1")
}

//! Starts clients, holds them at breakpoints, and ends them.

use std::process::Stdio;
use std::time::Duration;

use tenure_checker::What;
use tenure_testkit::{Child, Proxy};

use super::Experiment;
use crate::lab::BEFORE_WRITE;
use crate::lab::error::Result;
use crate::lab::messages::{Setup, Step};
use crate::process;

impl Experiment {
    /// Starts a client on the servers, and waits until it has opened its lock. Starts a server if
    /// there is none.
    pub(in crate::lab) fn client(&mut self) -> Result<u32> {
        self.client_for(self.ttl)
    }

    /// Starts two clients on the servers.
    pub(in crate::lab) fn two_clients(&mut self) -> Result<(u32, u32)> {
        Ok((self.client()?, self.client()?))
    }

    /// Starts a client with a different ttl.
    pub(in crate::lab) fn client_for(&mut self, ttl: Duration) -> Result<u32> {
        let ports = self.ports()?;
        self.client_on(self.urls(&ports), ttl)
    }

    /// Starts a client that reaches each server through a proxy, which can inject faults.
    pub(in crate::lab) fn client_through_proxies(&mut self) -> Result<u32> {
        for port in self.ports()? {
            self.proxies.push(Proxy::start(port)?);
        }
        let ports: Vec<_> = self.proxies.iter().map(Proxy::port).collect();
        self.client_on(self.urls(&ports), self.ttl)
    }

    /// Starts a client with these URLs.
    pub(in crate::lab) fn client_on(&mut self, urls: Vec<String>, ttl: Duration) -> Result<u32> {
        let process = u32::try_from(self.clients.len() + 1).unwrap_or(u32::MAX);
        let mut command = process::this_program("lab-client")?;
        // A client that overflows its stack reports it on stderr; the lab explains it better.
        let command = command.stderr(Stdio::null());
        let mut child = Child::start("a client of the lab", command)?;
        let sender = self.sender.clone();
        let messages = child.messages();
        std::thread::spawn(move || {
            for message in messages.map_while(tenure_testkit::Result::ok) {
                // Nobody receives it after the experiment.
                let _ = sender.send((process, Some(message)));
            }
            let _ = sender.send((process, None));
        });
        child.send(&Setup {
            process,
            who: self.who.clone(),
            urls,
            ttl,
        })?;
        self.clients.insert(process, child);
        self.note_of(process, What::Started);
        self.until("a client is ready", |lab| Ok(lab.ready.contains(&process)))?;
        Ok(process)
    }

    /// Returns the URLs of a client that uses these ports: all of them for a recipe, and one that
    /// names them all for tenure.
    fn urls(&self, ports: &[u16]) -> Vec<String> {
        let addresses = ports.iter().map(|port| format!("127.0.0.1:{port}"));
        if !self.is_tenure() || ports.len() == 1 {
            return addresses.map(|it| format!("redis://{it}/")).collect();
        }
        // The servers are new and hold no locks, so there is no restart delay. The long timeout
        // makes a client that was paused find its votes instead of a timeout.
        let all = addresses.collect::<Vec<_>>().join(",");
        vec![format!("redlock://{all}?restart_delay=off&timeout=20s")]
    }

    /// Makes a client wait when it next reaches the breakpoint. tenure has none of the recipes'
    /// breakpoints.
    pub(in crate::lab) fn break_at(&mut self, process: u32, point: &str) -> Result<()> {
        let point = point.to_owned();
        match self.has(&point) {
            true => self.send(process, &Step::BreakAt { point }),
            false => Ok(()),
        }
    }

    /// Waits until the client waits at the breakpoint.
    pub(in crate::lab) fn until_at(&mut self, process: u32, point: &str) -> Result<()> {
        let there = (process, point.to_owned());
        let what = format!("a client is at the breakpoint {point}");
        self.until(&what, |lab| {
            Ok(lab.at.contains(&there) || !lab.has(&there.1))
        })
    }

    /// Makes a client continue from the breakpoint.
    pub(in crate::lab) fn continue_from(&mut self, process: u32, point: &str) -> Result<()> {
        let there = (process, point.to_owned());
        match self.at.remove(&there) {
            true => self.send(process, &Step::Continue { point: there.1 }),
            false => Ok(()),
        }
    }

    fn has(&self, point: &str) -> bool {
        point == BEFORE_WRITE || !self.is_tenure()
    }

    /// Ends all clients; returns whether none of them was still waiting.
    pub(super) fn end_clients(&mut self) -> Result<bool> {
        let numbers: Vec<_> = self.clients.keys().copied().collect();
        let open = self.claims.iter().filter(|(claim, process)| {
            !self.closed.contains(process) && !self.is_answered(**claim)
        });
        let all_done = open.count() == 0;
        for process in numbers {
            self.end_client(process)?;
        }
        Ok(all_done)
    }

    /// Ends a client in the regular way.
    pub(in crate::lab) fn end_client(&mut self, process: u32) -> Result<()> {
        if self.closed.contains(&process) {
            return Ok(());
        }
        self.send(process, &Step::End)?;
        self.until("a client ends", |lab| Ok(lab.closed.contains(&process)))?;
        self.ended(process)?;
        self.note_of(process, What::Ended { crashed: false });
        Ok(())
    }
}

//! The store under test, with the places at which faults can be made.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clap::ValueEnum;
use tenure::Name;
use tenure_checker::Promise;
use tenure_testkit::{Fault as LinkFault, Proxy};

use crate::process::OrFail;
use tenure_cli::error::{Failure, Result};
use tenure_cli::exit_code;
use tenure_cli::store::Store;

use super::address::Address;
use super::fault::Fault;
use super::stores::{self, Server, Servers, TortureStore};

/// A store, and the proxies in front of its servers.
#[derive(Debug)]
pub(super) struct Target {
    /// Nothing if it has no servers.
    store: Option<&'static dyn TortureStore>,
    /// The URL as it may be shown.
    pub(super) shown: String,
    /// The URLs of the clients, through the proxies: those of each half in turn. They may hold a password.
    pub(super) urls: Vec<String>,
    /// The URL of those who only look, past the proxies. It may hold a password.
    pub(super) direct: String,
    /// The servers' addresses, if they can be reached one by one.
    address: Option<Address>,
    /// A proxy on each link to each server, if faults need it: those to the first server, then those to the next.
    pub(super) proxies: Vec<Proxy>,
    /// The servers, if they are our own.
    servers: Vec<Mutex<Box<dyn Server>>>,
}

impl Target {
    /// Uses a store that is there.
    pub(super) fn of(store: &Store, faults: &[Fault]) -> Result<Self> {
        let url = store.url();
        let kind = stores::of(url)?;
        let address = Address::parse(url);
        check(faults, kind.is_some(), address.as_ref().err().copied())?;
        let mut target = Self {
            store: kind,
            shown: store.shown(),
            urls: vec![url.to_owned()],
            direct: url.to_owned(),
            address: address.ok(),
            proxies: Vec::new(),
            servers: Vec::new(),
        };
        target.start_proxies(faults)?;
        Ok(target)
    }

    /// Starts servers for the run.
    pub(super) fn start(servers: Servers, ttl: Duration, faults: &[Fault]) -> Result<Self> {
        let store = servers.store();
        let (servers, direct) = store.start().or_fail()?;
        let url = with_timeout(&direct, ttl);
        let mut target = Self {
            store: Some(store),
            shown: url.clone(),
            address: Address::parse(&url).ok(),
            urls: vec![url],
            direct,
            proxies: Vec::new(),
            servers: servers.into_iter().map(Mutex::new).collect(),
        };
        target.start_proxies(faults)?;
        Ok(target)
    }

    /// Returns the faults that can be made on a store.
    pub(super) fn possible(store: &Store, servers: Option<Servers>) -> Result<Vec<Fault>> {
        let url = store.url();
        if servers.is_none() {
            stores::of(url)?;
        }
        let can = |fault: &Fault| match servers {
            Some(_) => true,
            None if fault.hits_a_client() => true,
            None => fault.hits_a_link() && Address::parse(url).is_ok(),
        };
        Ok(Fault::value_variants()
            .iter()
            .copied()
            .filter(can)
            .collect())
    }

    /// Puts a proxy on each link to each server, if a fault needs it or servers vote.
    fn start_proxies(&mut self, faults: &[Fault]) -> Result<()> {
        let Some(address) = &self.address else {
            return Ok(());
        };
        if !self.votes() && !faults.iter().any(|fault| fault.hits_a_link()) {
            return Ok(());
        }
        let ports = address.ports().flat_map(|port| [port; SIDES]);
        let proxies = ports.map(|port| Proxy::start(port).or_fail());
        self.proxies = proxies.collect::<Result<_>>()?;
        // Clients of servers that vote list them in different orders.
        let orders = match self.votes() {
            true => address.ports().count(),
            false => 1,
        };
        self.urls.clear();
        for first in 0..orders {
            for side in 0..SIDES {
                let own = self.proxies.iter().skip(side).step_by(SIDES);
                let ports: Vec<_> = own.map(Proxy::port).collect();
                self.urls.push(address.on(&ports, first));
            }
        }
        for place in 0..self.proxies.len() {
            self.mend(place);
        }
        Ok(())
    }

    /// Lets everything through on one link, as it is without a fault.
    ///
    /// Each server that votes is at another distance: those that are near for one half of the clients are far for the
    /// other, so that each half gets the votes of its own first.
    pub(super) fn mend(&self, place: usize) {
        let server = match place % SIDES {
            0 => place / SIDES,
            _ => (self.proxies.len() - 1 - place) / SIDES,
        };
        let delay = LATENCY * u32::try_from(server).unwrap_or(0);
        self.proxies[place].set(match self.votes() {
            true => LinkFault::Delay(delay),
            false => LinkFault::Pass,
        });
    }

    /// Returns how many servers are our own.
    pub(super) fn servers(&self) -> usize {
        self.servers.len()
    }

    /// Returns one of our own servers.
    pub(super) fn server(&self, number: usize) -> MutexGuard<'_, Box<dyn Server>> {
        let server = self.servers[number].lock();
        server.unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether its servers vote, also on fences.
    pub(super) fn votes(&self) -> bool {
        self.store.is_some_and(TortureStore::votes)
    }

    /// Returns what a server answers at once.
    pub(super) fn ping(&self) -> &'static [u8] {
        self.store.map_or(b"", TortureStore::ping)
    }

    /// Returns what every request contains that changes something.
    pub(super) fn changing_request(&self) -> &'static [u8] {
        self.store.map_or(b"", TortureStore::changing_request)
    }

    /// Returns what is left of the names on the servers, if they can be reached one by one.
    pub(super) fn left_over(&self, names: &[Name]) -> Vec<String> {
        match (self.store, &self.address) {
            (Some(store), Some(address)) => store.left_over(address, names),
            _ => Vec::new(),
        }
    }

    /// Returns what the store promises, whatever of these faults happens.
    pub(super) fn promises(&self, faults: &[Fault]) -> Vec<Promise> {
        let mut promises = vec![
            Promise::Exclusion,
            Promise::NoLostUpdate,
            Promise::FencedWrites,
            Promise::GrowingFences,
            Promise::OwnerOnly,
            Promise::Liveness,
            Promise::NothingLeft,
            Promise::HonestErrors,
        ];
        let is_broken = faults.iter().any(|fault| !fault.hits_a_client());
        if self
            .store
            .is_none_or(|store| store.promises_order(is_broken))
        {
            promises.push(Promise::Order);
        }
        promises
    }
}

/// Says which of the faults cannot be made on a store that is there.
fn check(faults: &[Fault], has_servers: bool, no_proxy: Option<&str>) -> Result<()> {
    let unable = faults.iter().find_map(|fault| match fault {
        Fault::Kill | Fault::Pause => None,
        _ if !has_servers => Some((fault, "it has no servers and no connections")),
        Fault::Restart => Some((
            fault,
            "only a server that torture started itself may be killed; see --server",
        )),
        _ => no_proxy.map(|why| (fault, why)),
    });
    let Some((fault, why)) = unable else {
        return Ok(());
    };
    let sentence = format!("{fault} cannot be made on this store: {why}; leave it out of --faults");
    Err(Failure::new(exit_code::USAGE, sentence))
}

/// The same URL for clients: an answer has to come well within a third of the ttl, so that a renewal whose answer is lost is
/// made again in time.
fn with_timeout(url: &str, ttl: Duration) -> String {
    let timeout = (ttl / 5).clamp(SHORTEST, LONGEST).as_millis();
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}timeout={timeout}ms")
}

/// Into how many parts the clients are split, which are cut off from the store one by one.
pub(super) const SIDES: usize = 2;

/// How much further each server that votes is than the one before, each way.
const LATENCY: Duration = Duration::from_micros(500);

/// How long an answer may take, of servers on this machine.
const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_millis(250);

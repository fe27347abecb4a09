//! The store under test, and the places where faults are injected.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clap::ValueEnum;
use tenure::Name;
use tenure::url::{Host, StoreUrl};
use tenure_checker::Promise;
use tenure_testkit::{Fault as LinkFault, Proxy};

use crate::process::OrFail;
use tenure_cli::{Failure, Result, Store};

use super::Plan;
use super::fault::Fault;
use super::stores::{self, Order, OwnServers, Server, TortureStore};
use crate::servers;

/// A store, and the proxies in front of its servers.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) store: &'static TortureStore,
    /// The URL without its password.
    pub(super) shown: String,
    /// The URLs of the clients, through the proxies; each half of the clients in turn. They may
    /// contain a password.
    pub(super) urls: Vec<String>,
    /// The URL for inspecting the store, which bypasses the proxies. It may contain a password.
    pub(super) direct: String,
    /// The URL that bypasses the proxies, if each server can be behind a proxy.
    proxied: Option<StoreUrl>,
    /// A proxy on each link to each server, if faults need it: first the links to the first server,
    /// then those to the next.
    pub(super) proxies: Vec<Proxy>,
    /// The servers, if this run started them.
    servers: Vec<Mutex<Box<dyn Server>>>,
}

impl Target {
    /// Uses an existing store, or starts servers for the run.
    pub(super) fn new(
        store: &Store,
        own: Option<&'static TortureStore>,
        plan: &Plan,
    ) -> Result<Self> {
        let mut target = match own.and_then(|store| Some((store, store.own?))) {
            Some((store, own)) => Self::start(store, own, plan.ttl)?,
            None => Self::of(store, &plan.faults)?,
        };
        target.start_proxies(&plan.faults)?;
        Ok(target)
    }

    fn of(store: &Store, faults: &[Fault]) -> Result<Self> {
        let url = store.url();
        let kind = stores::of(url)?;
        let proxied = proxied(kind, url);
        check(faults, kind, proxied.as_ref().err().copied())?;
        Ok(Self {
            store: kind,
            shown: store.shown(),
            urls: vec![url.to_owned()],
            direct: url.to_owned(),
            proxied: proxied.ok(),
            proxies: Vec::new(),
            servers: Vec::new(),
        })
    }

    fn start(store: &'static TortureStore, own: OwnServers, ttl: Duration) -> Result<Self> {
        let (servers, direct) = (own.start)().or_fail()?;
        // A reply must arrive well within a third of the ttl, so that a renewal whose reply is lost
        // is retried in time.
        let timeout = (ttl / 5).clamp(SHORTEST, LONGEST).as_millis();
        let mut url = StoreUrl::parse(&direct)?;
        url.set_option("timeout", &format!("{timeout}ms"));
        Ok(Self {
            store,
            shown: url.to_string(),
            urls: vec![url.reveal()],
            direct,
            proxied: Some(url),
            proxies: Vec::new(),
            servers: servers.into_iter().map(Mutex::new).collect(),
        })
    }

    /// Returns the faults that can be injected into a store.
    pub(super) fn possible(
        store: &Store,
        own: Option<&'static TortureStore>,
    ) -> Result<Vec<Fault>> {
        let mut faults = Fault::value_variants().to_vec();
        if own.is_none() {
            let can_break = proxied(stores::of(store.url())?, store.url()).is_ok();
            faults.retain(|fault| fault.hits_a_client() || (fault.hits_a_link() && can_break));
        }
        Ok(faults)
    }

    /// Puts a proxy on each link to each server, if a fault needs it or servers vote.
    fn start_proxies(&mut self, faults: &[Fault]) -> Result<()> {
        let Some(url) = &mut self.proxied else {
            return Ok(());
        };
        if !self.store.votes && !faults.iter().any(|fault| fault.hits_a_link()) {
            return Ok(());
        }
        let ports = servers::hosts(url).flat_map(|host| [host.port; SIDES]);
        let proxies = ports.map(|port| Proxy::start(port).or_fail());
        self.proxies = proxies.collect::<Result<_>>()?;
        self.urls.clear();
        // Clients of servers that vote list them in different orders.
        for first in 0..url.nodes.len().max(1) {
            for side in 0..SIDES {
                let own = self.proxies.iter().skip(side).step_by(SIDES);
                self.urls.push(through(url, own.map(Proxy::port), first));
            }
        }
        for place in 0..self.proxies.len() {
            self.mend(place);
        }
        Ok(())
    }

    /// Ends the fault on one link.
    ///
    /// Servers that vote have different latencies. Those that are near for one half of the clients
    /// are far for the other, so that each half gets the votes of different servers first.
    pub(super) fn mend(&self, place: usize) {
        let server = match place % SIDES {
            0 => place / SIDES,
            _ => (self.proxies.len() - 1 - place) / SIDES,
        };
        let delay = LATENCY * u32::try_from(server).unwrap_or(0);
        self.proxies[place].set(match self.store.votes {
            true => LinkFault::Delay(delay),
            false => LinkFault::Pass,
        });
    }

    /// Returns how many servers this run has started.
    pub(super) fn servers(&self) -> usize {
        self.servers.len()
    }

    /// Returns one of these servers.
    pub(super) fn server(&self, number: usize) -> MutexGuard<'_, Box<dyn Server>> {
        let server = self.servers[number].lock();
        server.unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what is left of the names on the servers, if they can be reached one by one.
    pub(super) fn left_over(&self, names: &[Name]) -> Vec<String> {
        let left = self
            .proxied
            .as_ref()
            .map(|url| (self.store.left_over)(url, names));
        left.unwrap_or_default()
    }

    /// Returns what the store promises, whichever of these faults happen.
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
        match self.store.order {
            Order::Always => promises.push(Promise::Order),
            Order::WithoutFaults if !is_broken => promises.push(Promise::Order),
            Order::WithoutFaults | Order::Never => {}
        }
        promises
    }
}

/// Fails if one of the faults cannot be injected into an existing store.
fn check(faults: &[Fault], store: &TortureStore, no_proxy: Option<&str>) -> Result<()> {
    let unable = faults.iter().find_map(|fault| match fault {
        Fault::Kill | Fault::Pause => None,
        _ if store.plain.is_empty() => Some((fault, "it has no servers and no connections")),
        Fault::Restart => Some((
            fault,
            "only a server that torture started itself may be killed; see --server",
        )),
        _ => no_proxy.map(|why| (fault, why)),
    });
    let Some((fault, why)) = unable else {
        return Ok(());
    };
    let sentence =
        format!("{fault} cannot be injected into this store: {why}; leave it out of --faults");
    Err(Failure::usage(sentence))
}

/// Returns the URL if each of its servers can be behind a proxy; an error says why not.
fn proxied(store: &TortureStore, url: &str) -> Result<StoreUrl, &'static str> {
    let mut url = StoreUrl::parse(url).map_err(|_| NOT_TCP)?;
    let is_plain = |server: &StoreUrl| servers::is_plain(server, store.plain);
    if !servers::each(&url).iter().all(is_plain) {
        return Err(NOT_TCP);
    }
    let is_here = |host: &mut Host| matches!(host.name.as_str(), "127.0.0.1" | "localhost");
    let are_here = servers::hosts(&mut url).all(is_here);
    match are_here {
        true => Ok(url),
        false => Err("its servers are not on this machine's 127.0.0.1"),
    }
}

/// Returns the URL with a proxy for each server; the list of servers starts at `first`.
fn through(url: &StoreUrl, ports: impl Iterator<Item = u16>, first: usize) -> String {
    let mut url = url.clone();
    for (host, port) in servers::hosts(&mut url).zip(ports) {
        *host = servers::loopback(port);
    }
    url.nodes.rotate_left(first);
    url.reveal()
}

const NOT_TCP: &str = "it has no servers with a host and a port, without TLS";

/// How many parts the clients are split into; faults can cut off each part separately.
pub(super) const SIDES: usize = 2;

/// How much more latency each server that votes has than the previous one, each way.
const LATENCY: Duration = Duration::from_micros(500);

/// The limits of the timeout of replies, for servers on this machine.
const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> Result<StoreUrl, &'static str> {
        proxied(stores::of(url).unwrap(), url)
    }

    #[test]
    fn a_url_leads_by_way_of_proxies() {
        let cases = [
            (
                "redis://127.0.0.1:7000/3?timeout=1s",
                "redis://127.0.0.1:1/3?timeout=1s",
            ),
            ("redis://u:p@localhost", "redis://u:p@127.0.0.1:1"),
            (
                "redlock://localhost:7000,a:b@127.0.0.1?drift=1%25",
                "redlock://127.0.0.1:1,a:b@127.0.0.1:2?drift=1%25",
            ),
            (
                "redlock://127.0.0.1:7?db=2,127.0.0.1:8",
                "redlock://127.0.0.1:1?db=2,127.0.0.1:2",
            ),
            (
                "mysql://u:p@localhost:3307/test?prefix=x_",
                "mysql://u:p@127.0.0.1:1/test?prefix=x_",
            ),
            ("postgresql:///test", "postgresql://127.0.0.1:1/test"),
        ];
        for (url, by_proxy) in cases {
            assert_eq!(through(&parsed(url).unwrap(), 1..=2, 0), by_proxy);
        }
    }

    #[test]
    fn the_servers_can_be_listed_in_another_order() {
        let url = parsed("redlock://127.0.0.1,a:b@127.0.0.1,127.0.0.1?db=2").unwrap();
        assert_eq!(
            through(&url, 1..=3, 1),
            "redlock://a:b@127.0.0.1:2,127.0.0.1:3,127.0.0.1:1?db=2"
        );
    }

    #[test]
    fn other_urls_have_no_place_for_a_proxy() {
        for url in [
            "rediss://127.0.0.1/",
            "unix:/run/redis.sock",
            "redis://10.0.0.1/",
            "redlock://127.0.0.1,10.0.0.1",
            "redlocks://127.0.0.1,127.0.0.1",
            "redlock://127.0.0.1,unix:/run/redis.sock",
            "redis+sentinel://127.0.0.1/x",
            "local:",
            "mysql://127.0.0.1/test?socket=/run/mysqld.sock",
            "postgres://127.0.0.1/test?tls=on",
        ] {
            assert!(parsed(url).is_err(), "{url}");
        }
    }
}

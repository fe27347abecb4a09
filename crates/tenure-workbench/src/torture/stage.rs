//! The store under test, with the places at which faults can be made.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clap::ValueEnum;
use tenure_checker::Promise;
use tenure_testkit::{Fault as Broken, Persistence, Proxy, RedisServer};

use tenure_cli::error::{Failure, Result};
use tenure_cli::exit_code;
use tenure_cli::store::Store;

use super::address::Address;
use super::fault::Fault;

/// Servers that a torture can start by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Servers {
    /// One Redis server, which keeps every answered write
    Redis,
    /// Three of them, which vote
    Redlock,
}

/// A store, and who stands in front of it.
#[derive(Debug)]
pub(super) struct Stage {
    kind: Kind,
    shown: String,
    /// The ways of the clients, through the proxies: those of each half in turn.
    urls: Vec<String>,
    /// The way of those who only look, past them.
    direct: String,
    /// The servers' addresses, if they can be asked one by one.
    address: Option<Address>,
    /// A place on each way to each server, if faults need it: those to the first server, then those to the next.
    proxies: Vec<Proxy>,
    /// The servers, if they are our own.
    servers: Vec<Mutex<RedisServer>>,
}

/// What is different between the stores, for a torture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Local,
    Redis,
    Redlock,
}

impl Stage {
    /// Uses a store that is there.
    pub(super) fn of(store: &Store, faults: &[Fault]) -> Result<Self> {
        let url = store.url();
        let kind = kind(url)?;
        let address = Address::parse(url);
        check(faults, kind, address.as_ref().err().copied())?;
        let mut stage = Self {
            kind,
            shown: store.shown(),
            urls: vec![url.to_owned()],
            direct: url.to_owned(),
            address: address.ok(),
            proxies: Vec::new(),
            servers: Vec::new(),
        };
        stage.stand_in_front(faults)?;
        Ok(stage)
    }

    /// Starts servers for the run.
    pub(super) fn start(servers: Servers, ttl: Duration, faults: &[Fault]) -> Result<Self> {
        let (kind, count) = match servers {
            Servers::Redis => (Kind::Redis, 1),
            Servers::Redlock => (Kind::Redlock, 3),
        };
        let started = (0..count).map(|_| {
            // They are killed and come back with all that they answered.
            let server = RedisServer::builder().persistence(Persistence::AofAlways);
            server.start().map(Mutex::new).map_err(trouble)
        });
        let started = started.collect::<Result<Vec<_>>>()?;
        let direct = url_of(kind, &started);
        let url = with_timeout(&direct, ttl);
        let mut stage = Self {
            kind,
            shown: url.clone(),
            address: Address::parse(&url).ok(),
            urls: vec![url],
            direct,
            proxies: Vec::new(),
            servers: started,
        };
        stage.stand_in_front(faults)?;
        Ok(stage)
    }

    /// Returns the faults that can be made on a store.
    pub(super) fn possible(store: &Store, servers: Option<Servers>) -> Result<Vec<Fault>> {
        let url = store.url();
        let can = |fault: &Fault| match servers {
            Some(_) => true,
            None if fault.hits_a_client() => true,
            None => fault.is_of_the_wire() && Address::parse(url).is_ok(),
        };
        if servers.is_none() {
            kind(url)?;
        }
        Ok(Fault::ALL.into_iter().filter(can).collect())
    }

    /// Puts a proxy on each way to each server, if a fault needs it or servers vote.
    fn stand_in_front(&mut self, faults: &[Fault]) -> Result<()> {
        let Some(address) = &self.address else {
            return Ok(());
        };
        if self.kind != Kind::Redlock && !faults.iter().any(|fault| fault.is_of_the_wire()) {
            return Ok(());
        }
        let ports = address.ports().flat_map(|port| [port; SIDES]);
        let proxies = ports.map(|port| Proxy::start(port).map_err(trouble));
        self.proxies = proxies.collect::<Result<_>>()?;
        // Clients of servers that vote list them in different orders.
        let orders = match self.kind {
            Kind::Redlock => address.ports().count(),
            Kind::Local | Kind::Redis => 1,
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

    /// Lets everything through on one way, as it is without a fault.
    ///
    /// Each server that votes is at another distance: those that are near for one half of the clients are far for the
    /// other, so that each half gets the votes of its own first.
    pub(super) fn mend(&self, place: usize) {
        let server = match place % SIDES {
            0 => place / SIDES,
            _ => (self.proxies.len() - 1 - place) / SIDES,
        };
        let delay = LATENCY * u32::try_from(server).unwrap_or(0);
        self.proxies[place].set(match self.kind {
            Kind::Redlock => Broken::Delay(delay),
            Kind::Local | Kind::Redis => Broken::Pass,
        });
    }

    /// Returns the store as it may be shown.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    /// Returns the URLs for the clients, each half's in turn, which may hold a password.
    pub(super) fn urls(&self) -> &[String] {
        &self.urls
    }

    /// Returns the URL past all proxies, which may hold a password.
    pub(super) fn direct(&self) -> &str {
        &self.direct
    }

    /// Returns the servers' addresses, if they are Redis servers that can be asked one by one.
    pub(super) fn address(&self) -> Option<&Address> {
        self.address.as_ref()
    }

    /// Returns the places on the way to the servers.
    pub(super) fn proxies(&self) -> &[Proxy] {
        &self.proxies
    }

    /// Returns how many servers are our own.
    pub(super) fn servers(&self) -> usize {
        self.servers.len()
    }

    /// Returns one of our own servers.
    pub(super) fn server(&self, number: usize) -> MutexGuard<'_, RedisServer> {
        self.servers[number]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether servers vote on fences: readers that ask at the same time may get the same one, and claims of one owner different
    /// ones.
    pub(super) fn votes_on_fences(&self) -> bool {
        self.kind == Kind::Redlock
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
        // A waiter whose connection is broken when its turn comes is passed over; and servers that vote promise an order
        // only as a majority saw it, and none after a split vote.
        let is_broken = faults.iter().any(|fault| !fault.hits_a_client());
        if self.kind == Kind::Local || (self.kind == Kind::Redis && !is_broken) {
            promises.push(Promise::Order);
        }
        promises
    }
}

/// The kind of a store, if it can be tortured.
fn kind(url: &str) -> Result<Kind> {
    let scheme = url.split(':').next().unwrap_or_default();
    let sentence = match scheme {
        "local" => return Ok(Kind::Local),
        "memory" => {
            "memory: is a store of one process alone, and a torture needs several; take local:"
        }
        "redlock" | "redlocks" => return Ok(Kind::Redlock),
        _ if url.contains("layout=string") => {
            "layout=string has neither a line nor a list of locks that could be looked at; leave it out"
        }
        "redis" | "rediss" | "unix" | "redis+sentinel" | "rediss+sentinel" | "redis+cluster"
        | "rediss+cluster" => return Ok(Kind::Redis),
        _ => "this store cannot be tortured; take local:, redis://… or redlock://…, or --server",
    };
    Err(Failure::new(exit_code::USAGE, sentence))
}

/// Says which of the faults cannot be made on a store that is there.
fn check(faults: &[Fault], kind: Kind, no_proxy: Option<&str>) -> Result<()> {
    let unable = faults.iter().find_map(|fault| match fault {
        Fault::Kill | Fault::Pause => None,
        _ if kind == Kind::Local => Some((fault, "it has no server and no wire")),
        Fault::Restart => Some((
            fault,
            "only a server that torture started itself may be killed; see --server",
        )),
        _ => no_proxy.map(|why| (fault, why)),
    });
    match unable {
        None => Ok(()),
        Some((fault, why)) => {
            let sentence =
                format!("{fault} cannot be made on this store: {why}; leave it out of --faults");
            Err(Failure::new(exit_code::USAGE, sentence))
        }
    }
}

fn url_of(kind: Kind, servers: &[Mutex<RedisServer>]) -> String {
    let places = servers.iter().map(|server| {
        let server = server.lock().unwrap_or_else(PoisonError::into_inner);
        format!("127.0.0.1:{}", server.port())
    });
    let places = places.collect::<Vec<_>>().join(",");
    match kind {
        Kind::Redlock => format!("redlock://{places}?restart_delay=off"),
        _ => format!("redis://{places}/"),
    }
}

/// The same for clients: an answer has to come well within a third of the ttl, so that a renewal whose answer is lost is made
/// again in time.
fn with_timeout(url: &str, ttl: Duration) -> String {
    let timeout = (ttl / 5).clamp(SHORTEST, LONGEST).as_millis();
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}timeout={timeout}ms")
}

fn trouble(error: tenure_testkit::Error) -> Failure {
    Failure::new(exit_code::UNAVAILABLE, format!("{error:?}"))
}

/// Into how many parts the clients are split, which are cut off from the store one by one.
pub(super) const SIDES: usize = 2;

/// How much further each server that votes is than the one before, each way.
const LATENCY: Duration = Duration::from_micros(500);

/// How long an answer may take, of servers on this machine.
const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_millis(250);

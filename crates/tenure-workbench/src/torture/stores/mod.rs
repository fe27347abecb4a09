//! What differs between the stores in a torture run.
//!
//! A new store is a file here, which starts and breaks its servers, and a line in [`ALL`].

use std::fmt::Debug;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use tenure::Name;
use tenure::url::StoreUrl;

use tenure_cli::{Failure, Result};

mod local;
mod memory;
mod redis;
mod redlock;
mod sql;
mod zookeeper;

static ALL: [&TortureStore; 7] = [
    &local::STORE,
    &memory::STORE,
    &redis::STORE,
    &redlock::STORE,
    &sql::MYSQL,
    &sql::POSTGRES,
    &zookeeper::STORE,
];

/// A store, as seen by a torture run.
#[derive(Debug)]
pub(super) struct TortureStore {
    /// The schemes of its URLs.
    pub(super) schemes: &'static [&'static str],
    /// Those of them whose servers can be behind a proxy: TCP without TLS, unless an option
    /// overrides it. Empty if it has no servers.
    pub(super) plain: &'static [&'static str],
    /// Returns why the store of a URL cannot be tortured, if so.
    pub(super) refuses: fn(&StoreUrl) -> Option<&'static str>,
    /// When the order of waiters is promised.
    pub(super) order: Order,
    /// Whether its servers vote: readers that ask at the same time may then get the same fence, and
    /// claims of one owner different fences.
    pub(super) votes: bool,
    /// What `--server` starts, if the servers can be started here.
    pub(super) own: Option<OwnServers>,
    /// A request that a server answers at once; empty if the server speaks first.
    pub(super) ping: &'static [u8],
    /// A text that every changing request contains.
    pub(super) changing_request: &'static [u8],
    /// Returns what is left of the names on the servers of a URL, or why that is not known.
    pub(super) left_over: fn(&StoreUrl, &[Name]) -> Vec<String>,
}

/// When the order of waiters is promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Always,
    /// Not while servers or the links to them are broken.
    WithoutFaults,
    Never,
}

/// Servers that a torture run starts by itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct OwnServers {
    /// The value of `--server`.
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    /// Starts servers that keep every acknowledged write.
    pub(super) start: fn() -> tenure_testkit::Result<Started>,
}

/// Running servers, and the URL of their store.
type Started = (Vec<Box<dyn Server>>, String);

/// A server that the torture run started.
pub(super) trait Server: Debug + Send {
    fn pid(&self) -> u32;

    fn is_running(&self) -> bool;

    /// Kills it with signal 9.
    fn kill(&mut self) -> tenure_testkit::Result<()>;

    /// Starts it again with its data.
    fn start_again(&mut self) -> tenure_testkit::Result<()>;
}

/// The defaults for stores without servers.
const WITHOUT_SERVERS: TortureStore = TortureStore {
    schemes: &[],
    plain: &[],
    refuses: |_| None,
    order: Order::Always,
    votes: false,
    own: None,
    ping: b"",
    changing_request: b"",
    left_over: |_, _| Vec::new(),
};

/// Returns the store of a URL, unless it cannot be tortured.
pub(super) fn of(url: &str) -> Result<&'static TortureStore> {
    let url = StoreUrl::parse(url)?;
    let store = ALL.iter().find(|store| store.schemes.contains(&url.scheme));
    let store = store.ok_or_else(|| Failure::usage("this store cannot be tortured"))?;
    match (store.refuses)(&url) {
        Some(sentence) => Err(Failure::usage(sentence)),
        None => Ok(store),
    }
}

/// Parses the value of `--server`.
pub(super) fn own_servers() -> impl TypedValueParser<Value = &'static TortureStore> {
    let named = || ALL.iter().filter_map(|store| Some((store.own?, *store)));
    let values = named().map(|(own, _)| PossibleValue::new(own.name).help(own.help));
    PossibleValuesParser::new(values).try_map(move |name| {
        let found = named().find(|(own, _)| own.name == name);
        found.map(|(_, store)| store).ok_or("no such servers")
    })
}

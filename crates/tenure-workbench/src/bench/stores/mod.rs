//! The comparisons and aims of each store.
//!
//! A new store is a file here, with its report rows and its bare locks, and a line in [`KINDS`].

use std::fmt::Debug;
use std::pin::Pin;
use std::time::Duration;

use tenure::url::StoreUrl;

use crate::bench::contender::{BareLocks, bare_failed};
use crate::bench::messages::Who;
use crate::bench::report_row::Row;
use crate::bench::workload::Workload;
use crate::servers;
use tenure_cli::{Failure, Result};

mod lmdb_file;
mod local;
mod memory;
mod prelude;
mod redis;
mod redlock;
mod sql;
mod zookeeper;

static KINDS: [&Kind; 7] = [
    &local::KIND,
    &memory::KIND,
    &redis::KIND,
    &redlock::KIND,
    &sql::MYSQL,
    &sql::POSTGRES,
    &zookeeper::KIND,
];

/// A kind of store.
#[derive(Debug)]
pub(super) struct Kind {
    /// The schemes of its URLs.
    schemes: &'static [&'static str],
    /// Those of them whose servers a proxy can forward to: TCP without TLS.
    plain: &'static [&'static str],
    /// Connects to an open store.
    look: fn(&Opened) -> Result<Box<dyn BenchStore>>,
    /// The bare locks that it is compared with.
    bare_locks: &'static [&'static str],
    /// Opens one of them at these places, which are files or URLs.
    open_bare: fn(String, Vec<String>) -> Opening,
}

type Opening = Pin<Box<dyn Future<Output = Result<BareLocks>>>>;

/// An open store.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) url: StoreUrl,
    /// The URL that the contenders use.
    pub(super) seen: StoreUrl,
    /// The delay that is added to the replies of its servers.
    pub(super) away: Duration,
}

impl Kind {
    fn of(url: &StoreUrl) -> Result<&'static Self> {
        let kind = KINDS.iter().find(|kind| kind.schemes.contains(&url.scheme));
        let kind = kind.ok_or_else(|| Failure::usage("bench does not know this store"))?;
        Ok(kind)
    }

    /// Returns whether a proxy can forward to a server.
    fn is_plain(&self, server: &StoreUrl) -> bool {
        servers::is_plain(server, self.plain)
    }
}

/// Returns whether proxies can forward to all servers of a store.
pub(super) fn are_plain(url: &StoreUrl) -> Result<bool> {
    let kind = Kind::of(url)?;
    Ok(servers::each(url).iter().all(|one| kind.is_plain(one)))
}

/// A store, as the benchmark sees it.
pub(super) trait BenchStore: Debug {
    /// Returns the rows of the report; a workload without a row is not measured.
    fn rows(&self) -> Vec<Row>;

    /// Returns the subject for a label in the rows of a workload, other than [`OWN_PAIR`].
    fn subject(&self, label: &'static str, workload: Workload) -> Subject;

    /// Prepares a name for a bare lock that needs preparation.
    fn prepare(&self, _who: &Who, _name: &str) -> Result<()> {
        Ok(())
    }

    /// Returns whether a process is waiting for its bare lock.
    fn is_blocked(&self, _process: u32) -> Result<bool> {
        Ok(false)
    }

    /// Returns a number that grows with every change of the store, if there is one.
    fn changes(&self) -> Option<u64> {
        None
    }

    /// Starts to count the commands that a server receives, if possible.
    ///
    /// Counting slows the server down, so such a measurement is used for nothing else.
    fn counter(&self) -> Result<Option<Box<dyn Counter>>> {
        Ok(None)
    }

    /// Returns the CPU time that the server has used, if known.
    fn server_time(&self) -> Option<Duration> {
        None
    }

    /// Returns a sentence about what cannot be measured, if anything.
    fn missing(&self) -> Option<&str> {
        None
    }
}

/// Counts the commands that a server receives, until dropped.
pub(super) trait Counter: Debug {
    /// Returns how many commands it has received.
    fn commands(&self) -> Result<u64>;
}

/// A subject of measurement: a workload, and who runs it.
#[derive(Debug, Clone)]
pub(super) struct Subject {
    /// Its label in the report.
    pub(super) label: &'static str,
    pub(super) workload: Workload,
    pub(super) who: Who,
    /// The store that it opens, if not the one on the command line.
    pub(super) url: Option<String>,
    /// Options to add to the store's URL.
    pub(super) options: &'static str,
    /// How long it pauses after each release, if the workload has pauses.
    pub(super) rest: Duration,
    /// How long its leases last, if that decides when the lock of a dead holder becomes free.
    pub(super) ttl: Option<Duration>,
    /// How long it keeps a released lease, if at all.
    pub(super) keep: Option<Duration>,
    /// How many leases it holds, in the workload `many`.
    pub(super) leases: u32,
}

impl Subject {
    /// Returns the store itself.
    pub(super) fn tenure(workload: Workload) -> Self {
        Self {
            label: TENURE,
            workload,
            who: Who::Tenure,
            url: None,
            options: "",
            rest: Duration::ZERO,
            ttl: None,
            keep: None,
            leases: 100_000,
        }
    }

    /// Returns a bare lock.
    fn bare(label: &'static str, workload: Workload, who: Who) -> Self {
        Self {
            label,
            who,
            ..Self::tenure(workload)
        }
    }

    /// Returns the store's own pair, which 64 concurrent tasks should not fall behind.
    fn own_pair() -> Self {
        Self {
            label: OWN_PAIR,
            ..Self::tenure(Workload::Pair)
        }
    }
}

/// Returns the subjects of a workload: tenure, and everything that its rows compare it with.
pub(super) fn subjects(store: &dyn BenchStore, workload: Workload) -> Vec<Subject> {
    let mut labels = vec![TENURE];
    for row in store.rows().iter().filter(|row| row.workload == workload) {
        let floors = row.floor.iter().chain(row.slowest_of).copied();
        for label in [row.who].into_iter().chain(floors) {
            if !labels.contains(&label) {
                labels.push(label);
            }
        }
    }
    let subject = |label| match label {
        OWN_PAIR => Subject::own_pair(),
        _ => store.subject(label, workload),
    };
    labels.into_iter().map(subject).collect()
}

/// Connects to an open store.
pub(super) fn of(opened: &Opened) -> Result<Box<dyn BenchStore>> {
    (Kind::of(&opened.url)?.look)(opened)
}

/// Opens bare locks of this kind at these places, or on the store if there are none.
pub(super) async fn open_bare(
    lock: String,
    mut places: Vec<String>,
    store: &str,
) -> Result<BareLocks> {
    if places.is_empty() {
        places.push(store.to_owned());
    }
    let is_it = |kind: &&&Kind| kind.bare_locks.contains(&lock.as_str());
    match KINDS.iter().find(is_it) {
        Some(kind) => (kind.open_bare)(lock, places).await,
        None => Err(bare_failed(&"there is no such lock")),
    }
}

/// The label of the store itself.
pub(super) const TENURE: &str = "tenure";
const OWN_PAIR: &str = "own pair";

//! Checks a Redis deployment for what endangers locks.
//!
//! | file | content |
//! |---|---|
//! | `node` | a connection to one server, and what it reports about itself |
//! | `server` | the settings of one server |
//! | `version` | which server and version it is, and its known problems |
//! | `permissions` | what the user may do |
//! | `clock` | how far the clocks are apart |
//! | `cluster`, `sentinels` | what only those deployments have |

pub(crate) mod clock;
mod cluster;
pub(crate) mod node;
pub(crate) mod permissions;
mod sentinels;
pub(crate) mod server;
pub(crate) mod version;

use crate::doctor::{Check, Finding, merge};
use crate::error::Result;
use crate::store::redis::acl::Use;
use crate::store::redis::url::{Layout, Servers, Settings};
use crate::store::redis::{fault, sentinel, use_a_crypto_provider};
use node::{Facts, Node};

/// Checks a deployment.
///
/// # Errors
///
/// [`InvalidUrl`](crate::Error::InvalidUrl) for an invalid URL;
/// [`Unavailable`](crate::Error::Unavailable) if no connection can be made.
///
/// # Panics
///
/// Outside a Tokio runtime with I/O and time enabled.
///
/// # Cancel safety
///
/// Cancel safe: the keys that it writes to test permissions expire.
pub async fn doctor(url: &str) -> Result<Vec<Finding>> {
    let settings = Settings::parse(url)?;
    use_a_crypto_provider(&settings);
    let mut findings = Vec::new();
    let mut replicas = Vec::new();
    let masters = match &settings.servers {
        Servers::One(_) | Servers::Socket(_) => vec![Node::open_only(&settings).await?],
        Servers::Sentinel { .. } => {
            let master = sentinel::master(&settings).await;
            let master =
                master.map_err(|error| node::unreachable(&settings, &settings.place(), &error))?;
            (replicas, findings) = sentinels::check(&settings).await;
            vec![Node::open(&settings, &master.host).await?]
        }
        Servers::Cluster(hosts) => {
            let masters;
            (masters, replicas, findings) = cluster::check(&settings, hosts).await?;
            masters
        }
    };
    let mut clocks = Vec::with_capacity(masters.len());
    let mut each = Vec::with_capacity(masters.len());
    for mut master in masters {
        clocks.push(clock::read(&mut master).await);
        let found = check(&settings, &mut master).await;
        if master.is_silent {
            let why = format!("{} does not answer in {:?}", master.place, settings.timeout);
            return Err(fault::unavailable(why));
        }
        each.push((master.place, found));
    }
    clocks.extend(clock::read_all(&settings, &replicas).await);
    let count = each.len();
    findings.extend(merge(each, count));
    findings.extend(clock::compare(&clocks));
    Ok(findings)
}

/// Checks one master.
async fn check(settings: &Settings, master: &mut Node) -> Vec<Finding> {
    let facts = Facts::ask(master).await;
    let wait = server::wait(master).await;
    let mut findings = vec![
        version::version(&facts),
        server::eviction(&facts),
        server::persistence(&facts),
        server::replicas(settings, &facts, &wait),
    ];
    findings.extend(server::cut_off(settings, &facts));
    if settings.is_cluster() {
        findings.push(cluster::failover(&facts));
    }
    let native = server::native(master).await;
    if let Layout::String { scripts, fences } = settings.layout {
        findings.push(server::compare(settings, native, scripts, fences));
        findings.push(server::news(settings, master).await);
    } else {
        findings.push(Check("news").fine("waiters are told by messages (RESP3 on one connection)"));
    }
    findings.push(permissions::check(settings, master, Use::of(settings, native)).await);
    findings
}

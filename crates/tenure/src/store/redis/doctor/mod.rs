//! What in a Redis deployment endangers locks.
//!
//! | file | content |
//! |---|---|
//! | `node` | a connection to one server, and what it says of itself |
//! | `server` | the settings of one server |
//! | `version` | which server it is, and what is known of it |
//! | `access` | what the user may do |
//! | `clock` | how far the clocks are apart |
//! | `cluster`, `sentinels` | what only those deployments have |

pub(crate) mod access;
pub(crate) mod clock;
mod cluster;
pub(crate) mod node;
mod sentinels;
pub(crate) mod server;
pub(crate) mod version;

use crate::doctor::Finding;
use crate::error::Result;
use crate::store::redis::rights::Use;
use crate::store::redis::url::{Layout, Servers, Settings};
use crate::store::redis::{fault, sentinel, use_a_crypto_provider};
use node::{Facts, Node};

/// Looks at a deployment.
///
/// # Errors
///
/// [`InvalidUrl`](crate::Error::InvalidUrl) for a URL that makes no sense;
/// [`Unavailable`](crate::Error::Unavailable) if no connection can be made.
///
/// # Panics
///
/// Outside a Tokio runtime with I/O and time enabled.
///
/// # Cancel safety
///
/// Cancel safe: what it writes to try out what is allowed ends by itself.
pub async fn doctor(url: &str) -> Result<Vec<Finding>> {
    let settings = Settings::parse(url)?;
    use_a_crypto_provider(&settings);
    let mut findings = Vec::new();
    let mut replicas = Vec::new();
    let masters = match &settings.servers {
        Servers::One(_) | Servers::Socket(_) => vec![Node::open_only(&settings).await?],
        Servers::Sentinel { .. } => {
            let master = sentinel::master(&settings).await;
            let encrypted = settings.is_encrypted();
            let master =
                master.map_err(|error| fault::unreachable(&settings.place(), encrypted, &error))?;
            (replicas, findings) = sentinels::look(&settings).await;
            vec![Node::open(&settings, &master.host).await?]
        }
        Servers::Cluster(hosts) => {
            let masters;
            (masters, replicas, findings) = cluster::look(&settings, hosts).await?;
            masters
        }
    };
    let mut clocks = Vec::with_capacity(masters.len());
    let mut each = Vec::with_capacity(masters.len());
    for mut master in masters {
        clocks.push(clock::look(&mut master).await);
        let found = look(&settings, &mut master).await;
        if master.is_silent {
            let why = format!("{} does not answer in {:?}", master.place, settings.timeout);
            return Err(fault::unavailable(why));
        }
        each.push((master.place, found));
    }
    clocks.extend(clock::look_at(&settings, &replicas).await);
    let count = each.len();
    findings.extend(together(each, count));
    findings.extend(clock::compare(&clocks));
    Ok(findings)
}

/// Looks at one master.
async fn look(settings: &Settings, master: &mut Node) -> Vec<Finding> {
    let facts = Facts::ask(master).await;
    let mut findings = vec![version::version(&facts)];
    findings.push(server::eviction(&facts));
    findings.push(server::persistence(&facts));
    let wait = server::wait(master).await;
    findings.push(server::replicas(settings, &facts, &wait));
    findings.extend(server::cut_off(settings, &facts));
    if settings.is_cluster() {
        findings.push(cluster::failover(&facts));
    }
    let native = server::native(master).await;
    if let Layout::String { scripts, fences } = settings.layout {
        findings.push(server::compare(settings, native, scripts, fences));
        findings.push(server::news(settings, master).await);
    } else {
        findings.push(Finding::fine(
            "news",
            "waiters are told by messages (RESP3 on one connection)",
        ));
    }
    findings.push(access::look(settings, master, Use::of(settings, native)).await);
    findings
}

/// What all of `count` servers have in common is said once; else each finding says whose it is.
pub(crate) fn together(each: Vec<(String, Vec<Finding>)>, count: usize) -> Vec<Finding> {
    let mut said: Vec<(Finding, Vec<String>)> = Vec::new();
    for (place, findings) in each {
        for finding in findings {
            match said.iter_mut().find(|(known, _)| *known == finding) {
                Some((_, places)) => places.push(place.clone()),
                None => said.push((finding, vec![place.clone()])),
            }
        }
    }
    // The servers' findings of one check stand together.
    let mut order: Vec<&str> = Vec::new();
    for (finding, _) in &said {
        if !order.contains(&finding.check) {
            order.push(finding.check);
        }
    }
    said.sort_by_key(|(finding, _)| order.iter().position(|check| *check == finding.check));
    let name = |(finding, places): (Finding, Vec<String>)| match places.len() < count {
        true => Finding {
            found: format!("{}: {}", places.join(", "), finding.found),
            ..finding
        },
        false => finding,
    };
    said.into_iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_masters_share_is_said_once() {
        let shared = Finding::fine("eviction", "noeviction");
        let own = Finding::fine("persistence", "always");
        let other = Finding::warning("persistence", "none", "turn it on");
        let each = vec![
            ("a".to_owned(), vec![shared.clone(), own]),
            ("b".to_owned(), vec![shared.clone(), other]),
        ];
        let found = together(each.clone(), 2);
        let told: Vec<_> = found.iter().map(|finding| finding.found.as_str()).collect();
        assert_eq!(told, ["noeviction", "a: always", "b: none"]);
        assert_eq!(found[0], shared);
        // A third one said nothing.
        assert_eq!(together(each, 3)[0].found, "a, b: noeviction");
    }
}

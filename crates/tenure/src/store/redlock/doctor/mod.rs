//! Checks nodes for what endangers locks by majority, individually and together.
//!
//! | file | content |
//! |---|---|
//! | `majority` | how many nodes there are, and whether enough of them can vote |
//! | `independence` | nodes that are not independent of each other |
//! | `persistence` | what nodes lose when they restart, and how locks are protected then |
//! | `clock` | how far the clocks of the nodes are apart |
//!
//! The settings of each single server are checked by the doctor of the `redis` store.

mod clock;
mod independence;
mod majority;
mod persistence;

use crate::doctor::{Finding, merge};
use crate::error::Result;
use crate::store::redis::acl::Use;
use crate::store::redis::doctor::clock::Reading;
use crate::store::redis::doctor::node::{Facts, Node};
use crate::store::redis::doctor::{permissions, server, version};
use crate::store::redis::parts::all;
use crate::store::redis::url::Settings as NodeSettings;
use crate::store::redis::{self, use_a_crypto_provider};
use crate::store::redlock::fault;
use crate::store::redlock::nodes::majority_of;
use crate::store::redlock::url::Settings;

/// Checks all nodes.
///
/// # Errors
///
/// [`InvalidUrl`](crate::Error::InvalidUrl) for an invalid URL;
/// [`Unavailable`](crate::Error::Unavailable) if no node can be reached. If only some cannot be
/// reached, that is a finding.
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
    settings.nodes.iter().for_each(use_a_crypto_provider);
    let checks = settings.nodes.iter().map(|node| check(&settings, node));
    let (mut seen, mut away) = (Vec::new(), Vec::new());
    for (node, checked) in settings.nodes.iter().zip(all(checks.collect()).await) {
        match checked {
            Ok(one) => seen.push(one),
            Err(error) => away.push((node.place(), error.why())),
        }
    }
    if seen.is_empty() {
        let why = fault::too_few(
            0,
            settings.nodes.len(),
            majority_of(settings.nodes.len()),
            &away,
        );
        return Err(fault::unavailable(why));
    }
    let mut findings = majority::summary(&settings);
    findings.extend(majority::unreachable(&away));
    findings.extend(majority::can_vote(&settings, &seen));
    findings.extend(independence::independence(&seen, &away));
    findings.push(independence::shared_machines(&settings).await);
    findings.extend(persistence::delay(&settings));
    let clocks: Vec<_> = seen.iter().map(|node| node.clock.clone()).collect();
    let each = seen.into_iter().map(|node| (node.place, node.findings));
    findings.extend(merge(each.collect(), settings.nodes.len()));
    findings.extend(clock::compare(&clocks, &away, settings.restart_delay));
    Ok(findings)
}

/// A node that did not answer: its place, and why.
type Away = (String, String);

/// What is known about one node.
#[derive(Debug)]
struct Seen {
    place: String,
    facts: Facts,
    clock: Reading,
    /// The findings about this node alone.
    findings: Vec<Finding>,
}

/// Checks one node.
async fn check(settings: &Settings, of: &NodeSettings) -> Result<Seen> {
    let mut node = Node::open_only(of).await?;
    let clock = redis::doctor::clock::read(&mut node).await;
    let facts = Facts::ask(&mut node).await;
    let mut findings = vec![
        version::version(&facts),
        server::eviction(&facts),
        persistence::persistence(&facts, settings.restart_delay),
    ];
    findings.extend(persistence::restarted(&facts, settings.restart_delay));
    findings.extend(independence::replicas(&facts));
    findings.push(permissions::check(of, &node, Use::of_voter(of)).await);
    if node.is_silent {
        let why = format!("{} does not answer in {:?}", node.place, of.timeout);
        return Err(fault::unavailable(why));
    }
    Ok(Seen {
        place: node.place,
        facts,
        clock,
        findings,
    })
}

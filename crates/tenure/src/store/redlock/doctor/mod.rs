//! What endangers locks by majority: in each node, and among them.
//!
//! | file | content |
//! |---|---|
//! | `count` | how many nodes there are, and whether enough of them can vote |
//! | `kin` | nodes that are not independent of each other |
//! | `memory` | what nodes forget, and what protects then |
//! | `clock` | how far the clocks of the nodes are apart |
//!
//! What one Redis server can have wrong is looked at by the doctor of the `redis` store.

mod clock;
mod count;
mod kin;
mod memory;

use crate::doctor::Finding;
use crate::error::Result;
use crate::store::redis::doctor::clock::Reading;
use crate::store::redis::doctor::node::{Facts, Node};
use crate::store::redis::doctor::{access, server, together, version};
use crate::store::redis::parts::all;
use crate::store::redis::rights::Use;
use crate::store::redis::url::Settings as NodeSettings;
use crate::store::redis::{self, use_a_crypto_provider};
use crate::store::redlock::fault;
use crate::store::redlock::url::Settings;

/// Looks at all nodes.
///
/// # Errors
///
/// [`InvalidUrl`](crate::Error::InvalidUrl) for a URL that makes no sense;
/// [`Unavailable`](crate::Error::Unavailable) if no node can be reached. One that is away while
/// others are there is a finding.
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
    settings.nodes.iter().for_each(use_a_crypto_provider);
    let looks = settings.nodes.iter().map(|node| look(&settings, node));
    let (mut seen, mut away) = (Vec::new(), Vec::new());
    for (node, looked) in settings.nodes.iter().zip(all(looks.collect()).await) {
        match looked {
            Ok(one) => seen.push(one),
            Err(error) => away.push((node.place(), error.why())),
        }
    }
    if seen.is_empty() {
        let why = fault::too_few(0, settings.nodes.len(), settings.majority(), &away);
        return Err(fault::unavailable(why));
    }
    let mut findings = count::figures(&settings);
    findings.extend(count::away(&away));
    findings.extend(count::can_vote(&settings, &seen));
    findings.extend(kin::independence(&seen, &away));
    findings.push(kin::machines(&settings).await);
    findings.extend(memory::delay(&settings));
    let clocks: Vec<_> = seen.iter().map(|node| node.clock.clone()).collect();
    let each = seen.into_iter().map(|node| (node.place, node.findings));
    findings.extend(together(each.collect(), settings.nodes.len()));
    findings.extend(clock::compare(&clocks, &away, settings.restart_delay));
    Ok(findings)
}

/// A node that was not heard: its place, and why.
type Away = (String, String);

/// What one node says.
#[derive(Debug)]
struct Seen {
    place: String,
    facts: Facts,
    clock: Reading,
    /// What concerns this node alone.
    findings: Vec<Finding>,
}

/// Looks at one node.
async fn look(settings: &Settings, of: &NodeSettings) -> Result<Seen> {
    let mut node = Node::open_only(of).await?;
    let clock = redis::doctor::clock::look(&mut node).await;
    let facts = Facts::ask(&mut node).await;
    let mut findings = vec![
        version::version(&facts),
        server::eviction(&facts),
        memory::persistence(&facts, settings.restart_delay),
    ];
    findings.extend(memory::young(&facts, settings.restart_delay));
    findings.extend(kin::replicas(&facts));
    findings.push(access::look(of, &node, Use::of_voter(of)).await);
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

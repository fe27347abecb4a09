//! Finds nodes that depend on each other: what one of them loses, the other loses too.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use tokio::net::lookup_host;
use tokio::time::timeout;

use crate::doctor::{Check, Finding};
use crate::store::redis::doctor::node::Facts;
use crate::store::redis::doctor::server::{are_connected, not_shown, online_replicas};
use crate::store::redis::parts::all;
use crate::store::redis::url::{Servers, Settings as NodeSettings};
use crate::store::redlock::doctor::majority::unanswered;
use crate::store::redlock::doctor::{Away, Seen};
use crate::store::redlock::url::Settings;

/// Checks that each node is a separate server that replicates no other.
pub(super) fn independence(seen: &[Seen], away: &[Away]) -> Vec<Finding> {
    let mut findings = Vec::from_iter(unanswered(CHECK, away));
    let silent = |node: &&Seen| node.facts.info("run_id").is_none();
    let silent: Vec<_> = seen.iter().filter(silent).map(place).collect();
    if !silent.is_empty() {
        let unknown = not_shown(CHECK, "run_id");
        findings.push(Finding {
            found: format!("{}: {}", silent.join(", "), unknown.found),
            ..unknown
        });
    }
    findings.extend(duplicates(seen));
    findings.extend(seen.iter().filter_map(|node| replica(node, seen)));
    findings.extend(seen.iter().filter_map(in_cluster));
    if findings.is_empty() {
        let found = "each node is a server of its own, no replica and in no cluster";
        findings.push(CHECK.fine(found));
    }
    findings
}

/// Finds nodes that are one server with different addresses.
fn duplicates(seen: &[Seen]) -> Vec<Finding> {
    let ids: BTreeSet<_> = seen.iter().filter_map(run_id).collect();
    let shared = ids.into_iter().filter_map(|id| {
        let nodes: Vec<_> = seen
            .iter()
            .filter(|node| run_id(node) == Some(id))
            .map(place)
            .collect();
        (nodes.len() > 1).then(|| {
            CHECK.problem(format!(
                    "{} are the same server, with {} votes: what it forgets or loses counts as often",
                    nodes.join(" and "),
                    nodes.len()
                ),
                "name each server once, by an address that always leads to it",
            )
        })
    });
    shared.collect()
}

/// Finds a node that is a replica: it refuses to vote, and only knows what its master sends.
fn replica(node: &Seen, seen: &[Seen]) -> Option<Finding> {
    if node.facts.info("role") != Some("slave") {
        return None;
    }
    let (place, master) = (&node.place, master(&node.facts));
    let others = || seen.iter().filter(|other| run_id(other) != run_id(node));
    let data = node.facts.info("master_replid");
    let is_master = |other: &&Seen| {
        let has_its_data = data.is_some() && other.facts.info("master_replid") == data;
        let is_named = master.as_ref() == Some(&other.place);
        other.facts.info("role") == Some("master") && (has_its_data || is_named)
    };
    let follows_it_too = |other: &&Seen| {
        let follows = self::master(&other.facts);
        other.facts.info("role") == Some("slave") && follows.is_some() && follows == master
    };
    let mut found = format!("{place} is a replica");
    if let Some(of) = others().find(is_master) {
        found += &format!(" of {}, which is a node too", of.place);
    } else if let Some(master) = &master {
        found += &format!(" of {master}");
    }
    let together: Vec<_> = others().filter(follows_it_too).map(self::place).collect();
    if !together.is_empty() {
        found += &format!(", as is {}", together.join(", "));
    }
    Some(CHECK.problem(
        found + ": it cannot vote",
        "name servers that follow no other (REPLICAOF NO ONE)",
    ))
}

/// Finds a node of a cluster, which accepts only some of the names.
fn in_cluster(node: &Seen) -> Option<Finding> {
    let in_cluster = node.facts.info("cluster_enabled") == Some("1");
    in_cluster.then(|| {
        CHECK.problem(
            format!(
                "{} is in a cluster: it votes on the names of its own slots alone, and a failover \
                 there may forget votes",
                node.place
            ),
            "name servers with cluster-enabled no",
        )
    })
}

/// Finds replicas of a node: one may take over its address, but lack its data.
pub(super) fn replicas(facts: &Facts) -> Option<Finding> {
    let is_master = facts.info("role") == Some("master");
    let count = online_replicas(facts).filter(|count| is_master && *count > 0)?;
    let have = are_connected(count);
    Some(Check("replicas").warning(
        format!(
            "{have}: one that takes over the node's address may lack votes, and restart_delay does \
             not see it"
        ),
        "let no replica of a node take its place; the other nodes are what a vote needs",
    ))
}

/// Finds nodes with the same address: a hint that they are on one machine, or behind one proxy.
pub(super) async fn shared_machines(settings: &Settings) -> Finding {
    let lookups = settings.nodes.iter().map(addresses).collect();
    let places: Vec<_> = settings.nodes.iter().map(NodeSettings::place).collect();
    same_address(&places, &all(lookups).await)
}

fn same_address(places: &[String], addresses: &[BTreeSet<IpAddr>]) -> Finding {
    const CHECK: Check = Check("machines");
    let every: BTreeSet<_> = addresses.iter().flatten().collect();
    let mut groups = Vec::new();
    for address in every {
        let on_it = places.iter().zip(addresses);
        let on_it = on_it.filter(|(_, known)| known.contains(address));
        let on_it: Vec<_> = on_it.map(|(place, _)| place.as_str()).collect();
        let group = on_it.join(", ");
        if on_it.len() > 1 && !groups.contains(&group) {
            groups.push(group);
        }
    }
    if !groups.is_empty() {
        let found = format!("{} have the same address", groups.join("; and "));
        let advice =
            "where that is one machine, these votes are lost with it: put each node on its own";
        return CHECK.warning(found, advice);
    }
    let lost = places.iter().zip(addresses);
    let lost = lost.filter(|(_, known)| known.is_empty());
    let lost: Vec<_> = lost.map(|(place, _)| place.as_str()).collect();
    if lost.is_empty() {
        return CHECK.fine("no two nodes have the same address");
    }
    let found = format!("not checked: no address was found for {}", lost.join(", "));
    CHECK.unknown(found, "see that the names of all nodes lead to them")
}

/// Resolves a node's name; empty if that fails or takes too long.
async fn addresses(node: &NodeSettings) -> BTreeSet<IpAddr> {
    let Servers::One(host) = &node.servers else {
        return BTreeSet::from([HERE]);
    };
    let found = lookup_host((host.name.as_str(), host.port));
    match timeout(node.connect_timeout, found).await {
        Ok(Ok(found)) => found.map(|found| machine(found.ip())).collect(),
        _ => BTreeSet::new(),
    }
}

/// Maps all addresses of this machine to one.
fn machine(address: IpAddr) -> IpAddr {
    let address = address.to_canonical();
    if address.is_loopback() || address.is_unspecified() {
        HERE
    } else {
        address
    }
}

fn run_id(node: &Seen) -> Option<&str> {
    node.facts.info("run_id")
}

fn place(node: &Seen) -> &str {
    &node.place
}

/// Returns the master of a replica.
fn master(facts: &Facts) -> Option<String> {
    let (host, port) = (facts.info("master_host")?, facts.info("master_port")?);
    Some(format!("{host}:{port}"))
}

const CHECK: Check = Check("independence");

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;
    use crate::store::redis::doctor::clock::Reading;

    fn seen(place: &str, info: &[(&str, &str)]) -> Seen {
        let place = place.to_owned();
        Seen {
            clock: Reading {
                place: place.clone(),
                ahead: Ok((0, 1)),
            },
            place,
            facts: Facts::of(info, &[]),
            findings: Vec::new(),
        }
    }

    fn found(seen: &[Seen]) -> Vec<String> {
        let found = independence(seen, &[]);
        assert!(found.iter().all(|found| found.check == CHECK.0));
        found.into_iter().map(|found| found.found).collect()
    }

    #[test]
    fn a_replica_is_told_with_whom_it_belongs_together() {
        let master = seen(
            "a:1",
            &[("run_id", "1"), ("role", "master"), ("master_replid", "x")],
        );
        let follower = |place: &str, id: &str, host: &str, data: &str| {
            let info = [
                ("run_id", id),
                ("role", "slave"),
                ("master_host", host),
                ("master_port", "1"),
                ("master_replid", data),
            ];
            seen(place, &info)
        };
        // One by another name and linked, and one by the same name and not linked yet.
        for replica in [
            follower("b:2", "2", "10.0.0.1", "x"),
            follower("b:2", "2", "a", "?"),
        ] {
            let told = found(&[
                seen(
                    "a:1",
                    &[("run_id", "1"), ("role", "master"), ("master_replid", "x")],
                ),
                replica,
            ]);
            let expected = "b:2 is a replica of a:1, which is a node too: it cannot vote";
            assert_eq!(told, [expected]);
        }
        let outside = [
            master,
            follower("b:2", "2", "z", "y"),
            follower("c:3", "3", "z", "y"),
        ];
        assert_eq!(
            found(&outside),
            [
                "b:2 is a replica of z:1, as is c:3: it cannot vote",
                "c:3 is a replica of z:1, as is b:2: it cannot vote",
            ]
        );
    }

    #[test]
    fn a_server_that_says_nothing_of_itself_is_no_pass() {
        let in_cluster = || seen("b:2", &[("run_id", "2"), ("cluster_enabled", "1")]);
        let told = independence(&[seen("a:1", &[]), in_cluster()], &[]);
        let verdicts: Vec<_> = told.iter().map(|found| found.verdict).collect();
        assert_eq!(verdicts, [Verdict::Unknown, Verdict::Problem], "{told:?}");
        assert!(told[0].found.starts_with("a:1: not checked"), "{told:?}");
        assert!(told[1].found.starts_with("b:2 is in a cluster"), "{told:?}");
        let away = ["a:1", "c:3"].map(|place| (place.to_owned(), "refused".to_owned()));
        let told = independence(&[in_cluster()], &away);
        let verdicts: Vec<_> = told.iter().map(|found| found.verdict).collect();
        assert_eq!(verdicts, [Verdict::Unknown, Verdict::Problem], "{told:?}");
        assert_eq!(told[0].found, "not checked: a:1, c:3 did not answer");
    }

    #[test]
    fn nodes_with_one_address_are_named_together() {
        let places = ["a:1", "b:1", "c:1"].map(str::to_owned);
        let at = |addresses: [&str; 3]| {
            let address = |text: &str| BTreeSet::from([machine(text.parse().unwrap())]);
            same_address(&places, &addresses.map(address))
        };
        let apart = at(["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
        assert_eq!((apart.verdict, apart.advice), (Verdict::Fine, None));
        let here = at(["127.0.0.1", "10.0.0.2", "::1"]);
        assert_eq!(here.verdict, Verdict::Warning);
        assert_eq!(here.found, "a:1, c:1 have the same address");
        let known = || BTreeSet::from([HERE]);
        let unknown = same_address(&places, &[known(), BTreeSet::new(), BTreeSet::new()]);
        assert_eq!(unknown.verdict, Verdict::Unknown);
        let said = "not checked: no address was found for b:1, c:1";
        assert_eq!(unknown.found, said);
        let two = same_address(&places, &[known(), BTreeSet::new(), known()]);
        assert_eq!(two.verdict, Verdict::Warning);
    }
}

//! Checks of a cluster: its slots, and its failover.

use std::collections::{BTreeMap, BTreeSet};

use crate::doctor::{Check, Finding};
use crate::error::Result;
use crate::lock::DEFAULT_TTL;
use crate::store::redis::doctor::node::{Facts, Node, said};
use crate::store::redis::doctor::server::not_shown;
use crate::store::redis::fault;
use crate::store::redis::slots::{self, Range};
use crate::store::redis::url::{Host, Settings};

/// Checks the slots of the cluster and connects to its masters; also returns the replicas.
pub(super) async fn check(
    settings: &Settings,
    hosts: &[Host],
) -> Result<(Vec<Node>, Vec<Host>, Vec<Finding>)> {
    let mut last = None;
    for host in hosts {
        let mut node = match Node::open(settings, host).await {
            Ok(node) => node,
            Err(error) => {
                last = Some(error);
                continue;
            }
        };
        let slots = match node.ask(&["CLUSTER", "SLOTS"]).await {
            Ok(slots) => slots,
            Err(error) => {
                // Without the map, no client finds the other nodes, so only this one can be checked.
                let found = format!("{host} does not show its map of slots: {}", said(&error));
                let advice =
                    "allow CLUSTER SLOTS, or use redis:// for a server that is not in a cluster";
                let finding = CHECK.problem(found, advice);
                return Ok((vec![node], Vec::new(), vec![finding]));
            }
        };
        let map = slots::read(&slots, &host.name)?;
        let mut findings = coverage(&map);
        let mut masters = Vec::new();
        let hosts: BTreeSet<_> = map.iter().map(|range| &range.master).collect();
        for master in hosts {
            match Node::open(settings, master).await {
                Ok(node) => masters.push(node),
                Err(error) => findings.push(CHECK.problem(
                    format!("{master} does not answer: {}", error.why()),
                    "start it, or let one of its replicas take over",
                )),
            }
        }
        let replicas: BTreeSet<_> = map.into_iter().flat_map(|range| range.replicas).collect();
        return Ok((masters, replicas.into_iter().collect(), findings));
    }
    Err(last.unwrap_or_else(|| fault::unavailable("no node is named")))
}

/// Compares how long a failover takes with how long a lease lasts.
pub(super) fn failover(facts: &Facts) -> Finding {
    const CHECK: Check = Check("failover");
    let timeout = facts.config("cluster-node-timeout");
    let Some(timeout) = timeout.and_then(|timeout| timeout.parse::<u64>().ok()) else {
        return not_shown(CHECK, "cluster-node-timeout");
    };
    after(CHECK, "cluster-node-timeout", timeout)
}

/// Checks whether a lease outlasts a failover that starts `timeout_ms` after a fault.
pub(super) fn after(check: Check, setting: &str, timeout_ms: u64) -> Finding {
    let ttl = DEFAULT_TTL.as_secs();
    let found = format!("a failover begins {timeout_ms} ms after a master is lost ({setting})");
    if u128::from(timeout_ms) * 2 <= DEFAULT_TTL.as_millis() {
        return check.fine(found);
    }
    check.warning(
        format!("{found}, too late for locks with the usual ttl of {ttl} s"),
        format!(
            "set {setting} to {} or less, or use a longer ttl",
            ttl * 500
        ),
    )
}

/// Checks that every slot has a master, and every master a replica.
fn coverage(map: &[Range]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let slots: usize = map.iter().map(|it| (it.first..=it.last).len()).sum();
    if slots < SLOTS {
        findings.push(CHECK.problem(
            format!(
                "{} of {SLOTS} slots have no master: their locks fail",
                SLOTS - slots
            ),
            "see `redis-cli --cluster check`, and give the slots to a master",
        ));
    }
    let masters: BTreeMap<_, _> = map.iter().map(|it| (&it.master, &it.replicas)).collect();
    let alone = masters.iter().filter(|(_, replicas)| replicas.is_empty());
    let alone: Vec<_> = alone.map(|(master, _)| master.to_string()).collect();
    if !alone.is_empty() {
        findings.push(CHECK.warning(
            format!("no replica would take over from {}", alone.join(", ")),
            "add a replica to each master",
        ));
    }
    if findings.is_empty() {
        let count = masters.len();
        let found = format!("all slots are covered by {count} masters, each with a replica");
        findings.push(CHECK.fine(found));
    }
    findings
}

const CHECK: Check = Check("cluster");
const SLOTS: usize = 16384;

#[cfg(test)]
mod tests {
    use redis::Value;

    use super::*;
    use crate::doctor::Verdict;

    fn node(port: i64) -> Value {
        let name = Value::BulkString(b"10.0.0.1".to_vec());
        Value::Array(vec![
            name,
            Value::Int(port),
            Value::BulkString(b"id".to_vec()),
        ])
    }

    fn range(first: i64, last: i64, ports: &[i64]) -> Value {
        let mut parts = vec![Value::Int(first), Value::Int(last)];
        parts.extend(ports.iter().map(|port| node(*port)));
        Value::Array(parts)
    }

    fn verdicts(ranges: Vec<Value>) -> Vec<Verdict> {
        let map = slots::read(&Value::Array(ranges), "x").unwrap();
        coverage(&map)
            .iter()
            .map(|finding| finding.verdict)
            .collect()
    }

    #[test]
    fn every_slot_has_a_master_and_every_master_a_replica() {
        let whole = vec![range(0, 8191, &[1, 2]), range(8192, 16383, &[3, 4])];
        assert_eq!(verdicts(whole), [Verdict::Fine]);
        let hole = vec![range(0, 8191, &[1, 2]), range(8193, 16383, &[3, 4])];
        assert_eq!(verdicts(hole), [Verdict::Problem]);
        let alone = vec![range(0, 8191, &[1]), range(8192, 16383, &[3, 4])];
        assert_eq!(verdicts(alone), [Verdict::Warning]);
        assert_eq!(verdicts(Vec::new()), [Verdict::Problem]);
    }

    #[test]
    fn a_failover_has_to_fit_into_a_lease() {
        assert_eq!(after(Check("failover"), "x", 15_000).verdict, Verdict::Fine);
        assert_eq!(
            after(Check("failover"), "x", 15_001).verdict,
            Verdict::Warning
        );
    }
}

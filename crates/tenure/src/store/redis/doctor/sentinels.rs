//! Checks of sentinels: the quorum, and the time after which a master counts as down.

use std::collections::BTreeMap;

use redis::{FromRedisValue, Value};

use crate::doctor::{Check, Finding};
use crate::store::redis::doctor::cluster;
use crate::store::redis::doctor::node::{Node, said};
use crate::store::redis::url::{Host, Servers, Settings};

/// Asks each sentinel of the URL; also returns the replicas.
pub(super) async fn check(settings: &Settings) -> (Vec<Host>, Vec<Finding>) {
    let Servers::Sentinel {
        hosts,
        master,
        access,
    } = &settings.servers
    else {
        return (Vec::new(), Vec::new());
    };
    let mut findings = Vec::new();
    let mut silent = Vec::new();
    let mut views = Vec::new();
    for host in hosts {
        match Node::open_as(settings, host, access).await {
            Ok(mut sentinel) => match View::ask(&mut sentinel, master).await {
                Ok(view) => views.push((host, view)),
                Err(why) => silent.push(format!("{host} ({why})")),
            },
            Err(error) => silent.push(format!("{host} ({})", said(&error))),
        }
    }
    if !silent.is_empty() {
        findings.push(CHECK.warning(
            format!("no view of the master from {}", silent.join(", ")),
            "start these sentinels, or take them out of the URL",
        ));
    }
    for (host, view) in &views {
        if let Err(why) = &view.quorum {
            findings.push(CHECK.problem(
                format!("{host} sees no quorum: {why}"),
                "start sentinels: without a quorum no other server becomes master",
            ));
        }
    }
    let Some((_, view)) = views.into_iter().next() else {
        return (Vec::new(), findings);
    };
    findings.extend(view.findings(hosts));
    if findings.iter().all(|finding| finding.check != CHECK.0) {
        let found = format!("{} sentinels, quorum reachable", view.sentinels);
        findings.insert(0, CHECK.fine(found));
    }
    (view.replicas, findings)
}

/// What one sentinel knows about the master.
#[derive(Debug)]
struct View {
    sentinels: usize,
    down_after_ms: Option<u64>,
    quorum: Result<(), String>,
    replicas: Vec<Host>,
}

impl View {
    async fn ask(sentinel: &mut Node, master: &str) -> Result<Self, String> {
        let answer = sentinel.ask(&["SENTINEL", "MASTER", master]).await;
        let answer = answer.map_err(|error| said(&error))?;
        let fields = <BTreeMap<String, String>>::from_redis_value(answer);
        let fields = fields.map_err(|_| "unexpected reply".to_owned())?;
        let quorum = sentinel.ask(&["SENTINEL", "CKQUORUM", master]).await;
        let replicas = sentinel.ask(&["SENTINEL", "REPLICAS", master]).await;
        Ok(Self {
            replicas: replicas.map_or_else(|_| Vec::new(), addresses),
            ..Self::of(&fields, quorum.map(drop).map_err(|error| said(&error)))
        })
    }

    fn of(fields: &BTreeMap<String, String>, quorum: Result<(), String>) -> Self {
        let number = |name: &str| fields.get(name).and_then(|value| value.parse().ok());
        let others = number("num-other-sentinels").unwrap_or(0);
        Self {
            sentinels: usize::try_from(others).unwrap_or(0) + 1,
            down_after_ms: number("down-after-milliseconds"),
            quorum,
            replicas: Vec::new(),
        }
    }

    fn findings(&self, named: &[Host]) -> Vec<Finding> {
        let mut findings = Vec::new();
        let (count, named) = (self.sentinels, named.len());
        if count < ENOUGH {
            findings.push(CHECK.warning(
                format!("{count} sentinels in all: one lost and no failover happens"),
                "run three or more, on different machines",
            ));
        } else if named == 1 {
            findings.push(CHECK.warning(
                format!("the URL names 1 of {count} sentinels: without it no client can connect"),
                "name them all, with commas between them",
            ));
        }
        findings.push(match self.down_after_ms {
            Some(time) => cluster::after(Check("failover"), "down-after-milliseconds", time),
            None => Check("failover").unknown(
                "not checked: the sentinels do not say after which time a master is lost",
                "see down-after-milliseconds in their configuration",
            ),
        });
        findings
    }
}

/// Parses the addresses of the replicas.
fn addresses(answer: Value) -> Vec<Host> {
    let replicas = <Vec<BTreeMap<String, String>>>::from_redis_value(answer);
    let host = |fields: &BTreeMap<String, String>| {
        Some(Host {
            name: fields.get("ip")?.clone(),
            port: fields.get("port")?.parse().ok()?,
        })
    };
    replicas
        .unwrap_or_default()
        .iter()
        .filter_map(host)
        .collect()
}

const CHECK: Check = Check("sentinels");

/// With three sentinels, two can still decide when one is lost.
const ENOUGH: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    #[test]
    fn sentinels_are_counted_and_their_patience_is_measured() {
        let verdicts = |others: &str, down_after: &str, named: usize| {
            let fields = [
                ("num-other-sentinels", others),
                ("down-after-milliseconds", down_after),
            ];
            let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
            let host = Host {
                name: "x".to_owned(),
                port: 1,
            };
            let view = View::of(&BTreeMap::from(fields), Ok(()));
            let found = view.findings(&vec![host; named]);
            found
                .iter()
                .map(|finding| finding.verdict)
                .collect::<Vec<_>>()
        };
        assert_eq!(verdicts("2", "5000", 3), [Verdict::Fine]);
        assert_eq!(verdicts("2", "30000", 3), [Verdict::Warning]);
        assert_eq!(verdicts("1", "5000", 2), [Verdict::Warning, Verdict::Fine]);
        assert_eq!(verdicts("2", "5000", 1), [Verdict::Warning, Verdict::Fine]);
        assert_eq!(verdicts("2", "", 3), [Verdict::Unknown]);
    }
}

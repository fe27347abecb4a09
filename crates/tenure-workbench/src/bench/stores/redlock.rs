//! Servers that vote, beside a bare lock on each of them: what a client by hand pays for one node.

use std::time::Duration;

use crate::bench::detour::Detour;
use crate::bench::messages::Who;
use crate::bench::nodes::Nodes;
use crate::bench::report_row::Aim::{self, AtLeast, AtMost, RatioAtLeast, RatioAtMost};
use crate::bench::report_row::Unit::{Micros, Millis, Number, PerSecond, Percent};
use crate::bench::report_row::{Row, row};
use crate::bench::stores::redis::{Redis, SET, TOKEN};
use crate::bench::stores::{BenchStore, Counter, OWN_PAIR, Subject};
use crate::bench::workload::Workload::{self, Crash, Crowd, Dead, Handover, Hot, Idle, Pair, Slow};
use tenure_cli::error::Result;

/// `redlock:`, and each of its nodes as a server of its own.
#[derive(Debug)]
pub(super) struct Redlock {
    /// As those see them who are measured.
    urls: Nodes,
    /// As they are.
    nodes: Vec<Redis>,
    /// What the report calls the bare lock on each node.
    labels: &'static [&'static str],
    /// Detours to the last node, where there can be some.
    detours: Option<Detours>,
}

/// Two detours to a node that differ in nothing but the delay.
#[derive(Debug)]
struct Detours {
    slow: Detour,
    quick: Detour,
}

impl Detours {
    /// To a server that is so far away as it is.
    fn to(server: String, away: Duration) -> Result<Self> {
        Ok(Self {
            slow: Detour::start(server.clone(), away + DELAY)?,
            quick: Detour::start(server, away)?,
        })
    }
}

impl Redlock {
    /// Connects to the nodes of a store, which is `seen` by those who are measured as if it were so far
    /// away.
    pub(super) fn look(url: &str, seen: &str, away: Duration) -> Result<Self> {
        let urls = Nodes::of(url);
        let nodes = (0..urls.count()).map(|node| Redis::look(&urls.server(node)));
        let nodes = nodes.collect::<Result<_>>()?;
        let labels = (0..urls.count()).map(|node| format!("bare {}", urls.place(node)));
        // Labels last as long as the program everywhere else; this is the only place that makes
        // some, and it does so once.
        let labels: Vec<&'static str> = labels.map(|label| &*label.leak()).collect();
        let last = urls.address(urls.count() - 1);
        let detours = last.map(|last| Detours::to(last, away)).transpose()?;
        Ok(Self {
            urls: Nodes::of(seen),
            nodes,
            labels: labels.leak(),
            detours,
        })
    }

    /// The store itself, with all nodes or with another instead of the last.
    fn tenure(&self, workload: Workload) -> Subject {
        let last = match (workload, &self.detours) {
            (Dead, _) => Some(REFUSES.to_owned()),
            (Slow, Some(detours)) => Some(detours.slow.address().to_string()),
            _ => None,
        };
        Subject {
            url: last.map(|last| self.urls.with_last(&last)),
            ttl: (workload == Crash).then_some(TTL),
            ..Subject::tenure(workload)
        }
    }

    /// The pair of the other nodes alone, where as many of them make a majority as of all: what a node
    /// costs that does not vote is then the difference.
    fn without_last(&self) -> Option<Subject> {
        (self.nodes.len() > 1 && self.nodes.len() % 2 == 1).then(|| Subject {
            label: OTHERS,
            url: Some(self.urls.without_last()),
            ..Subject::tenure(Pair)
        })
    }

    /// The pair by the way that is slow in the workload, but without its delay: leading requests to and
    /// fro takes time of this machine that is not the node's.
    fn the_quick_way(&self) -> Option<Subject> {
        self.detours.as_ref().map(|detours| Subject {
            label: SAME_WAY,
            url: Some(self.urls.with_last(&detours.quick.address().to_string())),
            ..Subject::tenure(Pair)
        })
    }

    fn bare(&self, node: usize, label: &'static str, workload: Workload, lock: &str) -> Subject {
        Subject {
            url: Some(self.urls.server(node)),
            ..Subject::bare(label, workload, Who::bare(lock))
        }
    }
}

impl BenchStore for Redlock {
    fn rows(&self) -> Vec<Row> {
        let pair = |what, floor, aim| row(Pair, "p50_us", what, Micros, floor, aim);
        let first = pair("lock + release, p50", None, RatioAtMost(2.0));
        let first = first.beside_slowest_of(self.labels);
        let at_once = pair("the same, all asked by hand", Some(ALL_AT_ONCE), Aim::None);
        let each = self.labels.iter().copied();
        let each = each.map(|label| pair("the same, one node asked", Some(label), Aim::None));
        let nodes = self.nodes.len() as f64;
        let rows = ROWS.into_iter().map(|row| {
            let aim = match row.figure {
                // A few belong to no operation, or to a second vote.
                "commands_each" if row.workload == Pair => AtMost(2.05 * nodes),
                "commands_per_second" => AtMost(nodes),
                _ => row.aim,
            };
            Row { aim, ..row }
        });
        let rows = [first, at_once].into_iter().chain(each).chain(rows);
        let majority_without_one = self.nodes.len() > 2;
        let possible = |row: &Row| {
            (row.workload != Slow || self.detours.is_some())
                && (!matches!(row.workload, Dead | Slow) || majority_without_one)
                && (row.floor != Some(OTHERS) || self.without_last().is_some())
        };
        rows.filter(possible).collect()
    }

    fn subjects(&self, workload: Workload) -> Vec<Subject> {
        let mut subjects = vec![self.tenure(workload)];
        match workload {
            Pair => {
                let set = |(node, label): (usize, &&'static str)| self.bare(node, label, Pair, SET);
                subjects.extend(self.labels.iter().enumerate().map(set));
                let servers = (0..self.nodes.len()).map(|node| self.urls.server(node));
                let all = Who::bare_at(SET, servers.collect());
                subjects.push(Subject::bare(ALL_AT_ONCE, Pair, all));
            }
            Dead => {
                subjects.push(Subject::own_pair());
                subjects.extend(self.without_last());
            }
            Slow => {
                subjects.push(Subject::own_pair());
                subjects.extend(self.the_quick_way());
                subjects.extend(self.without_last());
            }
            Hot => subjects.push(Subject::own_pair()),
            Handover | Crowd => subjects.push(self.bare(0, TOKEN, workload, TOKEN)),
            _ => {}
        }
        subjects
    }

    fn prepare(&self, who: &Who, name: &str) -> Result<()> {
        self.nodes[0].prepare(who, name)
    }

    fn is_blocked(&self, process: u32) -> Result<bool> {
        self.nodes[0].is_blocked(process)
    }

    fn counter(&self) -> Result<Option<Box<dyn Counter>>> {
        let counters = self.nodes.iter().map(BenchStore::counter);
        let counters: Option<Vec<_>> = counters.collect::<Result<_>>()?;
        Ok(counters.map(|counters| Box::new(Together(counters)) as Box<dyn Counter>))
    }

    /// Of all nodes together.
    fn server_time(&self) -> Option<Duration> {
        self.nodes.iter().map(BenchStore::server_time).sum()
    }

    fn missing(&self) -> Option<&str> {
        self.nodes.iter().find_map(BenchStore::missing)
    }
}

/// Counts what all nodes are sent.
#[derive(Debug)]
struct Together(Vec<Box<dyn Counter>>);

impl Counter for Together {
    fn commands(&self) -> Result<u64> {
        self.0.iter().map(|counter| counter.commands()).sum()
    }
}

/// The bare pair of the slowest node while all are asked. Nodes that share a machine are quicker asked
/// one by one than together, whoever asks.
const ALL_AT_ONCE: &str = "bare, slowest of all";
const OTHERS: &str = "the others alone";
const SAME_WAY: &str = "same way, no delay";

/// Of the answers of a node that is slow.
const DELAY: Duration = Duration::from_millis(20);

/// A port of the system that nobody listens on.
const REFUSES: &str = "127.0.0.1:1";

/// Of a holder that is killed.
const TTL: Duration = Duration::from_secs(2);

/// All but the pair's latency, which stands beside every node.
#[rustfmt::skip] // A table: one row of the report in each row.
const ROWS: [Row; 22] = [
    row(Pair, "per_second", "lock + release", PerSecond, None, Aim::None),
    row(Pair, "p99_us", "p99", Micros, Some(ALL_AT_ONCE), Aim::None),
    row(Pair, "commands_each", "commands each, all nodes", Number, None, Aim::None),
    row(Pair, "server_us_each", "all servers' time each", Micros, None, Aim::None),
    row(Dead, "p50_us", "a node dead, p50", Micros, Some(OTHERS), RatioAtMost(1.1)),
    row(Dead, "p50_us", "a node dead, p50", Micros, Some(OWN_PAIR), Aim::None),
    row(Dead, "p99_us", "a node dead, p99", Micros, Some(OWN_PAIR), Aim::None),
    row(Slow, "p50_us", "a node slow, p50", Micros, Some(SAME_WAY), RatioAtMost(1.1)),
    row(Slow, "p50_us", "a node slow, p50", Micros, Some(OTHERS), Aim::None),
    row(Slow, "p50_us", "a node slow, p50", Micros, Some(OWN_PAIR), Aim::None),
    row(Slow, "p99_us", "a node slow, p99", Micros, Some(OWN_PAIR), Aim::None),
    row(Handover, "p50_us", "release to grant, p50", Micros, Some(TOKEN), Aim::None),
    row(Handover, "p99_us", "release to grant, p99", Micros, Some(TOKEN), Aim::None),
    row(Handover, "commands_each", "commands each, all nodes", Number, None, Aim::None),
    row(Hot, "per_second", "64 tasks, one name", PerSecond, Some(OWN_PAIR), RatioAtLeast(40.0)),
    row(Crowd, "per_second", "8 processes, 1 ms inside", PerSecond, Some(TOKEN), Aim::None),
    row(Crowd, "fairness", "Jain's index", Number, Some(TOKEN), AtLeast(0.99)),
    row(Crowd, "commands_each", "commands each, all nodes", Number, None, Aim::None),
    row(Crash, "p50_late_ms", "kill -9, after the ttl, p50", Millis, None, AtMost(20.0)),
    row(Crash, "worst_late_ms", "kill -9, after the ttl, worst", Millis, None, AtMost(20.0)),
    row(Idle, "commands_per_second", "200 waiters, commands to all", PerSecond, None, Aim::None),
    row(Idle, "cpu_percent", "of a core", Percent, None, Aim::None),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_compares_those_who_are_measured() {
        for row in &ROWS {
            assert_eq!(row.who, crate::bench::stores::TENURE, "{row:?}");
            let floors = [
                None,
                Some(ALL_AT_ONCE),
                Some(OTHERS),
                Some(OWN_PAIR),
                Some(SAME_WAY),
                Some(TOKEN),
            ];
            assert!(floors.contains(&row.floor), "{row:?}");
        }
    }
}

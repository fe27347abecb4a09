//! Servers that vote, beside a bare lock on each of them: what a client by hand pays for one node.

use std::time::Duration;

use crate::bench::detour::Detour;
use crate::bench::kind::redis::Redis;
use crate::bench::kind::{Counter, Kind, OWN_PAIR, Subject};
use crate::bench::line::Aim::{AtLeast, AtMost, RatioAtLeast, RatioAtMost};
use crate::bench::line::Line;
use crate::bench::line::Unit::{Micros, Millis, Number, PerSecond, Percent};
use crate::bench::nodes::Nodes;
use crate::bench::wire::Who;
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
    /// Other ways to the last node, where there can be some.
    ways: Option<Ways>,
}

/// Two ways to a node that differ in nothing but the delay.
#[derive(Debug)]
struct Ways {
    slow: Detour,
    quick: Detour,
}

impl Ways {
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
        let ways = last.map(|last| Ways::to(last, away)).transpose()?;
        Ok(Self {
            urls: Nodes::of(seen),
            nodes,
            labels: labels.leak(),
            ways,
        })
    }

    /// The store itself, with all nodes or with another instead of the last.
    fn tenure(&self, workload: Workload) -> Subject {
        let last = match (workload, &self.ways) {
            (Dead, _) => Some(REFUSES.to_owned()),
            (Slow, Some(ways)) => Some(ways.slow.address().to_string()),
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
        self.ways.as_ref().map(|ways| Subject {
            label: SAME_WAY,
            url: Some(self.urls.with_last(&ways.quick.address().to_string())),
            ..Subject::tenure(Pair)
        })
    }

    fn bare(&self, node: usize, label: &'static str, workload: Workload, who: Who) -> Subject {
        Subject {
            label,
            who,
            url: Some(self.urls.server(node)),
            ..Subject::tenure(workload)
        }
    }
}

impl Kind for Redlock {
    fn lines(&self) -> Vec<Line> {
        let pair = Line::new(Pair, "p50_us", "lock + release, p50", Micros);
        let first = pair.beside_slowest_of(self.labels);
        let first = first.aims(RatioAtMost(2.0));
        let at_once = Line {
            what: "the same, all asked by hand",
            ..pair.beside(ALL_AT_ONCE)
        };
        let each = self.labels.iter().map(|label| Line {
            what: "the same, one node asked",
            ..pair.beside(label)
        });
        let nodes = self.nodes.len() as f64;
        let lines = LINES.into_iter().map(|line| match line.figure {
            // A few belong to no operation, or to a second vote.
            "commands_each" if line.workload == Pair => line.aims(AtMost(2.05 * nodes)),
            "commands_per_second" => line.aims(AtMost(nodes)),
            _ => line,
        });
        let lines = [first, at_once].into_iter().chain(each).chain(lines);
        let majority_without_one = self.nodes.len() > 2;
        let possible = |line: &Line| {
            (line.workload != Slow || self.ways.is_some())
                && (!matches!(line.workload, Dead | Slow) || majority_without_one)
                && (line.floor != Some(OTHERS) || self.without_last().is_some())
        };
        lines.filter(possible).collect()
    }

    fn subjects(&self, workload: Workload) -> Vec<Subject> {
        let mut subjects = vec![self.tenure(workload)];
        match workload {
            Pair => {
                let set = |(node, label): (usize, &&'static str)| {
                    self.bare(node, label, Pair, Who::RedisSet)
                };
                subjects.extend(self.labels.iter().enumerate().map(set));
                let servers = (0..self.nodes.len()).map(|node| self.urls.server(node));
                subjects.push(Subject {
                    label: ALL_AT_ONCE,
                    who: Who::RedisSetAll(servers.collect()),
                    ..Subject::tenure(Pair)
                });
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
            Handover | Crowd => subjects.push(self.bare(0, TOKEN, workload, Who::RedisToken)),
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

    fn changes(&self) -> Option<u64> {
        None
    }

    fn counter(&self) -> Result<Option<Box<dyn Counter>>> {
        let counters = self.nodes.iter().map(Kind::counter);
        let counters: Option<Vec<_>> = counters.collect::<Result<_>>()?;
        Ok(counters.map(|counters| Box::new(Together(counters)) as Box<dyn Counter>))
    }

    /// Of all nodes together.
    fn server_time(&self) -> Option<Duration> {
        self.nodes.iter().map(Kind::server_time).sum()
    }

    fn missing(&self) -> Option<&str> {
        self.nodes.iter().find_map(Kind::missing)
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

const TOKEN: &str = "bare BLPOP";
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
const LINES: [Line; 22] = [
    Line::new(Pair, "per_second", "lock + release", PerSecond),
    Line::new(Pair, "p99_us", "p99", Micros).beside(ALL_AT_ONCE),
    Line::new(Pair, "commands_each", "commands each, all nodes", Number),
    Line::new(Pair, "server_us_each", "all servers' time each", Micros),
    Line::new(Dead, "p50_us", "a node dead, p50", Micros)
        .beside(OTHERS)
        .aims(RatioAtMost(1.1)),
    Line::new(Dead, "p50_us", "a node dead, p50", Micros).beside(OWN_PAIR),
    Line::new(Dead, "p99_us", "a node dead, p99", Micros).beside(OWN_PAIR),
    Line::new(Slow, "p50_us", "a node slow, p50", Micros)
        .beside(SAME_WAY)
        .aims(RatioAtMost(1.1)),
    Line::new(Slow, "p50_us", "a node slow, p50", Micros).beside(OTHERS),
    Line::new(Slow, "p50_us", "a node slow, p50", Micros).beside(OWN_PAIR),
    Line::new(Slow, "p99_us", "a node slow, p99", Micros).beside(OWN_PAIR),
    Line::new(Handover, "p50_us", "release to grant, p50", Micros).beside(TOKEN),
    Line::new(Handover, "p99_us", "release to grant, p99", Micros).beside(TOKEN),
    Line::new(
        Handover,
        "commands_each",
        "commands each, all nodes",
        Number,
    ),
    Line::new(Hot, "per_second", "64 tasks, one name", PerSecond)
        .beside(OWN_PAIR)
        .aims(RatioAtLeast(40.0)),
    Line::new(Crowd, "per_second", "8 processes, 1 ms inside", PerSecond).beside(TOKEN),
    Line::new(Crowd, "fairness", "Jain's index", Number)
        .beside(TOKEN)
        .aims(AtLeast(0.99)),
    Line::new(Crowd, "commands_each", "commands each, all nodes", Number),
    Line::new(Crash, "p50_late_ms", "kill -9, after the ttl, p50", Millis).aims(AtMost(20.0)),
    Line::new(
        Crash,
        "worst_late_ms",
        "kill -9, after the ttl, worst",
        Millis,
    )
    .aims(AtMost(20.0)),
    Line::new(
        Idle,
        "commands_per_second",
        "200 waiters, commands to all",
        PerSecond,
    ),
    Line::new(Idle, "cpu_percent", "of a core", Percent),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_compares_those_who_are_measured() {
        for line in &LINES {
            assert_eq!(line.who, crate::bench::kind::TENURE, "{line:?}");
            let floors = [
                None,
                Some(ALL_AT_ONCE),
                Some(OTHERS),
                Some(OWN_PAIR),
                Some(SAME_WAY),
                Some(TOKEN),
            ];
            assert!(floors.contains(&line.floor), "{line:?}");
        }
    }
}

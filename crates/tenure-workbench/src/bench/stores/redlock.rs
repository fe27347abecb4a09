//! Servers that vote, compared with a bare lock on each of them.

use tenure::url::{Host, StoreUrl};

use super::prelude::*;
use super::redis::{self, Redis, SET, TOKEN};
use crate::bench::detour;
use crate::servers::loopback;

pub(super) const KIND: Kind = Kind {
    schemes: &["redlock", "redlocks"],
    look: |opened| Ok(Box::new(Redlock::look(opened)?)),
    ..redis::KIND
};

/// `redlock:`, and each of its nodes as a single server.
#[derive(Debug)]
struct Redlock {
    /// The URL that the contenders use.
    seen: StoreUrl,
    /// The servers themselves, without proxies.
    nodes: Vec<Redis>,
    /// The labels of the bare lock on each node.
    labels: &'static [&'static str],
    /// Proxies to the last node, if a proxy can forward to it.
    detours: Option<Detours>,
}

/// Two proxies to a node that differ only in their delay.
#[derive(Debug)]
struct Detours {
    slow: Host,
    quick: Host,
}

impl Redlock {
    /// Connects to the nodes of a store.
    fn look(opened: &Opened) -> Result<Self> {
        let nodes = &opened.url.nodes;
        let places = nodes.iter().map(|node| match node.servers.first() {
            Some(host) => host.to_string(),
            None => node.path.clone(),
        });
        // Everywhere else labels are `'static`. Only this place creates labels, and it does so
        // once.
        let labels = places.map(|place| &*format!("bare {place}").leak());
        let labels: Vec<&'static str> = labels.collect();
        let last = nodes.last().filter(|node| KIND.is_plain(node));
        let detours = last.and_then(|node| node.servers.first()).map(|host| {
            Ok::<_, Failure>(Detours {
                slow: detour::start(host.to_string(), opened.away + DELAY)?,
                quick: detour::start(host.to_string(), opened.away)?,
            })
        });
        Ok(Self {
            seen: opened.seen.clone(),
            nodes: nodes.iter().map(Redis::look).collect::<Result<_>>()?,
            labels: labels.leak(),
            detours: detours.transpose()?,
        })
    }

    /// Returns a subject whose store has another address for its last node.
    fn with_last(&self, host: Host, subject: Subject) -> Subject {
        Subject {
            url: Some(with_last(&self.seen, host)),
            ..subject
        }
    }

    fn bare(&self, node: usize, label: &'static str, workload: Workload, lock: &str) -> Subject {
        Subject {
            url: Some(self.seen.nodes[node].reveal()),
            ..Subject::bare(label, workload, Who::bare(lock))
        }
    }

    /// Returns whether the majority of the other nodes is as large as the majority of all nodes. If
    /// so, the cost of a node that does not vote is the difference to a vote of the others alone.
    fn can_vote_without_last(&self) -> bool {
        self.nodes.len() > 1 && self.nodes.len() % 2 == 1
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
                // A few commands belong to no operation, or to a second vote.
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
                && (row.floor != Some(OTHERS) || self.can_vote_without_last())
        };
        rows.filter(possible).collect()
    }

    fn subject(&self, label: &'static str, workload: Workload) -> Subject {
        let own = Subject {
            label,
            ttl: (workload == Crash).then_some(TTL),
            ..Subject::tenure(workload)
        };
        let pair = Subject {
            label,
            ..Subject::tenure(Pair)
        };
        match (label, workload, &self.detours) {
            (TOKEN, ..) => self.bare(0, TOKEN, workload, TOKEN),
            (ALL_AT_ONCE, ..) => {
                let servers = self.seen.nodes.iter().map(StoreUrl::reveal);
                Subject::bare(label, Pair, Who::bare_at(SET, servers.collect()))
            }
            (OTHERS, ..) => Subject {
                url: Some(without_last(&self.seen)),
                ..pair
            },
            // The proxy itself takes CPU time of this machine that is not the node's.
            (SAME_WAY, _, Some(detours)) => self.with_last(detours.quick.clone(), pair),
            (TENURE, Dead, _) => self.with_last(loopback(REFUSES), own),
            (TENURE, Slow, Some(detours)) => self.with_last(detours.slow.clone(), own),
            _ => match self.labels.iter().position(|node| *node == label) {
                Some(node) => self.bare(node, label, Pair, SET),
                None => own,
            },
        }
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

    /// Returns the CPU time of all nodes together.
    fn server_time(&self) -> Option<Duration> {
        self.nodes.iter().map(BenchStore::server_time).sum()
    }

    fn missing(&self) -> Option<&str> {
        self.nodes.iter().find_map(BenchStore::missing)
    }
}

/// Counts the commands that all nodes receive.
#[derive(Debug)]
struct Together(Vec<Box<dyn Counter>>);

impl Counter for Together {
    fn commands(&self) -> Result<u64> {
        self.0.iter().map(|counter| counter.commands()).sum()
    }
}

/// Returns the store with another address for its last node.
fn with_last(url: &StoreUrl, host: Host) -> String {
    let mut url = url.clone();
    if let Some(last) = url.nodes.last_mut() {
        // A node behind a socket gets an address.
        if last.servers.is_empty()
            && let Ok(node) = StoreUrl::parse("redis://127.0.0.1")
        {
            *last = node;
        }
        last.servers = vec![host];
    }
    url.reveal()
}

/// Returns the store without its last node.
fn without_last(url: &StoreUrl) -> String {
    let mut url = url.clone();
    url.nodes.pop();
    url.reveal()
}

/// The bare pair of the slowest node while all are asked. Nodes that share a machine reply faster
/// one by one than all together, whoever asks.
const ALL_AT_ONCE: &str = "bare, slowest of all";
const OTHERS: &str = "the others alone";
const SAME_WAY: &str = "same way, no delay";

/// The delay of the replies of a slow node.
const DELAY: Duration = Duration::from_millis(20);

/// A system port that nobody listens on.
const REFUSES: u16 = 1;

/// The ttl of a holder that is killed.
const TTL: Duration = Duration::from_secs(2);

/// All rows except the pair's latency, which is compared with every node.
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

    const URL: &str = "redlock://a,rediss://b:1/3,ann:secret@c:2?db=1?prefix=x:&drift=5%25";

    #[test]
    fn the_last_node_is_replaced_and_nothing_else() {
        let cases = [
            (
                URL,
                "redlock://a,rediss://b:1/3,ann:secret@127.0.0.1:9?db=1?prefix=x:&drift=5%25",
            ),
            ("redlock://a,b", "redlock://a,127.0.0.1:9"),
            (
                "redlock://a,redis://b/3",
                "redlock://a,redis://127.0.0.1:9/3",
            ),
            ("redlock://a,unix:/run/r.sock", "redlock://a,127.0.0.1:9"),
        ];
        for (url, with) in cases {
            let url = StoreUrl::parse(url).unwrap();
            assert_eq!(with_last(&url, loopback(9)), with);
        }
        let url = "redlock://a,rediss://b:1/3?prefix=x:&drift=5%25";
        assert_eq!(without_last(&StoreUrl::parse(URL).unwrap()), url);
    }

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

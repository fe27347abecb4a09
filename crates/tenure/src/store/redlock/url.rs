//! From a URL to nodes and times.

use std::time::Duration;

use crate::driver::Capabilities;
use crate::error::Result;
use crate::store::redis::url::{Layout, Servers, Settings as Node};
use crate::url::{Options, StoreUrl, in_node, invalid};

/// The settings of a URL for voting servers.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) nodes: Vec<Node>,
    /// How far the clocks of a node and of this machine may drift apart during a ttl, in percent.
    pub(crate) drift_percent: u32,
    /// How long a node that has started is excluded from voting; `None` if nodes never lose data.
    pub(crate) restart_delay: Option<Duration>,
}

impl Settings {
    /// Parses a URL `redlock://node,node,node?options`.
    ///
    /// Options after the last node apply to all nodes. Options right after a node apply to that
    /// node and take precedence.
    ///
    /// # Errors
    ///
    /// [`InvalidUrl`](crate::Error::InvalidUrl) with what is wrong and what would be right; never
    /// quotes a password.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let url = StoreUrl::parse(url)?;
        let mut common = url.options();
        let drift_percent = drift(&mut common)?;
        let restart_delay = restart_delay(&mut common)?;
        for (key, value) in DEFAULTS {
            common.set_default(key, value);
        }
        let nodes = url.nodes.iter().enumerate();
        let nodes = nodes
            .map(|(index, url)| in_node(index, node(url, &common)))
            .collect::<Result<Vec<_>>>()?;
        if nodes.len() > MOST_NODES {
            return Err(invalid(format!("there are more than {MOST_NODES} nodes")));
        }
        for (index, node) in nodes.iter().enumerate() {
            let place = node.place();
            if nodes[..index].iter().any(|other| other.place() == place) {
                return Err(invalid(format!(
                    "{place} is there twice: each node is a server of its own"
                )));
            }
        }
        Ok(Self {
            nodes,
            drift_percent,
            restart_delay,
        })
    }

    /// Returns how long nobody else can have a name that nodes keep for `ttl`.
    ///
    /// It is shorter by the part of the drift that exceeds the margin that every holder keeps.
    pub(crate) fn valid(&self, ttl: Duration) -> Duration {
        ttl * (100 - self.drift_percent) / 99
    }

    /// Returns the longest ttl: no node may lose a lease and vote again before the lease is over.
    pub(crate) fn longest_ttl(&self) -> Duration {
        match self.restart_delay {
            Some(delay) => delay.saturating_sub(Duration::from_millis(1)),
            None => Capabilities::all().longest_ttl,
        }
    }
}

/// Parses one node; options for all nodes fill in those that it does not set.
fn node(url: &StoreUrl, common: &Options) -> Result<Node> {
    let mut options = url.options();
    if options.has_any(&FOR_ALL) {
        return Err(invalid(
            "drift and restart_delay are for all nodes: write them behind the last",
        ));
    }
    options.set_defaults(common);
    if options.has_any(&NOT_HERE) {
        return Err(invalid(
            "layout=… and replicas=… are for redis://: the nodes are each other's replicas",
        ));
    }
    let node = Node::of_server(url, &mut options, Layout::Hash)?;
    if !matches!(node.servers, Servers::One(_) | Servers::Socket(_)) {
        return Err(invalid(
            "a node is one server: neither sentinels nor a cluster can vote",
        ));
    }
    options.finish()?;
    Ok(node)
}

fn drift(options: &mut Options) -> Result<u32> {
    let Some(text) = options.text("drift") else {
        return Ok(1);
    };
    let number = text.strip_suffix('%').and_then(|text| text.parse().ok());
    match number {
        Some(number) if (1..=50).contains(&number) => Ok(number),
        _ => Err(invalid("drift is between 1% and 50% (written %25)")),
    }
}

fn restart_delay(options: &mut Options) -> Result<Option<Duration>> {
    if options.take_off("restart_delay") {
        return Ok(None);
    }
    let delay = options.duration("restart_delay");
    let delay = delay.map_err(|_| invalid("restart_delay is a time such as 60s, or off"))?;
    Ok(Some(delay.unwrap_or(RESTART_DELAY)))
}

/// Options that cannot be set for a single node.
const FOR_ALL: [&str; 2] = ["drift", "restart_delay"];

/// Options of a single server that make no sense for a voting server.
const NOT_HERE: [&str; 5] = [
    "fences",
    "layout",
    "replicas",
    "replicas_timeout",
    "scripts",
];

/// More nodes than anybody runs, and the number of bits of a `u64`.
const MOST_NODES: usize = 64;

/// Timeouts that are short compared to a ttl of 30 seconds, so that an unreachable node costs
/// little of it.
const DEFAULTS: [(&str, &str); 2] = [("timeout", "250ms"), ("connect_timeout", "1s")];

/// Twice the default ttl.
const RESTART_DELAY: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::safe;
    use crate::error::Error;

    fn places(settings: &Settings) -> Vec<String> {
        settings.nodes.iter().map(Node::place).collect()
    }

    #[test]
    fn nodes_are_a_list_of_hosts() {
        let settings = Settings::parse("redlock://a,b:7000,[::1]:7001").unwrap();
        assert_eq!(places(&settings), ["a:6379", "b:7000", "[::1]:7001"]);
        assert_eq!(settings.drift_percent, 1);
        assert_eq!(settings.restart_delay, Some(RESTART_DELAY));
        assert_eq!(settings.nodes[0].timeout, Duration::from_millis(250));
    }

    #[test]
    fn options_are_for_all_nodes_or_for_one() {
        let url = "redlock://a,ann:p%2Cw@b?db=2&timeout=1s,c?prefix=x:&timeout=2s&drift=5%25";
        let settings = Settings::parse(url).unwrap();
        let [a, b, c] = &settings.nodes[..] else {
            panic!("{settings:?}");
        };
        assert_eq!(b.access.password.as_deref(), Some("p,w"));
        assert_eq!((a.access.database, b.access.database), (0, 2));
        assert_eq!(
            (a.timeout, b.timeout),
            (Duration::from_secs(2), Duration::from_secs(1))
        );
        assert!([a, b, c].iter().all(|node| node.prefix == "x:"));
        assert_eq!(settings.drift_percent, 5);
        let url = "redlock://a,c?db=1?db=2&restart_delay=off";
        let settings = Settings::parse(url).unwrap();
        let databases = settings.nodes.iter().map(|node| node.access.database);
        assert_eq!(databases.collect::<Vec<_>>(), [2, 1]);
        assert_eq!(settings.restart_delay, None);
    }

    #[test]
    fn holders_count_on_a_lease_for_shorter_than_nodes_keep_it() {
        for (drift, safely_ms) in [("1%25", 98_999), ("6%25", 93_999), ("50%25", 49_999)] {
            let settings = Settings::parse(&format!("redlock://a?drift={drift}")).unwrap();
            let safely = safe(settings.valid(Duration::from_secs(100)));
            let wanted = Duration::from_millis(safely_ms);
            assert!(
                safely.abs_diff(wanted) < Duration::from_micros(1),
                "{safely:?}"
            );
        }
    }

    #[test]
    fn a_ttl_is_shorter_than_what_a_node_stays_out_for() {
        let longest = |url| Settings::parse(url).unwrap().longest_ttl();
        let delayed = longest("redlock://a?restart_delay=2s");
        assert_eq!(delayed, Duration::from_millis(1999));
        assert!(longest("redlock://a?restart_delay=off") > Duration::from_secs(86400));
    }

    #[test]
    fn nodes_may_be_whole_urls() {
        let url = "redlock://a,rediss://b:6380/3?ca=/x,unix:/run/r.sock";
        let settings = Settings::parse(url).unwrap();
        assert_eq!(places(&settings), ["a:6379", "b:6380", "/run/r.sock"]);
        assert_eq!(settings.nodes[1].access.database, 3);
        assert!(settings.nodes[1].tls.is_some());
        let settings = Settings::parse("redlocks://a,b,redis://c/").unwrap();
        let tls = settings.nodes.iter().map(|node| node.tls.is_some());
        assert_eq!(tls.collect::<Vec<_>>(), [true, true, false]);
    }

    #[test]
    fn what_is_wrong_is_said_without_the_password() {
        let many: Vec<_> = (0..65).map(|node| format!("node{node}")).collect();
        let many = format!("redlock://u:secret@{}", many.join(","));
        for wrong in [
            "redlock:secret",
            "redlock://",
            "redlock://u:secret@a,,b",
            "redlock://u:secret@a,u:secret@a",
            "redlock://u:secret@a/1,b",
            "redlock://u:secret@a?drift=200%25",
            "redlock://u:secret@a?drift=5ms",
            "redlock://u:secret@a?restart_delay=0s",
            "redlock://u:secret@a,b?layout=string",
            "redlock://u:secret@a,b?replicas=1",
            "redlock://u:secret@a,b?unknown=secret",
            "redlock://u:x?secret@a,b",
            "redlock://a,redis+cluster://u:secret@b",
            "redlock://a,redis+sentinel://u:secret@b/m",
            &many,
        ] {
            let error = Settings::parse(wrong).unwrap_err();
            assert!(matches!(error, Error::InvalidUrl { .. }), "{wrong}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_what_to_do() {
        let cases = [
            ("redlock://a?restart_delay=off,b", "behind the last"),
            ("redlock://a,b?restart_delay=none", "or off"),
            ("redlock://a,b?restart_delay=1s&restart_delay=off", "twice"),
            (
                "redlock://a,b?foo=1",
                "known: ca, cert, connect_timeout, db, drift",
            ),
            ("redlock://a,b:port,c", "node 2: a host looks like"),
            (
                "redlock://a,b:7&restart_delay=off",
                "node 2: a host looks like",
            ),
            ("redlock://a,ann@b,c", "node 2: a user needs a password"),
            (
                "redlock://a,b?sentinel_user=x",
                "no option \"sentinel_user\"",
            ),
        ];
        for (url, said) in cases {
            let error = Settings::parse(url).unwrap_err().to_string();
            assert!(error.contains(said), "{url}: {error}");
        }
    }
}

//! Servers that vote, the connections to them, and their clients.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tenure::conformance::Fixture;
use tenure::driver::Driver;
use tenure_testkit::{Fault, Proxy, RedisBuilder, RedisServer, shared};

use crate::{PATIENCE, millis, until};

/// Servers that do not know each other.
#[derive(Debug)]
pub(crate) struct Nodes(pub(crate) Vec<RedisServer>);

impl Nodes {
    pub(crate) fn start(count: usize) -> Self {
        Self::start_as(count, &RedisServer::builder())
    }

    pub(crate) fn start_as(count: usize, builder: &RedisBuilder) -> Self {
        let server = |_| builder.clone().start().unwrap();
        Self((0..count).map(server).collect())
    }

    /// Returns their URL for clients that treat them from the start as servers that never forget.
    pub(crate) fn url(&self) -> String {
        self.url_with("restart_delay=off")
    }

    pub(crate) fn url_with(&self, options: &str) -> String {
        url(self.0.iter().map(RedisServer::port), options)
    }

    /// Returns the key of a name's lease.
    pub(crate) fn key(name: &str) -> String {
        format!("tenure:{{{name}}}")
    }

    /// Returns whether anybody holds a name at a node.
    pub(crate) fn is_taken(&self, node: usize, name: &str) -> bool {
        self.0[node].cli(&["EXISTS", &Self::key(name)]) == "1"
    }

    /// Returns how many places in line a node has for a name.
    pub(crate) fn line(&self, node: usize, name: &str) -> String {
        self.0[node].cli(&["LLEN", &format!("{}:line", Self::key(name))])
    }

    /// Returns the fence with which a name is held at a node, by one claim or by those of one
    /// owner.
    pub(crate) fn fence(&self, node: usize, name: &str) -> Option<u64> {
        let lease = self.0[node].cli(&["HGETALL", &Self::key(name)]);
        let fields: Vec<_> = lease.lines().collect();
        let grant = |mark| fields.iter().position(|field| field.starts_with(mark));
        let grant = grant('\u{2}').or_else(|| grant('\u{1}'))?;
        fields.get(grant + 1)?.split(' ').next()?.parse().ok()
    }

    /// Waits until every node has a name with a fence of at least this.
    pub(crate) async fn until_all_have(&self, name: &str, fence: u64) {
        for node in 0..self.0.len() {
            until(&format!("node {node} to have {name}"), async || {
                // Its own number may be larger.
                self.fence(node, name) >= Some(fence)
            })
            .await;
        }
    }

    /// Waits until nothing is left of any lock at any node except the last fences.
    pub(crate) async fn until_all_empty(&self) {
        self.until_empty_but(0..self.0.len(), "").await;
    }

    /// Waits until no node has a lease.
    ///
    /// A place in line may be left at a node that was frozen for so long that nobody waited for its
    /// reply any more: the next claim removes it.
    pub(crate) async fn until_all_free(&self) {
        for (node, server) in self.0.iter().enumerate() {
            until(&format!("node {node} to have no lease"), async || {
                let keys = server.cli(&["KEYS", "tenure:*"]);
                !keys.lines().any(|key| key.ends_with('}'))
            })
            .await;
        }
    }

    /// Waits until nothing is left at some nodes except the lease of one name and the last fences.
    pub(crate) async fn until_empty_but(&self, nodes: impl IntoIterator<Item = usize>, name: &str) {
        for node in nodes {
            let mut keys = String::new();
            let begun = Instant::now();
            while begun.elapsed() < PATIENCE {
                keys = self.0[node].cli(&["KEYS", "tenure:*"]);
                let is_left = |key: &str| !key.ends_with(":fence") && key != Self::key(name);
                if !keys.lines().any(is_left) {
                    break;
                }
                tokio::time::sleep(millis(2)).await;
            }
            assert!(begun.elapsed() < PATIENCE, "node {node} still has {keys}");
        }
    }
}

/// Nodes that all rules share.
#[derive(Debug)]
pub(crate) struct Shared {
    url: String,
}

impl Shared {
    pub(crate) fn nodes(count: usize) -> Self {
        let options = "restart_delay=off&timeout=20s&connect_timeout=20s";
        Self {
            url: url(shared::redis(count).unwrap().into_iter(), options),
        }
    }
}

#[async_trait]
impl Fixture for Shared {
    async fn client(&self) -> Arc<dyn Driver> {
        tenure::store::redlock::open(&self.url).await.unwrap()
    }

    /// Returns a ttl that is long enough for five servers on a busy machine to reply twice before
    /// its end.
    fn short(&self) -> Duration {
        Duration::from_secs(1)
    }
}

/// The connections of one client to all nodes.
#[derive(Debug)]
pub(crate) struct Wires(pub(crate) Vec<Proxy>);

impl Wires {
    pub(crate) fn to(nodes: &Nodes) -> Self {
        let wire = |server: &RedisServer| Proxy::start(server.port()).unwrap();
        Self(nodes.0.iter().map(wire).collect())
    }

    pub(crate) fn url(&self) -> String {
        self.url_with("restart_delay=off")
    }

    pub(crate) fn url_with(&self, options: &str) -> String {
        url(self.0.iter().map(Proxy::port), options)
    }

    /// Disconnects a client from a node, and does not let it reconnect.
    pub(crate) fn cut_off(&self, node: usize) {
        self.0[node].set(Fault::Refuse);
        self.0[node].cut();
    }
}

/// Returns the URL of some nodes, in this order.
pub(crate) fn url(ports: impl Iterator<Item = u16>, options: &str) -> String {
    let nodes: Vec<_> = ports.map(|port| format!("127.0.0.1:{port}")).collect();
    // Longer than a busy machine needs, unless a test says otherwise.
    let patience = match options.contains("timeout=") {
        true => "",
        false => "timeout=2s&connect_timeout=5s&",
    };
    format!("redlock://{}?{patience}{options}", nodes.join(","))
}

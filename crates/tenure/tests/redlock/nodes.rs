//! Some servers that vote, and clients of them.

use std::sync::Arc;

use async_trait::async_trait;
use tenure::conformance::Fixture;
use tenure::driver::Driver;
use tenure_testkit::RedisServer;

/// Servers that know nothing of each other.
#[derive(Debug)]
pub(crate) struct Nodes(pub(crate) Vec<RedisServer>);

impl Nodes {
    pub(crate) fn start(count: usize) -> Self {
        Self((0..count).map(|_| RedisServer::start().unwrap()).collect())
    }

    /// Where they are, for clients that take them at once for servers that never forget.
    pub(crate) fn url(&self) -> String {
        self.url_with("restart_delay=off")
    }

    pub(crate) fn url_with(&self, options: &str) -> String {
        let nodes: Vec<_> = self
            .0
            .iter()
            .map(|server| format!("127.0.0.1:{}", server.port()))
            .collect();
        format!("redlock://{}?timeout=2s&{options}", nodes.join(","))
    }
}

#[async_trait]
impl Fixture for Nodes {
    async fn client(&self) -> Arc<dyn Driver> {
        tenure::store::redlock::open(&self.url()).await.unwrap()
    }

    fn sees_clients_end(&self) -> bool {
        false
    }
}

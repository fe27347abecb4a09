//! A server of its own for a test, and clients of it.

use std::sync::Arc;

use async_trait::async_trait;
use tenure::conformance::Fixture;
use tenure::driver::Driver;
use tenure_testkit::RedisServer;

/// One server, and how its clients are opened.
#[derive(Debug)]
pub(crate) struct Store {
    _server: RedisServer,
    url: String,
}

impl Store {
    /// Starts a server that stops with the test.
    pub(crate) fn start() -> Self {
        let server = RedisServer::start().unwrap();
        let url = crate::patient(&server.url()) + "&connect_timeout=20s";
        Self {
            _server: server,
            url,
        }
    }
}

#[async_trait]
impl Fixture for Store {
    async fn client(&self) -> Arc<dyn Driver> {
        tenure::store::redis::open(&self.url).await.unwrap()
    }
}

//! A server of its own for a test, and clients of it.

use std::sync::Arc;

use async_trait::async_trait;
use tenure::conformance::Fixture;
use tenure::driver::Driver;
use tenure_testkit::RedisServer;

/// One server, and how its clients are opened.
#[derive(Debug)]
pub(crate) struct Store {
    url: String,
    /// Stops when it is dropped.
    _server: RedisServer,
}

impl Store {
    /// Starts a server that stops with the test.
    #[expect(clippy::unused_async, reason = "the macro of the rules awaits it")]
    pub(crate) async fn start() -> Self {
        let server = RedisServer::start().unwrap();
        Self {
            url: server.url(),
            _server: server,
        }
    }
}

#[async_trait]
impl Fixture for Store {
    async fn client(&self) -> Arc<dyn Driver> {
        tenure::store::redis::open(&self.url).await.unwrap()
    }

    fn sees_clients_end(&self) -> bool {
        false
    }
}

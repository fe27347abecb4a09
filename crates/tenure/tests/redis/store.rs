//! A server for the rules of the contract, and its clients.

use std::sync::Arc;

use async_trait::async_trait;
use tenure::conformance::Fixture;
use tenure::driver::Driver;
use tenure_testkit::shared;

/// The server that all rules share, and how to open its clients.
#[derive(Debug)]
pub(crate) struct Store {
    url: String,
}

impl Store {
    pub(crate) fn shared() -> Self {
        let port = shared::redis(1).unwrap()[0];
        let url = format!("redis://127.0.0.1:{port}/");
        Self {
            url: crate::patient(&url) + "&connect_timeout=20s",
        }
    }
}

#[async_trait]
impl Fixture for Store {
    async fn client(&self) -> Arc<dyn Driver> {
        tenure::store::redis::open(&self.url).await.unwrap()
    }
}

//! ZooKeeper: the contract on a real server, and what only ZooKeeper does.
#![cfg(target_os = "linux")]

mod common;
mod doctor;
mod ensemble;
mod nodes;
mod peers;
mod session;

use std::sync::Arc;

use async_trait::async_trait;
use tenure::conformance::Fixture;
use tenure::driver::Driver;
use tenure_testkit::shared;

mod rules {
    tenure::conformance!(std::future::ready(super::Store::new("")));
}

/// A server that all rules share; its sessions are long enough for the leases that the rules ask for.
struct Store(String);

impl Store {
    fn new(options: &str) -> Self {
        let url = shared::zookeeper().unwrap();
        Self(format!(
            "{url}?session=200s&timeout=20s&connect_timeout=20s{options}"
        ))
    }
}

#[async_trait]
impl Fixture for Store {
    async fn client(&self) -> Arc<dyn Driver> {
        tenure::store::zookeeper::open(&self.0).await.unwrap()
    }
}

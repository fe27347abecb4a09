//! The rules of the contract, kept by the store of one machine.
#![cfg(target_os = "linux")]

use std::future::{Ready, ready};
use std::sync::Arc;

use async_trait::async_trait;
use tempfile::TempDir;
use tenure::conformance::Fixture;
use tenure::driver::Driver;
use tenure::store::local::Local;

mod rules {
    tenure::conformance!(super::open());
}

/// A folder of its own, which is removed with the test.
struct Folder(TempDir);

#[async_trait]
impl Fixture for Folder {
    async fn client(&self) -> Arc<dyn Driver> {
        let client = Local::open(Some(self.0.path())).await;
        Arc::new(client.expect("the folder opens"))
    }
}

fn open() -> Ready<Folder> {
    ready(Folder(tempfile::tempdir().expect("a folder for a test")))
}

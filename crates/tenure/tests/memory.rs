//! The rules of the contract for the memory store.

use std::future::{Ready, ready};
use std::sync::Arc;

use async_trait::async_trait;
use tenure::conformance::Fixture;
use tenure::driver::Driver;
use tenure::store::memory::Memory;

mod rules {
    tenure::conformance!(super::open());
}

struct Store(Memory);

#[async_trait]
impl Fixture for Store {
    async fn client(&self) -> Arc<dyn Driver> {
        Arc::new(self.0.another())
    }
}

fn open() -> Ready<Store> {
    ready(Store(Memory::new()))
}

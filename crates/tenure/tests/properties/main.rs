//! Random sequences of requests get the same answers from a store as from a simple model.

mod model;
mod steps;

use std::sync::Arc;

use async_trait::async_trait;
use proptest::prelude::*;
use tenure::conformance::Fixture;
use tenure::driver::Driver;
use tenure::store::memory::Memory;
use tokio::runtime::{Builder, Runtime};

use crate::steps::{Clock, agrees_with_the_model, steps};

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn memory_agrees_with_the_model_to_the_millisecond(steps in steps(Clock::Paused)) {
        let runtime = runtime(Clock::Paused);
        runtime.block_on(async {
            let store = Store(Memory::new());
            agrees_with_the_model(&store, Clock::Paused, &steps).await;
        });
    }

    #[test]
    fn memory_agrees_with_the_model_on_a_real_clock(steps in steps(Clock::Real)) {
        let runtime = runtime(Clock::Real);
        runtime.block_on(async {
            let store = Store(Memory::new());
            agrees_with_the_model(&store, Clock::Real, &steps).await;
        });
    }
}

struct Store(Memory);

#[async_trait]
impl Fixture for Store {
    async fn client(&self) -> Arc<dyn Driver> {
        Arc::new(self.0.another())
    }
}

fn runtime(clock: Clock) -> Runtime {
    let mut runtime = Builder::new_current_thread();
    runtime.enable_all().start_paused(clock == Clock::Paused);
    runtime.build().expect("a runtime starts")
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        // The shrunken steps are printed, and become a test of their own.
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

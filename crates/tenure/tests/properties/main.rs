//! Random sequences of requests get the same answers from a store as from a simple model.

mod compare;
mod model;
mod named;
mod redis;
mod run;
mod steps;

use std::sync::Arc;

use async_trait::async_trait;
use proptest::prelude::*;
use tenure::driver::Driver;
use tenure::store::memory::Memory;
use tokio::runtime::{Builder, Runtime};

use crate::run::{Subject, agrees_with_the_model};
use crate::steps::{Case, Clock, cases};

proptest! {
    #![proptest_config(config(512))]

    #[test]
    fn memory_agrees_with_the_model_to_the_millisecond(case in cases()) {
        memory_agrees(Clock::Paused, &case);
    }

    #[test]
    fn memory_agrees_with_the_model_on_a_real_clock(case in cases()) {
        memory_agrees(Clock::Real, &case);
    }
}

#[cfg(target_os = "linux")]
proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn local_agrees_with_the_model(case in cases()) {
        local_agrees(&case);
    }
}

fn memory_agrees(clock: Clock, case: &Case) {
    runtime(clock).block_on(async {
        let store = Store(Memory::new());
        agrees_with_the_model(&store, clock, case).await;
    });
}

#[cfg(target_os = "linux")]
fn local_agrees(case: &Case) {
    runtime(Clock::Real).block_on(async {
        let store = Folder(tempfile::tempdir().expect("a folder for a test"));
        agrees_with_the_model(&store, Clock::Real, case).await;
    });
}

struct Store(Memory);

#[async_trait]
impl Subject for Store {
    async fn client(&self) -> Arc<dyn Driver> {
        Arc::new(self.0.another())
    }
}

#[cfg(target_os = "linux")]
struct Folder(tempfile::TempDir);

#[cfg(target_os = "linux")]
#[async_trait]
impl Subject for Folder {
    async fn client(&self) -> Arc<dyn Driver> {
        let client = tenure::store::local::Local::open(Some(self.0.path())).await;
        Arc::new(client.expect("the folder opens"))
    }
}

fn runtime(clock: Clock) -> Runtime {
    let mut runtime = Builder::new_current_thread();
    runtime.enable_all().start_paused(clock == Clock::Paused);
    runtime.build().expect("a runtime starts")
}

/// Returns a configuration with this many cases, or as many as `PROPTEST_CASES` says.
fn config(cases: u32) -> ProptestConfig {
    let default = ProptestConfig::default();
    let is_told = std::env::var_os("PROPTEST_CASES").is_some();
    ProptestConfig {
        cases: if is_told { default.cases } else { cases },
        // The shrunken steps are printed, and become a separate test.
        failure_persistence: None,
        // A store with its own clock takes long to fail.
        max_shrink_time: 60_000,
        ..default
    }
}

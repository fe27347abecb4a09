//! Random sequences of requests get the same answers from a store as from a simple model.

mod compare;
mod model;
mod redis;
mod run;
mod steps;

use std::sync::Arc;

use async_trait::async_trait;
use proptest::prelude::*;
use tenure::conformance::Fixture;
use tenure::driver::{Driver, Life, Mode, Wait};
use tenure::store::memory::Memory;
use tokio::runtime::{Builder, Runtime};

use crate::model::{Ask, Which};
use crate::run::{Subject, agrees_with_the_model};
use crate::steps::{Clock, Pick, Step, steps};

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

#[cfg(target_os = "linux")]
proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn local_agrees_with_the_model(steps in steps(Clock::Real)) {
        let runtime = runtime(Clock::Real);
        runtime.block_on(async {
            let store = Folder(tempfile::tempdir().expect("a folder for a test"));
            agrees_with_the_model(&store, Clock::Real, &steps).await;
        });
    }
}

/// A client waits to write, and reads instead because its owner reads in another client: the place
/// in line must not be granted after both have let go. Random steps seldom get there.
#[tokio::test(start_paused = true)]
async fn entering_again_gives_up_the_place_in_line() {
    let ask = |client, owner, mode| Ask {
        client,
        name: 0,
        owner,
        mode,
        ttl: 1_000,
        depth: 1,
        wait: Wait::InLine,
        life: Life::Client,
        fences: 1,
        tells: true,
        pid: 0,
    };
    let release = |client, owner| Step::Release {
        which: Which {
            client,
            name: 0,
            owner,
            life: Life::Client,
            fence: None,
        },
        pick: Pick::Any,
        depth: 0,
        keep: 0,
    };
    let steps = [
        Step::Acquire(ask(0, 0, Mode::Exclusive)),
        Step::Acquire(ask(1, 1, Mode::Shared)),
        Step::Acquire(ask(2, 1, Mode::Exclusive)),
        release(0, 0),
        Step::Acquire(ask(2, 1, Mode::Shared)),
        release(1, 1),
        release(2, 1),
    ];
    let store = Store(Memory::new());
    agrees_with_the_model(&store, Clock::Paused, &steps).await;
}

struct Store(Memory);

#[async_trait]
impl Fixture for Store {
    async fn client(&self) -> Arc<dyn Driver> {
        Arc::new(self.0.another())
    }
}

impl Subject for Store {}

#[cfg(target_os = "linux")]
struct Folder(tempfile::TempDir);

#[cfg(target_os = "linux")]
#[async_trait]
impl Fixture for Folder {
    async fn client(&self) -> Arc<dyn Driver> {
        let client = tenure::store::local::Local::open(Some(self.0.path())).await;
        Arc::new(client.expect("the folder opens"))
    }
}

#[cfg(target_os = "linux")]
impl Subject for Folder {}

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

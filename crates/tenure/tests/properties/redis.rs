//! The same random requests, decided by the scripts on a real server.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use proptest::test_runner::TestRunner;
use tenure::driver::Driver;
use tenure_testkit::RedisServer;
use tokio::time::{Instant, sleep};

use crate::model::Ends;
use crate::run::{Subject, agrees_with_the_model};
use crate::steps::{Case, Clock, cases};

#[test]
fn redis_agrees_with_the_model() {
    let store = Store(RedisServer::start().unwrap());
    let mut runner = TestRunner::new(super::config(CASES));
    let result = runner.run(&cases(), |case| {
        // What the previous case left is useless, and would slow down each end of a client.
        store.0.cli(&["FLUSHALL"]);
        let runtime = super::runtime(Clock::Moved);
        runtime.block_on(agrees_with_the_model(&store, Clock::Moved, &case));
        Ok(())
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
}

/// Runs a case on a separate server.
pub(crate) fn redis_agrees(case: &Case) {
    let store = Store(RedisServer::start().unwrap());
    super::runtime(Clock::Moved).block_on(agrees_with_the_model(&store, Clock::Moved, case));
}

/// One server for all cases.
struct Store(RedisServer);

#[async_trait]
impl Subject for Store {
    async fn client(&self) -> Arc<dyn Driver> {
        let opened = tenure::store::redis::open(&self.0.url()).await;
        opened.expect("the server answers")
    }

    async fn pass(&self, time: Duration) {
        let time_ms = time.as_millis().to_string();
        self.0.cli(&["EVAL", PASS, "0", &time_ms]);
    }

    async fn is_left_with(&self, clients: usize) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while self.0.cli(&["PUBSUB", "CHANNELS"]).lines().count() != clients {
            assert!(Instant::now() < deadline, "an ended client is still heard");
            sleep(Duration::from_millis(1)).await;
        }
    }

    fn ends(&self) -> Ends {
        // A server notices neither the end of a client nor, before its deadline, the end of a
        // place.
        Ends::PassedOver
    }
}

/// This many random cases take about 10 seconds.
const CASES: u32 = 64;

/// Moves all times except the deadlines of places into the past: the model's waiters live for ever,
/// and nobody in a case asks again only to show that it is alive.
const PASS: &str = include_str!("pass.lua");

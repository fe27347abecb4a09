//! A store that does not answer is not mistaken for a lock that others hold.

use std::sync::Arc;
use std::time::Duration;

use tenure::conformance::faults::{Fault, FaultyDriver, Request};
use tenure::driver::Loss;
use tenure::store::memory::Memory;
use tenure::{Client, Error, Health};
use tokio::runtime::Builder;
use tokio::time::timeout;

use crate::{World, millis, secs};

/// Longer than any test waits.
const NEVER: Duration = Duration::from_secs(100_000);

fn is_outage(error: &Error) -> bool {
    matches!(error, Error::Indeterminate { .. })
}

#[tokio::test(start_paused = true)]
async fn a_store_that_never_answers_is_not_a_lock_that_is_taken() {
    let world = World::new();
    world
        .fault
        .always(Request::Acquire, Fault::LateAnswer(NEVER));
    let lock = world.here.mutex("a");
    let first = async { lock.lock_timeout(secs(5)).await.unwrap_err() };
    let second = async { lock.lock_timeout(secs(6)).await.unwrap_err() };
    let (first, second) = tokio::join!(first, second);
    assert!(is_outage(&first), "{first:?}");
    assert!(is_outage(&second), "{second:?}: it stood behind the first");
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_before_an_answer_can_be_expected_has_not_seen_an_outage() {
    let world = World::new();
    world
        .fault
        .always(Request::Acquire, Fault::LateAnswer(NEVER));
    let error = world.here.mutex("a").lock_timeout(millis(99)).await;
    let error = error.map(drop).unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn an_outage_that_begins_in_line_is_told_with_its_reason() {
    let world = World::new();
    let held = world.there.mutex("a").ttl(secs(20)).lock().await.unwrap();
    let lock = world.here.mutex("a").ttl(secs(3600));
    let waiting = tokio::spawn(async move { lock.lock_timeout(secs(60)).await });
    tokio::time::sleep(secs(1)).await;
    world.fault.always(Request::Acquire, Fault::Refuse);
    let error = waiting.await.unwrap().unwrap_err();
    assert!(is_outage(&error), "{error:?}");
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_falls_silent_during_a_wait_is_not_a_lock_that_is_taken() {
    let world = World::new();
    let held = world.there.mutex("a").ttl(secs(3600)).lock().await.unwrap();
    for (patience, trouble) in [
        (millis(500), Fault::LateAnswer(NEVER)),
        (secs(60), Fault::LateAnswer(NEVER)),
        (secs(60), Fault::LateRequest(NEVER)),
        (secs(60), Fault::Refuse),
    ] {
        world.fault.heal();
        let lock = world.here.mutex("a").ttl(secs(3600));
        let waiting = tokio::spawn(async move { lock.lock_timeout(patience).await });
        tokio::time::sleep(millis(100)).await;
        world.fault.always(Request::Acquire, trouble);
        let error = waiting.await.unwrap().unwrap_err();
        assert!(is_outage(&error), "{patience:?}, {trouble:?}: {error:?}");
    }
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_others_hold_times_out_also_after_an_outage() {
    let world = World::new();
    let held = world.there.mutex("a").ttl(secs(20)).lock().await.unwrap();
    let lock = world.here.mutex("a").ttl(secs(3600));
    let waiting = tokio::spawn(async move { lock.lock_timeout(secs(60)).await });
    tokio::time::sleep(secs(1)).await;
    world.fault.next(Request::Acquire, Fault::Refuse, 3);
    let error = waiting.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error:?}");
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn a_lease_whose_renewal_gets_no_answer_is_lost_to_the_outage() {
    let world = World::new();
    let guard = world.here.mutex("a").ttl(secs(3)).lock().await.unwrap();
    world.fault.always(Request::Renew, Fault::LateAnswer(NEVER));
    assert_eq!(guard.lost().await, Loss::Unreachable);
    assert_eq!(guard.health(), Health::Lost(Loss::Unreachable));
    let failure = guard.renewal_failure().unwrap();
    assert_eq!(failure.reason, "the store has not answered");
    assert!(failure.lasts > secs(1), "{failure:?}");
}

/// The runtime of the client ends while a task on another runtime waits.
#[test]
fn who_waits_for_a_client_whose_runtime_has_ended_is_told() {
    let own = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    let own = own.unwrap();
    let client = own.block_on(tenure::open("memory:ended")).unwrap();
    let another = Builder::new_current_thread().enable_all().build().unwrap();
    another.block_on(async {
        let others = tenure::open("memory:ended").await.unwrap();
        let _held = others.mutex("a").lock().await.unwrap();
        let lock = client.mutex("a");
        let waiting = tokio::spawn(async move { lock.lock().await });
        let name = "a".parse().unwrap();
        while others.list(Some(&name)).await.unwrap()[0]
            .waiters
            .is_empty()
        {
            tokio::task::yield_now().await;
        }
        own.shutdown_background();
        let told = timeout(secs(60), waiting).await.expect("it hangs");
        let error = told.unwrap().unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    });
}

/// The runtime of the client ends while the first request for a name is in flight.
#[test]
fn who_waits_behind_a_request_that_its_runtime_took_along_is_told() {
    let own = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    let own = own.unwrap();
    let driver = Arc::new(FaultyDriver::around(Arc::new(Memory::new())));
    driver.always(Request::Acquire, Fault::LateRequest(secs(3600)));
    let client = {
        let _context = own.enter();
        Client::with_driver(Arc::<FaultyDriver>::clone(&driver))
    };
    let first = client.mutex("a");
    own.spawn(async move { first.lock().await });
    let another = Builder::new_current_thread().enable_all().build().unwrap();
    another.block_on(async {
        while driver.requests(Request::Acquire) == 0 {
            tokio::task::yield_now().await;
        }
        let second = client.mutex("a");
        let waiting = tokio::spawn(async move { second.lock().await });
        tokio::task::yield_now().await;
        own.shutdown_background();
        let told = timeout(secs(60), waiting).await.expect("it hangs");
        let error = told.unwrap().unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    });
}

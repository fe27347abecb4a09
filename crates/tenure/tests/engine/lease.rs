//! A lease counts from before its request was sent, and its loss is reported before others can get
//! it.

use tenure::conformance::faults::{Fault, Request};
use tenure::{Health, Loss};
use tokio::time::{Instant, sleep, timeout};

use crate::{World, millis, secs};

#[tokio::test(start_paused = true)]
async fn a_slow_answer_counts_against_the_lease() {
    let world = World::new();
    world
        .fault
        .next(Request::Acquire, Fault::LateAnswer(secs(8)), 1);
    world.fault.always(Request::Renew, Fault::Refuse);
    let guard = world.here.mutex("a").ttl(secs(10)).lock().await.unwrap();
    assert_eq!(guard.health(), Health::AtRisk, "two seconds are left");
    let told = Instant::now();
    guard.lost().await;
    assert!(
        told.elapsed() < secs(2),
        "told {:?} after a grant with 2 s left",
        told.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn loss_is_told_before_another_can_hold_the_lock() {
    for ttl in [millis(100), secs(1), secs(30)] {
        let world = World::new();
        let guard = world.here.mutex("a").ttl(ttl).lock().await.unwrap();
        world.fault.always(Request::Renew, Fault::Refuse);
        let there = world.there.clone();
        let other = tokio::spawn(async move {
            let guard = there.mutex("a").ttl(secs(30)).lock().await.unwrap();
            (Instant::now(), guard)
        });
        let loss = guard.lost().await;
        let told = Instant::now();
        assert_eq!(loss, Loss::Unreachable);
        assert_eq!(guard.health(), Health::Lost(Loss::Unreachable));
        let failure = guard.renewal_failure().unwrap();
        assert!(failure.lasts > ttl / 2, "{failure:?}");
        assert!(!failure.reason.is_empty());
        let (granted, _other) = other.await.unwrap();
        assert!(
            told < granted,
            "ttl {ttl:?}: told {told:?}, granted {granted:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_by_hand_over_counts_from_the_hand_over() {
    let world = World::new();
    let first = world.there.mutex("a").lock().await.unwrap();
    let here = world.here.clone();
    let second = tokio::spawn(async move { here.mutex("a").ttl(secs(9)).lock().await.unwrap() });
    world.until_waiting("a", 1).await;
    sleep(secs(60)).await;
    first.release().await.unwrap();
    world.fault.always(Request::Renew, Fault::Refuse);
    let guard = second.await.unwrap();
    assert_eq!(guard.health(), Health::Held);
    let told = timeout(millis(8500), guard.lost()).await;
    assert!(told.is_err(), "a fresh grant was given up early");
    guard.lost().await;
}

#[tokio::test(start_paused = true)]
async fn health_goes_from_held_to_at_risk_to_lost() {
    let world = World::new();
    let guard = world.here.mutex("a").ttl(secs(10)).lock().await.unwrap();
    assert_eq!(guard.health(), Health::Held);
    world.fault.always(Request::Renew, Fault::Refuse);
    sleep(secs(6)).await;
    assert_eq!(guard.health(), Health::AtRisk);
    sleep(secs(4)).await;
    assert!(matches!(guard.health(), Health::Lost(_)));
}

#[tokio::test(start_paused = true)]
async fn an_evicted_holder_is_told_why() {
    let world = World::new();
    let guard = world.here.mutex("a").lock().await.unwrap();
    let evicted = world.there.evict(guard.name()).await.unwrap();
    assert_eq!(evicted.len(), 1);
    assert_eq!(guard.lost().await, Loss::Evicted);
    let next = world.there.mutex("a").try_lock().await.unwrap().unwrap();
    assert!(next.fence() > guard.fence());
}

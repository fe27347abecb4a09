//! One batched watchdog: renews in time, never outlives a guard, recovers, honours `max_hold`.

use std::time::Duration;

use tenure::conformance::faults::{Fault, Request};
use tenure::{Health, Loss};
use tokio::time::{Instant, sleep, timeout};

use crate::{World, millis, secs};

#[tokio::test(start_paused = true)]
async fn a_live_holder_keeps_its_lock_for_many_ttls() {
    let world = World::new();
    let guard = world.here.mutex("a").ttl(secs(3)).lock().await.unwrap();
    assert!(timeout(secs(300), guard.lost()).await.is_err());
    assert_eq!(guard.health(), Health::Held);
    assert!(world.there.mutex("a").try_lock().await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn renews_at_a_third_of_the_ttl() {
    let world = World::new();
    let _guard = world.here.mutex("a").ttl(secs(30)).lock().await.unwrap();
    sleep(secs(300)).await;
    let renewals = world.fault.requests(Request::Renew);
    assert!(
        (28..=36).contains(&renewals),
        "{renewals} renewals in ten ttls"
    );
}

#[tokio::test(start_paused = true)]
async fn many_leases_are_renewed_by_few_requests() {
    let world = World::new();
    let mut guards = Vec::new();
    for number in 0..500 {
        guards.push(
            world
                .here
                .mutex(&format!("name {number}"))
                .lock()
                .await
                .unwrap(),
        );
    }
    sleep(secs(60)).await;
    let renewals = world.fault.requests(Request::Renew);
    assert!(
        (5..=10).contains(&renewals),
        "{renewals} requests for 500 leases in two ttls"
    );
    assert!(guards.iter().all(|guard| guard.health() == Health::Held));
}

#[tokio::test(start_paused = true)]
async fn never_renews_after_a_release() {
    let world = World::new();
    for _ in 0..100 {
        let guard = world.here.mutex("a").ttl(secs(1)).lock().await.unwrap();
        guard.release().await.unwrap();
    }
    drop(world.here.mutex("b").ttl(secs(1)).lock().await.unwrap());
    sleep(secs(60)).await;
    assert_eq!(world.fault.requests(Request::Renew), 0);
}

#[tokio::test(start_paused = true)]
async fn ends_with_the_task_that_panicked() {
    let world = World::new();
    let here = world.here.clone();
    let holder = tokio::spawn(async move {
        let _guard = here.mutex("a").ttl(secs(3600)).lock().await.unwrap();
        panic!("on purpose");
    });
    assert!(holder.await.is_err());
    world.assert_nothing_left("the task is gone").await;
}

#[tokio::test(start_paused = true)]
async fn recovers_after_an_outage_shorter_than_the_lease() {
    let world = World::new();
    let guard = world.here.mutex("a").ttl(secs(30)).lock().await.unwrap();
    for _ in 0..5 {
        world.fault.always(Request::Renew, Fault::Refuse);
        sleep(secs(18)).await;
        world.fault.heal();
        sleep(secs(60)).await;
        assert_eq!(guard.health(), Health::Held);
    }
}

#[tokio::test(start_paused = true)]
async fn renews_again_after_an_outage_longer_than_the_lease() {
    let world = World::new();
    let lost = world.here.mutex("a").ttl(secs(3)).lock().await.unwrap();
    world.fault.always(Request::Renew, Fault::Refuse);
    lost.lost().await;
    sleep(secs(9)).await;
    world.fault.heal();
    let again = world.here.mutex("a").ttl(secs(3)).lock().await.unwrap();
    assert!(again.fence() > lost.fence());
    assert!(timeout(secs(30), again.lost()).await.is_err());
    drop(lost);
    sleep(secs(1)).await;
    assert_eq!(
        again.health(),
        Health::Held,
        "an old guard does not touch a new grant"
    );
    assert_eq!(world.holders("a").await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_hangs_does_not_delay_the_loss() {
    let world = World::new();
    let guard = world.here.mutex("a").ttl(secs(3)).lock().await.unwrap();
    world
        .fault
        .always(Request::Renew, Fault::LateRequest(secs(3600)));
    let told = Instant::now();
    guard.lost().await;
    assert!(told.elapsed() < secs(3), "told after {:?}", told.elapsed());
}

#[tokio::test(start_paused = true)]
async fn stops_at_max_hold() {
    let world = World::new();
    let lock = world.here.mutex("a").ttl(secs(3)).max_hold(secs(10));
    let guard = lock.lock().await.unwrap();
    let granted = Instant::now();
    assert_eq!(guard.lost().await, Loss::MaxHold);
    let told = granted.elapsed();
    assert!(
        (millis(9800)..secs(10)).contains(&told),
        "told after {told:?}"
    );
    let next = world.there.mutex("a").lock().await.unwrap();
    let waited = granted.elapsed();
    assert!(
        (secs(10)..secs(11)).contains(&waited),
        "next after {waited:?}"
    );
    drop(next);
}

#[tokio::test(start_paused = true)]
async fn a_short_max_hold_is_told_as_such() {
    let world = World::new();
    for longest in [millis(10), millis(50), millis(99)] {
        let guard = world
            .here
            .mutex("a")
            .max_hold(longest)
            .lock()
            .await
            .unwrap();
        assert_eq!(guard.lost().await, Loss::MaxHold, "{longest:?}");
        guard.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_max_hold_shorter_than_the_ttl_ends_the_lease_in_the_store() {
    let world = World::new();
    let lock = world.here.mutex("a").ttl(secs(3600)).max_hold(secs(2));
    let guard = lock.lock().await.unwrap();
    let granted = Instant::now();
    let next = world.there.mutex("a").lock().await.unwrap();
    assert!(granted.elapsed() < Duration::from_secs(3));
    assert_eq!(guard.health(), Health::Lost(Loss::MaxHold));
    drop(next);
}

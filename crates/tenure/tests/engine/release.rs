//! A release reports its outcome, keeps what it was told to keep, and works on drop.

use tenure::conformance::faults::{Fault, Request};
use tenure::{ClaimId, Loss, Outcome};
use tokio::time::{Instant, sleep};

use crate::{World, millis, secs};

#[tokio::test(start_paused = true)]
async fn a_dropped_guard_lets_the_next_in() {
    let world = World::new();
    let guard = world.here.mutex("a").ttl(secs(3600)).lock().await.unwrap();
    drop(guard);
    world
        .there
        .mutex("a")
        .lock_timeout(secs(1))
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    world.assert_nothing_left("all let go").await;
}

#[tokio::test(start_paused = true)]
async fn a_release_after_the_loss_says_why() {
    let world = World::new();
    let guard = world.here.mutex("a").lock().await.unwrap();
    world.there.evict(guard.name()).await.unwrap();
    guard.lost().await;
    assert_eq!(
        guard.release().await.unwrap(),
        Outcome::NotHeld(Loss::Evicted)
    );
}

#[tokio::test(start_paused = true)]
async fn at_least_keeps_the_name_taken_after_the_release() {
    let world = World::new();
    let start = Instant::now();
    let guard = world
        .here
        .mutex("a")
        .ttl(secs(30))
        .at_least(secs(5))
        .lock()
        .await
        .unwrap();
    let there = world.there.clone();
    let next = tokio::spawn(async move { there.mutex("a").lock().await.unwrap() });
    world.until_waiting("a", 1).await;
    sleep(secs(1)).await;
    guard.release().await.unwrap();
    let next = next.await.unwrap();
    let waited = start.elapsed();
    assert!(
        (secs(5)..millis(5500)).contains(&waited),
        "next after {waited:?}"
    );
    drop(next);
    world.assert_nothing_left("all let go").await;
}

#[tokio::test(start_paused = true)]
async fn at_least_does_not_prolong_a_longer_hold() {
    let world = World::new();
    let guard = world
        .here
        .mutex("a")
        .at_least(secs(5))
        .lock()
        .await
        .unwrap();
    sleep(secs(6)).await;
    guard.release().await.unwrap();
    assert!(world.is_empty().await);
}

#[tokio::test(start_paused = true)]
async fn a_lease_by_hand_outlives_its_client_and_is_released_by_its_owner_alone() {
    let world = World::new();
    let lease = world.here.mutex("a").ttl(secs(60)).lease().await.unwrap();
    sleep(secs(30)).await;
    assert!(!world.is_empty().await);
    let mut stranger = lease.clone();
    stranger.claim = ClaimId::unique();
    let refused = world.there.release(&stranger).await.unwrap();
    assert_eq!(refused, Outcome::NotHeld(Loss::TakenOver));
    let mut endless = lease.clone();
    endless.ttl = std::time::Duration::MAX;
    assert!(
        world.there.renew(&endless).await.is_err(),
        "no ttl is longer than a year"
    );
    assert!(world.there.renew(&lease).await.unwrap().fence().is_some());
    sleep(secs(50)).await;
    assert_eq!(
        world.there.release(&lease).await.unwrap(),
        Outcome::Released
    );
    assert!(world.there.renew(&lease).await.unwrap().fence().is_none());
    assert!(world.is_empty().await);
}

#[tokio::test(start_paused = true)]
async fn a_lease_by_hand_ends_by_its_ttl() {
    let world = World::new();
    let lease = world
        .here
        .mutex("a")
        .ttl(secs(5))
        .try_lease()
        .await
        .unwrap()
        .unwrap();
    assert!(world.here.mutex("a").try_lease().await.unwrap().is_none());
    sleep(secs(6)).await;
    assert!(
        world.there.renew(&lease).await.unwrap().fence().is_none(),
        "it is not revived"
    );
    assert!(world.there.mutex("a").try_lock().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn settled_waits_for_what_was_dropped_and_given_up() {
    let world = World::new();
    for call in [Request::Release, Request::Withdraw, Request::Acquire] {
        world.fault.always(call, Fault::LateRequest(secs(1)));
    }
    let guard = world.here.mutex("a").ttl(secs(60)).lock().await.unwrap();
    let there = world.there.mutex("b").lock().await.unwrap();
    world
        .here
        .mutex("b")
        .lock_timeout(secs(3))
        .await
        .unwrap_err();
    world
        .here
        .mutex("c")
        .lock_timeout(millis(3))
        .await
        .unwrap_err();
    drop(guard);
    world.here.settled().await;
    there.release().await.unwrap();
    assert!(world.is_empty().await);
}

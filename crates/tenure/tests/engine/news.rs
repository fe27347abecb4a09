//! News may be late, outdated or repeated: the engine trusts it only as far as it is certain.

use tenure::conformance::faults::{Fault, Request};
use tenure::driver::{Grant, News};
use tenure::{Health, Loss, Outcome, Owner};
use tokio::time::{sleep, timeout};

use crate::{World, millis, secs};

#[tokio::test(start_paused = true)]
async fn a_grant_that_is_half_over_is_renewed_before_it_is_used() {
    for delay in [secs(6), secs(9), secs(15)] {
        let world = World::new();
        let first = world.there.mutex("a").lock().await.unwrap();
        let here = world.here.clone();
        let second = tokio::spawn(async move {
            let guard = here.mutex("a").ttl(secs(10)).lock().await.unwrap();
            (guard.health(), guard)
        });
        world.until_waiting("a", 1).await;
        world.fault.delay_news(delay);
        first.release().await.unwrap();
        let (health, guard) = timeout(secs(60), second).await.expect("granted").unwrap();
        assert_eq!(health, Health::Held, "news {delay:?} late");
        assert_eq!(world.holders("a").await, 1);
        drop(guard);
        world.assert_nothing_left("after late news").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_to_ask_again_while_a_request_is_out_is_not_forgotten() {
    for only in [None, Some("a".parse().unwrap())] {
        let world = World::new();
        let _held = world.there.mutex("a").ttl(secs(3600)).lock().await.unwrap();
        world
            .fault
            .next(Request::Acquire, Fault::LateAnswer(secs(5)), 1);
        let waiting = world.here.mutex("a");
        let waiting = tokio::spawn(async move { waiting.lock().await });
        world.until_waiting("a", 1).await;
        // It was sent after the store's reply, and overtakes the reply.
        world.fault.tell(News::AskAgain(only));
        sleep(secs(4)).await;
        assert_eq!(world.fault.requests(Request::Acquire), 1);
        sleep(secs(4)).await;
        assert_eq!(world.fault.requests(Request::Acquire), 2);
        waiting.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_of_an_earlier_claim_is_not_taken_for_a_later_one() {
    let world = World::new();
    let lock = world.here.mutex("a").owner(Owner::named("job").unwrap());
    let first = world.there.mutex("a").lock().await.unwrap();
    let waiting = lock.clone();
    let given_up = tokio::spawn(async move { timeout(secs(3), waiting.lock()).await });
    world.until_waiting("a", 1).await;
    world.fault.delay_news(secs(5));
    first.release().await.unwrap();
    assert!(given_up.await.unwrap().is_err());
    world.here.settled().await;
    let other = world.there.mutex("a").lock().await.unwrap();
    let again = tokio::spawn(async move { lock.lock().await.unwrap() });
    world.until_waiting("a", 1).await;
    sleep(secs(6)).await;
    assert!(!again.is_finished(), "old news is not believed");
    world.fault.heal();
    other.release().await.unwrap();
    let guard = timeout(secs(10), again).await.expect("granted").unwrap();
    assert_eq!(guard.health(), Health::Held);
}

#[tokio::test(start_paused = true)]
async fn the_loss_of_an_earlier_lease_does_not_end_a_later_one() {
    let world = World::new();
    let lock = world.here.mutex("a").owner(Owner::named("job").unwrap());
    let old = lock.lock().await.unwrap();
    world.fault.delay_news(secs(5));
    world.there.evict(old.name()).await.unwrap();
    let _ = old.release().await.unwrap();
    let new = lock.lock().await.unwrap();
    assert!(
        timeout(secs(20), new.lost()).await.is_err(),
        "told of the old lease's loss"
    );
    assert_eq!(new.health(), Health::Held);
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_nobody_waits_for_any_more_is_freed() {
    let world = World::new();
    let first = world.there.mutex("a").lock().await.unwrap();
    world.fault.delay_news(millis(100));
    for _ in 0..3 {
        let here = world.here.clone();
        tokio::spawn(async move { here.mutex("a").lock_timeout(millis(50)).await.is_err() })
            .await
            .unwrap();
    }
    first.release().await.unwrap();
    world.assert_nothing_left("nobody waits").await;
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_is_told_while_it_is_released_is_not_taken_for_a_stray_one() {
    let world = World::new();
    let guard = world.here.mutex("a").lock().await.unwrap();
    let told = News::Granted {
        name: guard.name().clone(),
        claim: world.claim("a").await,
        grant: Grant::new(guard.fence(), secs(30)),
        after: millis(0),
    };
    let late = Fault::LateRequest(millis(100));
    world.fault.next(Request::Release, late, 1);
    let released = tokio::spawn(guard.release());
    sleep(millis(10)).await;
    world.fault.tell(told);
    assert_eq!(released.await.unwrap().unwrap(), Outcome::Released);
    assert_eq!(world.fault.requests(Request::Release), 1);
}

#[tokio::test(start_paused = true)]
async fn an_eviction_that_overtakes_the_grant_is_heard() {
    let world = World::new();
    world
        .fault
        .next(Request::Acquire, Fault::LateAnswer(secs(1)), 1);
    let here = world.here.clone();
    let locked = tokio::spawn(async move { here.mutex("a").lock().await.unwrap() });
    sleep(millis(10)).await;
    world.there.evict("a").await.unwrap();
    let guard = locked.await.unwrap();
    assert_eq!(guard.health(), Health::Lost(Loss::Evicted));
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_was_evicted_while_it_was_asked_for_again_is_not_served() {
    let world = World::new();
    let held = world.there.mutex("a").lock().await.unwrap();
    let here = world.here.clone();
    let waiting = tokio::spawn(async move { here.mutex("a").lock().await.unwrap() });
    world.until_waiting("a", 1).await;
    world
        .fault
        .next(Request::Acquire, Fault::LateRequest(secs(1)), 1);
    world.fault.tell(News::AskAgain(None));
    sleep(millis(10)).await;
    held.release().await.unwrap();
    world.there.evict("a").await.unwrap();
    let next = world.there.mutex("a").lock().await.unwrap();
    sleep(secs(10)).await;
    assert!(!waiting.is_finished(), "two holders at once");
    next.release().await.unwrap();
    let guard = timeout(secs(1), waiting).await.expect("its turn").unwrap();
    assert_eq!(guard.health(), Health::Held);
}

#[tokio::test(start_paused = true)]
async fn late_news_of_a_lease_by_hand_does_not_free_it() {
    let world = World::new();
    let lease = world.here.mutex("a").lease().await.unwrap();
    world.fault.tell(News::Granted {
        name: lease.name.clone(),
        claim: lease.claim.clone(),
        grant: Grant::new(lease.fence.unwrap(), lease.ttl),
        after: millis(0),
    });
    sleep(secs(1)).await;
    world.here.settled().await;
    assert_eq!(world.holders("a").await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_grant_to_a_place_that_could_not_be_withdrawn_is_freed() {
    let world = World::new();
    let first = world.there.mutex("a").lock().await.unwrap();
    world.fault.always(Request::Withdraw, Fault::Refuse);
    let given_up = world
        .here
        .mutex("a")
        .ttl(secs(60))
        .lock_timeout(secs(1))
        .await;
    assert!(given_up.is_err());
    timeout(secs(600), world.here.settled())
        .await
        .expect("the undo is given up");
    first.release().await.unwrap();
    let next = world.there.mutex("a").lock_timeout(secs(5)).await;
    assert!(next.is_ok(), "the stray grant was not given back");
}

#[tokio::test(start_paused = true)]
async fn who_may_have_missed_news_asks_about_everything() {
    let world = World::new();
    let guard = world.here.mutex("a").lock().await.unwrap();
    let held = world.there.mutex("b").lock().await.unwrap();
    let here = world.here.clone();
    let waiter = tokio::spawn(async move { here.mutex("b").lock().await.unwrap() });
    world.until_waiting("b", 1).await;
    world.fault.delay_news(secs(3600));
    world.there.evict(guard.name()).await.unwrap();
    held.release().await.unwrap();
    sleep(millis(10)).await;
    world.fault.tell(News::AskAgain(None));
    assert!(
        timeout(secs(1), guard.lost()).await.is_ok(),
        "the loss is found out"
    );
    assert!(
        timeout(secs(1), waiter).await.is_ok(),
        "the grant is found out"
    );
}

#[tokio::test(start_paused = true)]
async fn an_idle_waiter_asks_only_when_a_lease_may_end() {
    let world = World::new();
    let _held = world.there.mutex("a").ttl(secs(30)).lock().await.unwrap();
    let mut waiters = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let here = world.here.clone();
        waiters.spawn(async move { here.mutex("a").lock().await });
    }
    world.until_waiting("a", 1).await;
    let before = world.fault.requests(Request::Acquire);
    sleep(secs(300)).await;
    let asked = world.fault.requests(Request::Acquire) - before;
    assert!(asked <= 20, "{asked} requests in 300 s for 200 waiters");
}

#[tokio::test(start_paused = true)]
async fn a_grant_whose_message_is_lost_is_found_before_a_limited_wait_is_over() {
    let world = World::new();
    let held = world.there.mutex("a").ttl(secs(3600)).lock().await.unwrap();
    let lock = world.here.mutex("a").ttl(secs(3600));
    let waiting = tokio::spawn(async move { lock.lock_timeout(secs(3)).await });
    world.until_waiting("a", 1).await;
    world.fault.delay_news(secs(10_000));
    held.release().await.unwrap();
    assert!(waiting.await.unwrap().is_ok());
}

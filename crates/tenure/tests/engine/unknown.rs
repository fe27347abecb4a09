//! After an unknown outcome the engine retries or cleans up; it never guesses.

use tenure::Error;
use tenure::conformance::faults::{Fault, Request};
use tenure::{Outcome, Owner};

use crate::{World, secs};

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_asked_for_again_and_counts_once() {
    let world = World::new();
    world.fault.next(Request::Acquire, Fault::LoseAnswer, 2);
    let guard = world.here.mutex("a").lock().await.unwrap();
    assert_eq!(world.holders("a").await, 1);
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    world.assert_nothing_left("one release frees it").await;
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_stays_unknown_is_undone() {
    for attempt in ["lock", "try_lock"] {
        let world = World::new();
        world.fault.always(Request::Acquire, Fault::LoseAnswer);
        let lock = world.here.mutex("a").ttl(secs(3600));
        let error = match attempt {
            "lock" => lock.lock().await.map(drop).unwrap_err(),
            _ => lock.try_lock().await.map(drop).unwrap_err(),
        };
        assert!(matches!(error, Error::Indeterminate { .. }), "{error:?}");
        world.assert_nothing_left(attempt).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_is_undone_also_if_the_next_try_fails_cleanly() {
    let world = World::new();
    world.fault.next(Request::Acquire, Fault::LoseAnswer, 1);
    world.fault.always(Request::Acquire, Fault::Refuse);
    let error = world
        .here
        .mutex("a")
        .ttl(secs(3600))
        .lock()
        .await
        .unwrap_err();
    // The last attempt changed nothing, but the first one may have.
    assert!(matches!(error, Error::Indeterminate { .. }), "{error:?}");
    world
        .assert_nothing_left("the first try had taken effect")
        .await;
}

#[tokio::test(start_paused = true)]
async fn the_undo_of_an_unknown_outcome_survives_an_outage() {
    let world = World::new();
    world.fault.always(Request::Acquire, Fault::LoseAnswer);
    world.fault.next(Request::Withdraw, Fault::Refuse, 5);
    let lock = world.here.mutex("a").ttl(secs(3600));
    assert!(lock.lock().await.is_err());
    assert!(!world.is_empty().await);
    for _ in 0..60 {
        tokio::time::sleep(secs(1)).await;
    }
    world.assert_nothing_left("after the outage").await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_down_is_told_at_once() {
    let world = World::new();
    world.fault.always(Request::Acquire, Fault::Refuse);
    let error = world.here.mutex("a").lock().await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert_eq!(world.fault.requests(Request::Acquire), 1);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_keeps_its_place_through_an_outage() {
    let world = World::new();
    let first = world.there.mutex("a").ttl(secs(3)).lock().await.unwrap();
    let here = world.here.clone();
    let second = tokio::spawn(async move { here.mutex("a").ttl(secs(30)).lock().await });
    world.until_waiting("a", 1).await;
    world.fault.always(Request::Acquire, Fault::Refuse);
    tokio::time::sleep(secs(10)).await;
    world.fault.heal();
    first.release().await.unwrap();
    assert!(second.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_waiter_is_told_of_an_outage_that_lasts() {
    let world = World::new();
    let _first = world.there.mutex("a").ttl(secs(3)).lock().await.unwrap();
    let here = world.here.clone();
    let second = tokio::spawn(async move { here.mutex("a").ttl(secs(5)).lock().await });
    world.until_waiting("a", 1).await;
    world.fault.always(Request::Acquire, Fault::Refuse);
    let error = second.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_claim_beside_one_of_its_owner_counts_once_if_its_answer_is_lost() {
    let world = World::new();
    let owner = Owner::named("job").unwrap();
    let outer = world.there.mutex("a").owner(owner.clone());
    let outer = outer.lock().await.unwrap();
    world.fault.next(Request::Acquire, Fault::LoseAnswer, 1);
    let inner = world.here.mutex("a").owner(owner).lock().await.unwrap();
    assert_eq!(world.holders("a").await, 2);
    assert_eq!(
        inner.release().await.unwrap(),
        Outcome::Lowered { depth: 1 }
    );
    assert_eq!(outer.release().await.unwrap(), Outcome::Released);
    world.assert_nothing_left("both are released").await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_stays_unknown_leaves_another_of_its_owner() {
    let world = World::new();
    let owner = Owner::named("job").unwrap();
    let outer = world.there.mutex("a").owner(owner.clone());
    let outer = outer.lock().await.unwrap();
    world.fault.always(Request::Acquire, Fault::LoseAnswer);
    assert!(world.here.mutex("a").owner(owner).lock().await.is_err());
    world.fault.heal();
    tokio::time::sleep(secs(1)).await;
    assert_eq!(
        world.holders("a").await,
        1,
        "the inner claim was undone, the outer was not"
    );
    assert_eq!(outer.release().await.unwrap(), Outcome::Released);
    world.assert_nothing_left("the outer is released").await;
}

#[tokio::test(start_paused = true)]
async fn a_release_whose_answer_was_lost_is_sent_again() {
    let world = World::new();
    let guard = world.here.mutex("a").ttl(secs(3600)).lock().await.unwrap();
    world.fault.next(Request::Release, Fault::Refuse, 2);
    assert!(guard.release().await.is_err());
    world.assert_nothing_left("the second release").await;
}

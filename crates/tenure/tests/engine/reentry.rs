//! The same owner locks several times, and releases as often.

use std::time::Duration;

use tenure::conformance::faults::{Fault, Request};
use tenure::{Client, Error, Health, Outcome, Owner};
use tokio::time::timeout;

use crate::{World, millis, secs};

#[tokio::test(start_paused = true)]
async fn nested_calls_of_a_task_share_its_lock() {
    async fn inner(locks: &Client, depth: u32) -> u32 {
        let guard = locks.mutex("a").reentrant().lock().await.unwrap();
        let reached = if depth == 0 {
            0
        } else {
            Box::pin(inner(locks, depth - 1)).await
        };
        guard.release().await.unwrap();
        reached + 1
    }
    let world = World::new();
    let here = world.here.clone();
    let reached = tokio::spawn(async move { inner(&here, 5).await });
    assert_eq!(
        timeout(secs(5), reached)
            .await
            .expect("no deadlock")
            .unwrap(),
        6
    );
    world
        .assert_nothing_left("released as often as locked")
        .await;
}

#[tokio::test(start_paused = true)]
async fn nested_calls_of_a_named_owner_ask_the_store_once() {
    let world = World::new();
    let lock = world.here.mutex("a").owner(Owner::named("job").unwrap());
    let one = lock.lock().await.unwrap();
    let two = lock.try_lock().await.unwrap().unwrap();
    let three = lock.lock_timeout(secs(1)).await.unwrap();
    assert_eq!(world.fault.requests(Request::Acquire), 1);
    assert_eq!(one.fence(), three.fence());
    assert_eq!(two.release().await.unwrap(), Outcome::Lowered { depth: 2 });
    assert!(world.there.mutex("a").try_lock().await.unwrap().is_none());
    drop(one);
    tokio::time::sleep(millis(1)).await;
    assert_eq!(world.fault.requests(Request::Release), 0);
    assert_eq!(world.holders("a").await, 1);
    assert_eq!(three.release().await.unwrap(), Outcome::Released);
    world
        .assert_nothing_left("released as often as locked")
        .await;
}

#[tokio::test(start_paused = true)]
async fn another_task_waits_for_a_reentrant_lock() {
    let world = World::new();
    let guard = world.here.mutex("a").reentrant().lock().await.unwrap();
    let here = world.here.clone();
    let other = tokio::spawn(async move { here.mutex("a").reentrant().lock().await.unwrap() });
    world.until_waiting("a", 1).await;
    guard.release().await.unwrap();
    drop(timeout(secs(1), other).await.expect("its turn").unwrap());
}

#[tokio::test(start_paused = true)]
async fn two_waiters_of_one_owner_both_get_in() {
    let world = World::new();
    let first = world.there.mutex("a").lock().await.unwrap();
    let lock = world.here.mutex("a").owner(Owner::named("job").unwrap());
    let (again, other) = (lock.clone(), lock.clone());
    let one = tokio::spawn(async move { again.lock().await.unwrap() });
    let two = tokio::spawn(async move { other.lock().await.unwrap() });
    world.until_waiting("a", 1).await;
    first.release().await.unwrap();
    let one = timeout(secs(1), one).await.expect("the first").unwrap();
    let two = timeout(secs(1), two)
        .await
        .expect("the same owner")
        .unwrap();
    assert_eq!(one.fence(), two.fence());
    drop((one, two));
    world.assert_nothing_left("both let go").await;
}

#[tokio::test(start_paused = true)]
async fn two_processes_of_one_job_share_a_lock() {
    let world = World::new();
    let owner = Owner::named("job 7").unwrap();
    let here = world
        .here
        .mutex("a")
        .owner(owner.clone())
        .lock()
        .await
        .unwrap();
    let there = world.there.mutex("a").owner(owner).lock().await.unwrap();
    assert_eq!(here.fence(), there.fence());
    assert_eq!(world.holders("a").await, 2);
    let released = here.release().await.unwrap();
    assert_eq!(released, Outcome::Lowered { depth: 1 });
    assert!(
        world.here.mutex("a").try_lock().await.unwrap().is_none(),
        "the other still has it"
    );
    there.release().await.unwrap();
    world.assert_nothing_left("both let go").await;
}

#[tokio::test(start_paused = true)]
async fn reading_under_ones_own_write_is_re_entry_and_the_reverse_is_refused() {
    let world = World::new();
    let owner = Owner::named("job").unwrap();
    let lock = world.here.rwlock("a");
    let write = lock.write().owner(owner.clone()).lock().await.unwrap();
    let read = lock.read().owner(owner.clone()).lock().await.unwrap();
    drop((read, write));
    world.assert_nothing_left("both let go").await;

    let read = lock.read().owner(owner.clone()).lock().await.unwrap();
    let refused = lock.write().owner(owner).lock().await.unwrap_err();
    assert!(matches!(refused, Error::ModeConflict { .. }), "{refused:?}");
    assert_eq!(read.health(), Health::Held);
}

#[tokio::test(start_paused = true)]
async fn all_guards_of_an_owner_see_the_loss_of_its_lease() {
    let world = World::new();
    let lock = world
        .here
        .mutex("a")
        .ttl(secs(30))
        .owner(Owner::named("job").unwrap());
    let one = lock.lock().await.unwrap();
    let two = lock.lock().await.unwrap();
    world.there.evict(one.name()).await.unwrap();
    let (a, b) = tokio::join!(one.lost(), two.lost());
    assert_eq!(a, b);
    assert!(matches!(two.release().await.unwrap(), Outcome::NotHeld(_)));
    tokio::time::sleep(Duration::from_millis(1)).await;
    let fresh = lock.lock().await.unwrap();
    assert_eq!(world.holders("a").await, 1, "a new lock, not a deeper one");
    assert!(fresh.fence() > one.fence());
    assert!(matches!(one.release().await.unwrap(), Outcome::NotHeld(_)));
    assert_eq!(
        world.holders("a").await,
        1,
        "an old guard does not touch a new grant"
    );
}

#[tokio::test(start_paused = true)]
async fn a_short_inner_lock_does_not_shorten_the_outer_one() {
    let world = World::new();
    let owner = Owner::named("job").unwrap();
    let outer = world
        .here
        .mutex("a")
        .ttl(secs(60))
        .owner(owner.clone())
        .lock()
        .await
        .unwrap();
    let inner = world
        .here
        .mutex("a")
        .ttl(millis(50))
        .owner(owner)
        .lock()
        .await
        .unwrap();
    world.fault.always(Request::Renew, Fault::Refuse);
    tokio::time::sleep(secs(10)).await;
    assert_eq!(outer.health(), Health::Held);
    assert_eq!(
        world.holders("a").await,
        1,
        "the store keeps it as long as its holder believes"
    );
    drop((inner, outer));
}

#[tokio::test(start_paused = true)]
async fn nested_calls_of_a_task_ask_the_store_once() {
    let world = World::new();
    let lock = world.here.mutex("a").reentrant();
    let outer = lock.lock().await.unwrap();
    let inner = lock.lock().await.unwrap();
    let innermost = lock.try_lock().await.unwrap().expect("the same task");
    assert_eq!(outer.fence(), innermost.fence());
    assert_eq!(world.fault.requests(Request::Acquire), 1);
    assert_eq!(world.holders("a").await, 1, "the store knows of the first");
    // In any order: the last one frees it.
    assert_eq!(
        outer.release().await.unwrap(),
        Outcome::Lowered { depth: 2 }
    );
    drop(innermost);
    assert!(world.there.mutex("a").try_lock().await.unwrap().is_none());
    assert_eq!(world.fault.requests(Request::Release), 0);
    assert_eq!(inner.health(), Health::Held);
    assert_eq!(inner.release().await.unwrap(), Outcome::Released);
    world.assert_nothing_left("all let go").await;
}

#[tokio::test(start_paused = true)]
async fn what_may_be_entered_again_is_passed_on_inside_the_process() {
    let world = World::new();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let here = world.here.clone();
        tasks.spawn(async move {
            let outer = here.mutex("a").reentrant().lock().await.unwrap();
            tokio::task::yield_now().await;
            let inner = here.mutex("a").reentrant().lock().await.unwrap();
            let fence = inner.fence();
            inner.release().await.unwrap();
            outer.release().await.unwrap();
            fence
        });
    }
    let mut fences = tasks.join_all().await;
    fences.sort_unstable();
    fences.dedup();
    assert_eq!(fences.len(), 50, "each grant has a number of its own");
    let asked = world.fault.requests(Request::Acquire);
    assert!(asked <= 5, "{asked} requests for 50 grants");
    world.assert_nothing_left("all let go").await;
}

#[tokio::test(start_paused = true)]
async fn calls_side_by_side_in_one_task_both_get_in() {
    let world = World::new();
    let first = world.there.mutex("a").lock().await.unwrap();
    let lock = world.here.mutex("a").reentrant();
    let free = async {
        world.until_waiting("a", 1).await;
        first.release().await.unwrap();
    };
    let both = async {
        let (one, two) = tokio::join!(lock.lock(), lock.lock());
        (one.unwrap(), two.unwrap())
    };
    let ((one, two), ()) = timeout(secs(5), async { tokio::join!(both, free) })
        .await
        .expect("the second does not wait for the first");
    assert_eq!(one.fence(), two.fence());
    drop(one);
    assert_eq!(two.health(), Health::Held);
    drop(two);
    world.assert_nothing_left("both let go").await;
}

#[tokio::test(start_paused = true)]
async fn a_nested_call_reads_under_a_write_and_does_not_write_under_a_read() {
    let world = World::new();
    let lock = world.here.rwlock("a");
    let write = lock.write().reentrant().lock().await.unwrap();
    let read = lock.read().reentrant().lock().await.unwrap();
    drop((write, read));
    world.assert_nothing_left("both let go").await;
    let read = lock.read().reentrant().lock().await.unwrap();
    let refused = lock.write().reentrant().lock().await.unwrap_err();
    assert!(matches!(refused, Error::ModeConflict { .. }), "{refused:?}");
    let refused = lock.write().reentrant().try_lock().await.unwrap_err();
    assert!(matches!(refused, Error::ModeConflict { .. }), "{refused:?}");
    assert_eq!(read.health(), Health::Held);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_was_lost_is_not_entered_again() {
    let world = World::new();
    let lock = world.here.mutex("a").reentrant();
    let outer = lock.lock().await.unwrap();
    let inner = lock.lock().await.unwrap();
    world.there.evict(outer.name()).await.unwrap();
    let (one, other) = tokio::join!(outer.lost(), inner.lost());
    assert_eq!(one, other);
    let fresh = lock.lock().await.unwrap();
    assert!(fresh.fence() > outer.fence(), "a new grant");
    let nested = lock.lock().await.unwrap();
    assert_eq!(nested.fence(), fresh.fence());
    assert_eq!(inner.release().await.unwrap(), Outcome::NotHeld(one));
    assert_eq!(outer.release().await.unwrap(), Outcome::NotHeld(one));
    assert_eq!(
        fresh.health(),
        Health::Held,
        "an old guard does not touch it"
    );
    drop(fresh);
    assert_eq!(nested.release().await.unwrap(), Outcome::Released);
    world.assert_nothing_left("all let go").await;
}

#[tokio::test(start_paused = true)]
async fn a_nested_call_that_is_cut_short_leaves_the_lock_as_it_was() {
    let world = World::new();
    let lock = world.here.mutex("a").reentrant();
    let outer = lock.lock().await.unwrap();
    {
        let mut nested = std::pin::pin!(lock.lock());
        let polled = std::future::poll_fn(|context| {
            std::task::Poll::Ready(nested.as_mut().poll(context).is_ready())
        });
        assert!(polled.await, "it is entered without waiting, and dropped");
    }
    assert_eq!(outer.release().await.unwrap(), Outcome::Released);
    world.assert_nothing_left("let go").await;
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_may_be_entered_again_may_be_kept() {
    let world = World::new();
    let lock = world.here.mutex("a").keep(secs(1)).reentrant();
    for _ in 0..10 {
        let outer = lock.lock().await.unwrap();
        let inner = lock.lock().await.unwrap();
        drop((outer, inner));
    }
    assert_eq!(world.fault.requests(Request::Acquire), 1);
    tokio::time::sleep(secs(2)).await;
    world.assert_nothing_left("kept for a while").await;
}

//! An owner that is used more than once never lets a second holder in: each claim has its own id.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tenure::conformance::faults::{Fault, Request};
use tenure::{Error, Health, Lock, Outcome, Owner};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::{World, millis, secs};

fn job() -> Owner {
    Owner::named("job").unwrap()
}

/// Fails unless the guard's lease is the one that the store lists, so that nobody else gets the
/// lock.
async fn assert_held(world: &World, guard: &tenure::Guard) {
    assert_eq!(guard.health(), Health::Held);
    assert_eq!(world.holders("a").await, 1, "listed in the store");
    assert!(world.there.mutex("a").try_lock().await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_a_timeout_is_not_undone_by_the_withdrawal_of_the_try_before() {
    for late in [millis(1), millis(50), millis(150)] {
        let world = World::new();
        world
            .fault
            .always(Request::Withdraw, Fault::LateRequest(late));
        let held = world.there.mutex("a").lock().await.unwrap();
        let lock = world.here.mutex("a").owner(job());
        let retried = tokio::spawn(async move {
            loop {
                if let Ok(guard) = lock.lock_timeout(millis(200)).await {
                    return guard;
                }
            }
        });
        sleep(millis(650)).await;
        held.release().await.unwrap();
        let guard = timeout(secs(2), retried).await.expect("its turn").unwrap();
        sleep(secs(1)).await;
        assert_held(&world, &guard).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_keeps_its_place_when_an_earlier_try_of_its_owner_is_withdrawn() {
    let world = World::new();
    let late = Fault::LateRequest(millis(100));
    world.fault.always(Request::Withdraw, late);
    let held = world.there.mutex("a").ttl(secs(30)).lock().await.unwrap();
    let lock = world.here.mutex("a").owner(job());
    assert!(lock.lock_timeout(millis(50)).await.is_err());
    let waiting = tokio::spawn(async move { lock.lock().await.unwrap() });
    sleep(secs(1)).await;
    let released = Instant::now();
    held.release().await.unwrap();
    let guard = timeout(secs(2), waiting).await.expect("in line").unwrap();
    assert!(released.elapsed() < millis(100));
    assert_held(&world, &guard).await;
}

#[tokio::test(start_paused = true)]
async fn what_stayed_unknown_is_withdrawn_without_touching_the_next_grant() {
    let world = World::new();
    let lock = world.here.mutex("a").owner(job());
    world.fault.next(Request::Acquire, Fault::LoseAnswer, 3);
    world.fault.next(Request::Withdraw, Fault::Refuse, 2);
    let unknown = lock.try_lock().await.unwrap_err();
    assert!(matches!(unknown, Error::Indeterminate { .. }));
    let guard = lock.lock().await.unwrap();
    world.here.settled().await;
    sleep(secs(5)).await;
    assert_held(&world, &guard).await;
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    world.assert_nothing_left("all let go").await;
}

#[tokio::test(start_paused = true)]
async fn the_last_release_does_not_free_what_another_call_of_the_owner_has_got() {
    for late in [Request::Acquire, Request::Release] {
        for delay in [
            Fault::LateAnswer(millis(50)),
            Fault::LateRequest(millis(50)),
        ] {
            let world = World::new();
            let lock = world.here.mutex("a").owner(job());
            let (one, two) = (lock.lock().await.unwrap(), lock.lock().await.unwrap());
            world.fault.always(late, delay);
            drop(one);
            drop(two);
            // The releases are in flight.
            sleep(millis(1)).await;
            let third = timeout(secs(5), lock.lock()).await.expect("free").unwrap();
            world.fault.heal();
            sleep(secs(1)).await;
            assert_held(&world, &third).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn two_tries_of_one_owner_at_once_have_a_lease_each() {
    let world = World::new();
    let lock = world.here.mutex("a").owner(job());
    world
        .fault
        .always(Request::Acquire, Fault::LateAnswer(millis(10)));
    let (one, two) = tokio::join!(lock.try_lock(), lock.try_lock());
    let (one, two) = (one.unwrap().unwrap(), two.unwrap().unwrap());
    assert_eq!(one.fence(), two.fence(), "held together");
    one.release().await.unwrap();
    assert_held(&world, &two).await;
    assert_eq!(two.release().await.unwrap(), Outcome::Released);
    world.assert_nothing_left("both let go").await;
}

/// Returns how many of ten tasks have the lock at once.
async fn most_at_once(lock: Lock) -> usize {
    let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = JoinSet::new();
    for _ in 0..10 {
        let (lock, inside, most) = (lock.clone(), Arc::clone(&inside), Arc::clone(&most));
        tasks.spawn(async move {
            let guard = lock.lock().await.unwrap();
            let nested = lock.lock().await.unwrap();
            let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
            most.fetch_max(now, Ordering::SeqCst);
            sleep(millis(10)).await;
            inside.fetch_sub(1, Ordering::SeqCst);
            drop((guard, nested));
        });
    }
    tasks.join_all().await;
    most.load(Ordering::SeqCst)
}

#[tokio::test(start_paused = true)]
async fn a_re_entrant_lock_is_entered_by_the_task_that_asks_not_by_the_one_that_built_it() {
    let world = World::new();
    let lock = world.here.mutex("a").reentrant();
    assert_eq!(most_at_once(lock).await, 1);
    let shared = world.here.mutex("b").owner(job());
    assert_eq!(most_at_once(shared).await, 10, "an owner shares with all");
}

#[test]
fn a_re_entrant_lock_of_blocking_code_is_entered_by_the_thread_that_asks() {
    let locks = tenure::blocking::open("memory:").unwrap();
    let lock = locks.mutex("a").reentrant();
    let outer = lock.lock().unwrap();
    let nested = lock.try_lock().unwrap();
    assert!(nested.is_some(), "the same thread");
    let other = std::thread::spawn(move || lock.try_lock().unwrap().is_some());
    assert!(!other.join().unwrap(), "another thread");
    drop((outer, nested));
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_holds_elsewhere_enters_past_those_who_wait_in_the_same_client() {
    let world = World::new();
    let held = world.there.mutex("a").owner(job()).lock().await.unwrap();
    let plain = world.here.mutex("a");
    let waiting = tokio::spawn(async move { plain.lock().await });
    world.until_waiting("a", 1).await;
    let shared = world.here.mutex("a").owner(job());
    let shared = timeout(secs(1), shared.lock()).await;
    let shared = shared.expect("does not wait for its own owner").unwrap();
    assert_eq!(held.fence(), shared.fence());
    waiting.abort();
}

#[tokio::test(start_paused = true)]
async fn leases_by_hand_of_one_owner_are_released_one_by_one() {
    let world = World::new();
    let lock = world.here.mutex("a").owner(job());
    let mut leases = Vec::new();
    for _ in 0..3 {
        leases.push(lock.try_lease().await.unwrap().expect("the same owner"));
    }
    let name = leases[0].name.clone();
    assert_eq!(world.there.leases(&name, "job").await.unwrap().len(), 3);
    for left in [2, 1, 0] {
        let lease = leases.pop().unwrap();
        let released = world.there.release(&lease).await.unwrap();
        let expected = match left {
            0 => Outcome::Released,
            depth => Outcome::Lowered { depth },
        };
        assert_eq!(released, expected);
        let again = world.there.release(&lease).await.unwrap();
        assert!(matches!(again, Outcome::NotHeld(_)), "{again:?}");
        assert_eq!(world.holders("a").await, left as usize);
    }
}

#[tokio::test(start_paused = true)]
async fn the_longest_at_least_of_nested_calls_counts() {
    let world = World::new();
    for lock in [
        world.here.mutex("a").owner(job()),
        world.here.mutex("a").reentrant(),
    ] {
        let outer = lock.lock().await.unwrap();
        let inner = lock.clone().at_least(secs(5)).lock().await.unwrap();
        inner.release().await.unwrap();
        outer.release().await.unwrap();
        assert!(world.there.mutex("a").try_lock().await.unwrap().is_none());
        assert!(lock.try_lock().await.unwrap().is_none(), "nobody's");
        sleep(secs(5)).await;
        drop(world.there.mutex("a").try_lock().await.unwrap().unwrap());
        world.there.settled().await;
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_enters_a_re_entrant_lock_by_naming_its_task() {
    let world = World::new();
    let _held = world.here.mutex("a").reentrant().lock().await.unwrap();
    let named = world.here.mutex("a").owner(Owner::current());
    assert!(named.try_lock().await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn an_owner_is_served_although_others_of_its_client_keep_the_lock() {
    let world = World::new();
    let lock = world.here.mutex("a").keep(secs(60));
    let mut busy = JoinSet::new();
    for _ in 0..2 {
        let lock = lock.clone();
        busy.spawn(async move {
            loop {
                let guard = lock.lock().await.unwrap();
                sleep(millis(1)).await;
                drop(guard);
            }
        });
    }
    sleep(millis(10)).await;
    let named = world.here.mutex("a").owner(job());
    let served = timeout(secs(1), named.lock()).await;
    drop(served.expect("its turn").unwrap());
    let by_hand = timeout(secs(1), world.here.mutex("a").lease()).await;
    by_hand.expect("its turn").unwrap();
}

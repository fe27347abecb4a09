//! A lease is passed on inside a process: with a limit on count and time, and a new fence each
//! time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tenure::conformance::faults::{Fault, Request};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, sleep};

use crate::{World, millis, pair, secs};

/// How many fences a claim reserves that nobody here waits behind, and how many if others do.
const FEW: u64 = 8;
const SOME: u64 = 64;

#[tokio::test(start_paused = true)]
async fn a_hot_lock_asks_the_store_once_for_many_holders() {
    let world = World::new();
    let last_fence = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..64 {
        let (here, last_fence) = (world.here.clone(), Arc::clone(&last_fence));
        tasks.spawn(async move {
            for _ in 0..20 {
                let guard = here.mutex("a").lock().await.unwrap();
                let fence = guard.fence().get();
                let before = last_fence.swap(fence, Ordering::SeqCst);
                assert!(before < fence, "{fence} was granted after {before}");
                yield_now().await;
                assert_eq!(
                    last_fence.load(Ordering::SeqCst),
                    fence,
                    "two holders at once"
                );
                guard.release().await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    let asked = world.fault.requests(Request::Acquire);
    assert!(asked < 64 * 20 / 10, "{asked} requests for 1280 locks");
    world.assert_nothing_left("all are done").await;
}

#[tokio::test(start_paused = true)]
async fn another_process_gets_its_turn_after_a_bounded_number_of_passes() {
    let world = World::new();
    let stop = Arc::new(AtomicBool::new(false));
    let passes = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        let (here, stop, passes) = (world.here.clone(), Arc::clone(&stop), Arc::clone(&passes));
        tasks.spawn(async move {
            while !stop.load(Ordering::SeqCst) {
                let guard = here.mutex("a").lock().await.unwrap();
                passes.fetch_add(1, Ordering::SeqCst);
                yield_now().await;
                guard.release().await.unwrap();
            }
        });
    }
    while passes.load(Ordering::SeqCst) < 10 {
        yield_now().await;
    }
    for _ in 0..5 {
        let before = passes.load(Ordering::SeqCst);
        let guard = world.there.mutex("a").lock().await.unwrap();
        let between = passes.load(Ordering::SeqCst) - before;
        assert!(
            between <= 2 * 64,
            "{between} passes before another process got in"
        );
        guard.release().await.unwrap();
    }
    stop.store(true, Ordering::SeqCst);
    tasks.join_all().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_nobody_waits_behind_sets_few_fences_aside() {
    let world = World::new();
    let lock = world.here.mutex("a");
    let first = pair(&lock).await;
    assert_eq!(pair(&lock).await - first, FEW);
    let tried = lock.try_lock().await.unwrap().expect("it is free");
    let fence = tried.fence().get();
    tried.release().await.unwrap();
    assert_eq!(pair(&lock).await - fence, FEW);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_others_wait_behind_sets_more_fences_aside() {
    for (behind, fences) in [(None, FEW), (Some("same"), SOME), (Some("other"), FEW)] {
        let world = World::new();
        let wait = |reason: &str| {
            let lock = world.here.mutex("a").reason(reason);
            tokio::spawn(async move { lock.lock().await.unwrap() })
        };
        let holder = world.there.mutex("a").lock().await.unwrap();
        let first = wait("same");
        world.until_waiting("a", 1).await;
        let (second, third) = (wait("same"), behind.map(wait));
        sleep(millis(1)).await;
        holder.release().await.unwrap();
        // Each holds for so long that the lease is not passed on.
        let first = first.await.unwrap();
        sleep(millis(6)).await;
        first.release().await.unwrap();
        let second = second.await.unwrap();
        let fence = second.fence().get();
        sleep(millis(6)).await;
        second.release().await.unwrap();
        let next = match third {
            Some(third) => third.await.unwrap().fence().get(),
            None => pair(&world.there.mutex("a")).await,
        };
        assert_eq!(next - fence, fences, "{behind:?} stood behind it");
    }
}

#[tokio::test(start_paused = true)]
async fn those_who_come_during_the_first_request_are_served_by_two_grants() {
    let world = World::new();
    let late = Fault::LateRequest(millis(1));
    world.fault.next(Request::Acquire, late, 1);
    let mut tasks = JoinSet::new();
    for _ in 0..20 {
        let lock = world.here.mutex("a");
        tasks.spawn(async move { pair(&lock).await });
    }
    let mut fences = tasks.join_all().await;
    fences.sort_unstable();
    let first = fences[0];
    assert_eq!(fences, (first..first + 20).collect::<Vec<_>>());
    let aside = pair(&world.there.mutex("a")).await - first;
    // The last place in line, which nobody needed, may have been granted before it was withdrawn.
    assert!(
        [FEW + SOME, FEW + 2 * SOME].contains(&aside),
        "{aside} were set aside"
    );
}

#[tokio::test(start_paused = true)]
async fn another_process_gets_its_turn_after_a_bounded_time() {
    let world = World::new();
    let first = world.here.mutex("a").lock().await.unwrap();
    let there = world.there.clone();
    let other = tokio::spawn(async move { there.mutex("a").lock().await.unwrap() });
    world.until_waiting("a", 1).await;
    let here = world.here.clone();
    let second = tokio::spawn(async move { here.mutex("a").lock().await.unwrap() });
    world.until_waiting("a", 2).await;
    sleep(millis(6)).await;
    first.release().await.unwrap();
    let other = other.await.unwrap();
    assert!(!second.is_finished(), "it stands behind the other process");
    other.release().await.unwrap();
    drop(second.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_local_waiter_that_came_first_goes_first_after_a_long_hold() {
    let world = World::new();
    let first = world.here.mutex("a").lock().await.unwrap();
    let here = world.here.clone();
    let second = tokio::spawn(async move { here.mutex("a").lock().await.unwrap() });
    world.until_waiting("a", 1).await;
    let there = world.there.clone();
    let third = tokio::spawn(async move { there.mutex("a").lock().await.unwrap() });
    world.until_waiting("a", 2).await;
    sleep(millis(100)).await;
    first.release().await.unwrap();
    let second = second.await.unwrap();
    assert!(!third.is_finished());
    second.release().await.unwrap();
    drop(third.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_not_passed_on_to_a_lock_of_another_kind() {
    let world = World::new();
    let first = world.here.mutex("a").lock().await.unwrap();
    let here = world.here.clone();
    let second = tokio::spawn(async move { here.mutex("a").reason("why").lock().await.unwrap() });
    world.until_waiting("a", 1).await;
    first.release().await.unwrap();
    let second = second.await.unwrap();
    let entries = world.there.list(None).await.unwrap();
    let reason = entries[0].holders[0].about.reason.as_deref();
    assert_eq!(
        reason,
        Some("why"),
        "the store knows the reason of this holder"
    );
    drop(second);
}

#[tokio::test(start_paused = true)]
async fn the_place_in_line_is_given_up_when_the_last_waiter_was_passed_on_to() {
    let world = World::new();
    let first = world.here.mutex("a").lock().await.unwrap();
    let here = world.here.clone();
    let second = tokio::spawn(async move { here.mutex("a").lock().await.unwrap() });
    world.until_waiting("a", 1).await;
    first.release().await.unwrap();
    let second = second.await.unwrap();
    let asked = world.fault.requests(Request::Acquire);
    let passed = Instant::now();
    world.until_waiting("a", 0).await;
    assert!(passed.elapsed() < secs(1), "nobody stands there any more");
    assert_eq!(asked, 2, "it was passed on");
    drop(second);
    world.assert_nothing_left("all let go").await;
}

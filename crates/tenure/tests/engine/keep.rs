//! A lease that nobody wants stays with the process for a while, and is given back when others ask
//! for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tenure::conformance::faults::{Fault, Request};
use tenure::driver::{Driver, Loss, News};
use tenure::{ClaimId, Client, Error, Health, Lock, Owner};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout};

use crate::{World, millis, pair, secs};

/// How many fences a kept lock reserves with one request: normally, and after others have asked for
/// it.
const MANY: u64 = 16_384;
const SOME: u64 = 64;

fn lock(client: &Client) -> Lock {
    client.mutex("a").ttl(secs(30)).keep(secs(10))
}

impl World {
    /// Returns a world in which the name is kept here.
    async fn with_a_kept_lease() -> Self {
        let world = Self::new();
        pair(&lock(&world.here)).await;
        assert_eq!(world.fault.requests(Request::Release), 0, "it is kept");
        world
    }

    /// Waits, without letting time pass, until nothing is held.
    async fn is_free_at_once(&self) -> bool {
        for _ in 0..100 {
            if self.is_empty().await {
                return true;
            }
            yield_now().await;
        }
        false
    }
}

#[tokio::test(start_paused = true)]
async fn a_kept_lock_asks_the_store_once() {
    let world = World::new();
    let lock = lock(&world.here);
    let mut last = 0;
    for round in 0..1000 {
        let guard = match round % 3 {
            0 => lock.try_lock().await.unwrap().expect("nobody else asks"),
            1 => lock.lock_timeout(secs(1)).await.unwrap(),
            _ => lock.lock().await.unwrap(),
        };
        let fence = guard.fence().get();
        assert!(last < fence, "{fence} after {last}");
        assert_eq!(guard.health(), Health::Held);
        last = fence;
        match round % 2 {
            0 => drop(guard),
            _ => drop(guard.release().await.unwrap()),
        }
    }
    assert_eq!(world.fault.requests(Request::Acquire), 1);
    assert_eq!(world.fault.requests(Request::Release), 0);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_kept_unless_asked_for() {
    let world = World::new();
    pair(&world.here.mutex("a")).await;
    pair(&world.here.mutex("a").keep(millis(0))).await;
    assert_eq!(world.fault.requests(Request::Release), 2);
    assert!(world.is_empty().await);
}

#[tokio::test(start_paused = true)]
async fn a_claim_from_elsewhere_has_a_kept_lease_given_back_at_once() {
    let world = World::with_a_kept_lease().await;
    let asked = Instant::now();
    let guard = world.there.mutex("a").lock().await.unwrap();
    assert!(
        asked.elapsed() <= millis(1),
        "it took {:?}",
        asked.elapsed()
    );
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn a_refused_try_from_elsewhere_has_a_kept_lease_given_back() {
    let world = World::with_a_kept_lease().await;
    let there = world.there.mutex("a");
    assert!(there.try_lock().await.unwrap().is_none(), "it is kept");
    assert!(world.is_free_at_once().await);
    assert!(there.try_lock().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_lease_in_use_is_given_back_after_that_use_although_others_wait_here() {
    let world = World::new();
    let first = lock(&world.here).lock().await.unwrap();
    let there = world.there.clone();
    let other = tokio::spawn(async move { there.mutex("a").lock().await.unwrap() });
    world.until_waiting("a", 1).await;
    let second = lock(&world.here);
    let second = tokio::spawn(async move { second.lock().await.unwrap() });
    world.until_waiting("a", 2).await;
    first.release().await.unwrap();
    let other = other.await.unwrap();
    assert!(!second.is_finished(), "it stands behind the other process");
    other.release().await.unwrap();
    drop(second.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_nobody_calls_for_is_passed_on_here_past_the_usual_bounds() {
    let world = World::new();
    let first = lock(&world.here).lock().await.unwrap();
    let second = lock(&world.here);
    let second = tokio::spawn(async move { second.lock().await.unwrap() });
    world.until_waiting("a", 1).await;
    sleep(secs(1)).await;
    let fence = first.fence().get();
    first.release().await.unwrap();
    assert_eq!(second.await.unwrap().fence().get(), fence + 1);
    assert_eq!(world.fault.requests(Request::Release), 0);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_handed_over_while_others_wait_is_not_kept() {
    let world = World::new();
    let third = Client::with_driver(Arc::new(world.store.another()));
    let first = world.there.mutex("a").lock().await.unwrap();
    let here = lock(&world.here);
    let second = tokio::spawn(async move { pair(&here).await });
    world.until_waiting("a", 1).await;
    let third = tokio::spawn(async move { third.mutex("a").lock().await.unwrap() });
    world.until_waiting("a", 2).await;
    let released = Instant::now();
    first.release().await.unwrap();
    second.await.unwrap();
    drop(third.await.unwrap());
    assert!(released.elapsed() <= millis(1), "nobody waited");
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_kept_for_the_time_asked_for_from_its_last_release_on() {
    let world = World::new();
    let lock = lock(&world.here);
    pair(&lock).await;
    sleep(secs(9)).await;
    pair(&lock).await;
    sleep(secs(9)).await;
    assert_eq!(world.holders("a").await, 1, "still kept");
    sleep(millis(1100)).await;
    assert!(world.is_empty().await, "given back");
    assert_eq!(world.fault.requests(Request::Acquire), 1);
    pair(&lock).await;
    assert_eq!(world.fault.requests(Request::Acquire), 2);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_kept_briefly_is_given_back_in_time() {
    let world = World::new();
    let lock = world.here.mutex("a").keep(millis(50));
    let guard = lock.lock().await.unwrap();
    sleep(millis(1500)).await;
    guard.release().await.unwrap();
    sleep(millis(40)).await;
    assert_eq!(world.holders("a").await, 1, "still kept");
    sleep(millis(15)).await;
    assert!(world.is_empty().await, "given back");
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_while_it_is_kept() {
    let world = World::new();
    let lock = world.here.mutex("a").ttl(secs(3)).keep(secs(60));
    pair(&lock).await;
    sleep(secs(50)).await;
    let guard = lock.lock().await.unwrap();
    assert_eq!(guard.health(), Health::Held);
    assert_eq!(world.fault.requests(Request::Acquire), 1);
}

#[tokio::test(start_paused = true)]
async fn many_names_are_kept_each_for_its_time() {
    let world = World::new();
    for number in 0..100 {
        let name = format!("n{number}");
        let keep = secs(1) + millis(number * 100);
        pair(&world.here.mutex(&name).keep(keep)).await;
    }
    for second in 2..12_usize {
        sleep(secs(1)).await;
        let left = world.store.list(None).await.unwrap().len();
        let expected = 100_usize.saturating_sub(10 * (second - 2));
        assert!(
            left <= expected && expected <= left + 20,
            "{left} left after {} s",
            second - 1
        );
    }
    world.assert_nothing_left("their time is over").await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_call_costs_others_the_time_for_which_the_lease_is_kept() {
    let world = World::with_a_kept_lease().await;
    world.fault.delay_news(secs(3600));
    let asked = Instant::now();
    drop(world.there.mutex("a").lock().await.unwrap());
    assert!(asked.elapsed() <= millis(10_001), "{:?}", asked.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_lost_call_costs_others_a_bounded_time_although_the_lock_is_in_use() {
    let world = World::new();
    world.fault.delay_news(secs(36_000));
    let stop = Arc::new(AtomicBool::new(false));
    let (user, stopped) = (lock(&world.here), Arc::clone(&stop));
    let user = tokio::spawn(async move {
        while !stopped.load(Ordering::SeqCst) {
            pair(&user).await;
            sleep(secs(1)).await;
        }
    });
    sleep(millis(10)).await;
    let asked = Instant::now();
    let other = timeout(secs(100), world.there.mutex("a").lock()).await;
    assert!(other.is_ok(), "the lease never came back");
    assert!(asked.elapsed() <= secs(40), "{:?}", asked.elapsed());
    drop(other);
    stop.store(true, Ordering::SeqCst);
    user.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_may_have_missed_a_call_gives_back_what_is_kept() {
    let world = World::with_a_kept_lease().await;
    world.fault.tell(News::AskAgain(None));
    assert!(world.is_free_at_once().await);
}

#[tokio::test(start_paused = true)]
async fn who_may_have_missed_a_call_keeps_nothing_that_it_held() {
    let world = World::new();
    let lock = lock(&world.here);
    let guard = lock.lock().await.unwrap();
    world.fault.tell(News::AskAgain(None));
    sleep(millis(1)).await;
    guard.release().await.unwrap();
    assert!(world.is_empty().await);
    pair(&lock).await;
    assert_eq!(world.holders("a").await, 1, "the next lease is kept again");
}

/// Tests claims whose reply is still in flight when others ask for them.
async fn early(world: &World, call: impl AsyncFn()) {
    for waits in [true, false] {
        let late = Fault::LateAnswer(millis(100));
        world.fault.next(Request::Acquire, late, 1);
        let lock = lock(&world.here);
        let asks = tokio::spawn(async move {
            match waits {
                true => lock.lock().await.unwrap(),
                false => lock.try_lock().await.unwrap().unwrap(),
            }
        });
        sleep(millis(10)).await;
        call().await;
        sleep(millis(10)).await;
        assert!(!asks.is_finished());
        asks.await.unwrap().release().await.unwrap();
        assert!(world.is_empty().await, "kept although it was called for");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_overtakes_the_grant_is_heard() {
    let world = World::new();
    let there = world.there.mutex("a");
    early(&world, async || {
        assert!(there.try_lock().await.unwrap().is_none());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_may_have_been_missed_before_the_grant_is_heard() {
    let world = World::new();
    early(&world, async || world.fault.tell(News::AskAgain(None))).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_for_an_unknown_lease_is_ignored() {
    let world = World::new();
    let lock = lock(&world.here);
    let guard = lock.lock().await.unwrap();
    let claim = world.claim("a").await;
    let (name, fence) = (guard.name().clone(), guard.fence());
    let other = world.there.mutex("b").lock().await.unwrap();
    guard.release().await.unwrap();
    for (name, claim, fence) in [
        (name.clone(), ClaimId::unique(), fence),
        (name.clone(), claim.clone(), other.fence()),
        (other.name().clone(), claim, other.fence()),
    ] {
        world.fault.tell(News::Wanted { name, claim, fence });
    }
    sleep(millis(10)).await;
    pair(&lock).await;
    assert_eq!(world.fault.requests(Request::Acquire), 1, "it was kept");
}

#[tokio::test(start_paused = true)]
async fn when_its_fences_are_used_up_a_lease_is_asked_for_anew() {
    let world = World::new();
    let lock = lock(&world.here);
    let mut last = 0;
    for _ in 0..2 * MANY {
        let fence = pair(&lock).await;
        assert!(last < fence, "{fence} after {last}");
        last = fence;
    }
    assert_eq!(world.fault.requests(Request::Acquire), 2);
    assert_eq!(world.fault.requests(Request::Release), 2);
}

#[tokio::test(start_paused = true)]
async fn a_name_that_goes_back_and_forth_uses_no_more_than_some_fences() {
    let world = World::new();
    let (here, there) = (lock(&world.here), lock(&world.there));
    pair(&here).await;
    pair(&there).await;
    let mut last = pair(&here).await;
    for _ in 0..10 {
        pair(&there).await;
        let fence = pair(&here).await;
        assert_eq!(fence - last, 2 * SOME);
        last = fence;
    }
    sleep(secs(2)).await;
    let first = pair(&there).await;
    assert_eq!(pair(&here).await - first, MANY, "peace has come back");
}

#[tokio::test(start_paused = true)]
async fn a_lock_of_another_kind_does_not_wait_for_what_is_kept_here() {
    for kind in 0..4 {
        let world = World::with_a_kept_lease().await;
        let other = match kind {
            0 => world.here.rwlock("a").read(),
            1 => world.here.mutex("a").ttl(secs(5)),
            2 => world.here.mutex("a").owner(Owner::current()),
            _ => world.here.mutex("a").reason("why"),
        };
        let asked = Instant::now();
        let guard = match kind % 2 {
            0 => other.lock().await.unwrap(),
            _ => other.try_lock().await.unwrap().expect("only kept"),
        };
        assert!(asked.elapsed() <= millis(1), "case {kind}");
        assert_eq!(world.holders("a").await, 1);
        drop(guard);
        world.assert_nothing_left(&format!("case {kind}")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_not_kept_while_others_wait_for_it_here() {
    for in_line in [true, false] {
        let world = World::new();
        let guard = lock(&world.here).lock().await.unwrap();
        let reader = world.here.rwlock("a").read();
        if !in_line {
            let late = Fault::LateRequest(millis(100));
            world.fault.next(Request::Acquire, late, 1);
        }
        let reader = tokio::spawn(async move { reader.lock().await.unwrap() });
        sleep(millis(10)).await;
        guard.release().await.unwrap();
        let read = timeout(secs(1), reader).await;
        assert!(read.is_ok(), "it waits for what is kept, in line {in_line}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_not_kept_takes_what_is_and_gives_it_back() {
    let world = World::with_a_kept_lease().await;
    pair(&world.here.mutex("a")).await;
    assert_eq!(world.fault.requests(Request::Acquire), 1);
    assert!(world.is_empty().await);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_cannot_be_called_back_is_not_kept() {
    let world = World::new();
    let first = world.here.mutex("a").lock().await.unwrap();
    let second = lock(&world.here);
    let second = tokio::spawn(async move { pair(&second).await });
    world.until_waiting("a", 1).await;
    first.release().await.unwrap();
    second.await.unwrap();
    world.assert_nothing_left("passed on, not kept").await;
}

#[tokio::test(start_paused = true)]
async fn a_kept_lease_that_is_lost_is_forgotten() {
    let world = World::with_a_kept_lease().await;
    let lock = lock(&world.here);
    let before = pair(&lock).await;
    let evicted = world.there.evict("a").await.unwrap();
    assert_eq!(evicted.len(), 1);
    sleep(millis(1)).await;
    let guard = lock.lock().await.unwrap();
    assert_eq!(guard.health(), Health::Held);
    assert!(before < guard.fence().get());
    assert_eq!(world.fault.requests(Request::Acquire), 2);
}

#[tokio::test(start_paused = true)]
async fn a_kept_lease_that_could_not_be_renewed_is_not_used() {
    let world = World::new();
    let lock = world.here.mutex("a").ttl(secs(3)).keep(secs(60));
    pair(&lock).await;
    world.fault.always(Request::Renew, Fault::Refuse);
    for outage in [secs(2), secs(4)] {
        sleep(outage).await;
        let guard = lock.lock().await.unwrap();
        assert_eq!(guard.health(), Health::Held, "after {outage:?}");
        assert_eq!(world.holders("a").await, 1);
        guard.release().await.unwrap();
    }
    assert_eq!(world.fault.requests(Request::Acquire), 3);
}

#[tokio::test(start_paused = true)]
async fn a_kept_lease_is_given_back_when_its_client_ends() {
    let World {
        fault, here, store, ..
    } = World::with_a_kept_lease().await;
    drop(here);
    sleep(millis(1)).await;
    assert_eq!(fault.requests(Request::Release), 1);
    let left = store.list(None).await.unwrap();
    assert!(left.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_has_settled_keeps_nothing() {
    let world = World::with_a_kept_lease().await;
    world.here.settled().await;
    assert!(world.is_empty().await);
    let late = Fault::LateAnswer(millis(100));
    world.fault.next(Request::Acquire, late, 1);
    let cut_short = lock(&world.here).lock_timeout(millis(10)).await;
    assert!(cut_short.is_err());
    world.here.settled().await;
    assert!(world.is_empty().await, "what was cut short is not kept");
    pair(&lock(&world.here)).await;
    assert_eq!(world.holders("a").await, 1, "kept again");
}

#[tokio::test(start_paused = true)]
async fn a_release_that_fails_is_sent_again() {
    let world = World::with_a_kept_lease().await;
    world.fault.next(Request::Release, Fault::Refuse, 3);
    let asked = Instant::now();
    drop(world.there.mutex("a").lock().await.unwrap());
    assert!(asked.elapsed() < secs(5), "{:?}", asked.elapsed());
}

#[tokio::test(start_paused = true)]
async fn nobody_shares_a_claim_without_an_owner() {
    let world = World::new();
    let guard = lock(&world.here).lock().await.unwrap();
    let shown = guard.owner().unwrap();
    for locks in [&world.here, &world.there] {
        let refused = locks.mutex("a").owner(shown.clone()).try_lock().await;
        assert!(matches!(refused, Err(Error::InvalidOwner { .. })));
    }
    assert_eq!(world.holders("a").await, 1);
}

#[tokio::test(start_paused = true)]
async fn only_plain_locks_are_kept() {
    let world = World::new();
    let keep = secs(1);
    let mutex = || world.here.mutex("a").keep(keep);
    let refused = [
        mutex().owner(Owner::unique()).lock().await.err(),
        mutex().max_hold(secs(5)).lock().await.err(),
        mutex().at_least(secs(5)).lock().await.err(),
        mutex().lease().await.err(),
        world.here.rwlock("a").read().keep(keep).lock().await.err(),
        world
            .here
            .semaphore("a", 2)
            .take(1)
            .keep(keep)
            .lock()
            .await
            .err(),
        world.here.mutex("a").keep(millis(1)).lock().await.err(),
    ];
    for (case, error) in refused.iter().enumerate() {
        assert!(
            matches!(error, Some(Error::InvalidOption { option: "keep", .. })),
            "case {case}: {error:?}"
        );
    }
    assert_eq!(world.fault.requests(Request::Acquire), 0);
    let write = world.here.rwlock("a").write().keep(keep);
    drop(write.lock().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn the_loss_of_a_lock_in_use_is_told_although_it_was_kept_before() {
    let world = World::with_a_kept_lease().await;
    let guard = lock(&world.here).lock().await.unwrap();
    world.there.evict(guard.name()).await.unwrap();
    assert_eq!(timeout(secs(1), guard.lost()).await, Ok(Loss::Evicted));
}

//! Single-flight: one caller computes a result, the others wait for it or use the stale value.

use std::future::{Ready, ready};
use std::sync::{Arc, Mutex};

use tenure::driver::{Driver, Loss};
use tenure::{Client, Error, Fence, Lock, Name, Once, Result, Seen};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::{World, millis, secs};

/// A cache with one entry, which refuses writers with a smaller fence.
#[derive(Debug, Clone, Default)]
struct Cache(Arc<Mutex<Entry>>);

#[derive(Debug, Default)]
struct Entry {
    value: Option<u32>,
    stale: bool,
    fence: Option<Fence>,
    made: u32,
}

impl Cache {
    fn seen(&self) -> Seen<u32> {
        let entry = self.0.lock().unwrap();
        match entry.value {
            None => Seen::Missing,
            Some(value) if entry.stale => Seen::Stale(value),
            Some(value) => Seen::Fresh(value),
        }
    }

    fn look(&self) -> Ready<Result<Seen<u32>>> {
        ready(Ok(self.seen()))
    }

    /// Computes the next value, which takes a while.
    async fn make(&self, fence: Fence) -> Result<u32> {
        sleep(millis(500)).await;
        let mut entry = self.0.lock().unwrap();
        assert!(entry.fence < Some(fence), "a newer one is there");
        entry.fence = Some(fence);
        entry.made += 1;
        entry.value = Some(entry.made);
        entry.stale = false;
        Ok(entry.made)
    }

    fn make_stale(&self) {
        self.0.lock().unwrap().stale = true;
    }

    fn made(&self) -> u32 {
        self.0.lock().unwrap().made
    }

    async fn get(&self, lock: &Lock) -> Result<Once<u32>> {
        lock.once(|| self.look(), |fence| self.make(fence)).await
    }

    async fn get_or_stale(&self, lock: &Lock) -> Result<Once<u32>> {
        lock.once_or_stale(|| self.look(), |fence| self.make(fence))
            .await
    }
}

/// Runs many concurrent callers of two clients.
async fn many(world: &World, cache: &Cache, or_stale: bool) -> Vec<Once<u32>> {
    let mut callers = JoinSet::new();
    for caller in 0..200 {
        let client: &Client = if caller % 2 == 0 {
            &world.here
        } else {
            &world.there
        };
        let (lock, cache) = (client.mutex("a"), cache.clone());
        callers.spawn(async move {
            match or_stale {
                true => cache.get_or_stale(&lock).await.unwrap(),
                false => cache.get(&lock).await.unwrap(),
            }
        });
    }
    callers.join_all().await
}

fn count(all: &[Once<u32>], one: Once<u32>) -> usize {
    all.iter().filter(|other| **other == one).count()
}

#[tokio::test(start_paused = true)]
async fn one_of_many_makes_it_and_the_others_find_it() {
    let (world, cache) = (World::new(), Cache::default());
    let all = many(&world, &cache, false).await;
    assert_eq!(cache.made(), 1);
    assert_eq!(count(&all, Once::Made(1)), 1);
    assert_eq!(count(&all, Once::Found(1)), 199);
    world.assert_nothing_left("many callers").await;
}

#[tokio::test(start_paused = true)]
async fn what_is_fresh_asks_no_store() {
    let (world, cache) = (World::new(), Cache::default());
    cache.get(&world.here.mutex("a")).await.unwrap();
    let asked = world
        .fault
        .requests(tenure::conformance::faults::Request::Acquire);
    let found = cache.get(&world.here.mutex("a")).await.unwrap();
    assert_eq!(found, Once::Found(1));
    assert_eq!(
        world
            .fault
            .requests(tenure::conformance::faults::Request::Acquire),
        asked
    );
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_new_one_who_takes_a_stale_one() {
    let (world, cache) = (World::new(), Cache::default());
    let all = many(&world, &cache, true).await;
    assert_eq!(count(&all, Once::Found(1)), 199, "there was no stale one");
    cache.make_stale();
    let all = timeout(millis(600), many(&world, &cache, true))
        .await
        .unwrap();
    assert_eq!(cache.made(), 2);
    assert_eq!(count(&all, Once::Made(2)), 1);
    assert_eq!(count(&all, Once::Stale(1)), 199);
    assert!(
        all.into_iter()
            .map(Once::into_inner)
            .all(|value| value <= 2)
    );
}

#[tokio::test(start_paused = true)]
async fn those_who_take_nothing_stale_wait() {
    let (world, cache) = (World::new(), Cache::default());
    many(&world, &cache, false).await;
    cache.make_stale();
    let all = many(&world, &cache, false).await;
    assert_eq!((cache.made(), count(&all, Once::Found(2))), (2, 199));
}

#[tokio::test(start_paused = true)]
async fn the_next_makes_it_after_one_that_failed() {
    let (world, cache) = (World::new(), Cache::default());
    let lock = world.here.mutex("a");
    let fails = lock.once(
        || cache.look(),
        async |_| {
            sleep(millis(10)).await;
            Err(Error::InvalidOption {
                option: "test",
                reason: "it fails".to_owned(),
            })
        },
    );
    let other = world.there.mutex("a");
    let (failed, made) = tokio::join!(fails, cache.get(&other));
    assert!(matches!(failed, Err(Error::InvalidOption { .. })));
    assert_eq!(made.unwrap(), Once::Made(1));
}

#[tokio::test(start_paused = true)]
async fn a_maker_that_is_dropped_lets_the_next_in() {
    let (world, cache) = (World::new(), Cache::default());
    let cut = timeout(millis(100), cache.get(&world.here.mutex("a"))).await;
    assert!(cut.is_err());
    let made = timeout(secs(5), cache.get(&world.there.mutex("a"))).await;
    assert_eq!(made.unwrap().unwrap(), Once::Made(1));
    assert_eq!(cache.made(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_maker_that_loses_the_lock_stops() {
    let (world, cache) = (World::new(), Cache::default());
    let lock = world.here.mutex("a");
    let evict = async {
        sleep(millis(100)).await;
        let name = Name::new("a").unwrap();
        world.store.evict(&name).await.unwrap();
    };
    let (lost, ()) = tokio::join!(cache.get(&lock), evict);
    let Err(Error::Lost { source, .. }) = lost else {
        panic!("{lost:?}");
    };
    assert_eq!(source, Loss::Evicted);
    sleep(secs(2)).await;
    assert_eq!(cache.made(), 0, "what was being made is not finished");
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_several_hold_makes_nothing_once() {
    let (world, cache) = (World::new(), Cache::default());
    let locks = [
        world.here.rwlock("a").read(),
        world.here.semaphore("b", 2).take(1),
    ];
    for lock in locks {
        let refused = cache.get(&lock).await;
        assert!(matches!(refused, Err(Error::InvalidOption { .. })));
        let refused = cache.get_or_stale(&lock).await;
        assert!(matches!(refused, Err(Error::InvalidOption { .. })));
    }
    assert_eq!(cache.made(), 0);
}

#[test]
fn the_same_without_await() {
    let locks = tenure::blocking::open("memory:once").unwrap();
    let lock = locks.mutex("a");
    let cache = Cache::default();
    let make = |_| {
        let mut entry = cache.0.lock().unwrap();
        entry.made += 1;
        (entry.value, entry.stale) = (Some(entry.made), false);
        Ok::<_, Error>(entry.made)
    };
    assert_eq!(lock.once(|| Ok(cache.seen()), make).unwrap(), Once::Made(1));
    assert_eq!(
        lock.once(|| Ok(cache.seen()), make).unwrap(),
        Once::Found(1)
    );
    cache.make_stale();
    let guard = lock.lock().unwrap();
    let stale = lock.once_or_stale(|| Ok(cache.seen()), make).unwrap();
    assert_eq!(stale, Once::Stale(1));
    drop(guard);
    assert_eq!(lock.once(|| Ok(cache.seen()), make).unwrap(), Once::Made(2));
    let several = locks.rwlock("b").read();
    assert!(several.once(|| Ok(cache.seen()), make).is_err());
}

#[tokio::test]
async fn a_result_that_was_made_past_the_end_of_the_lease_is_not_reported_as_made() {
    let world = World::new();
    let lock = world.here.mutex("a").ttl(millis(30));
    let look = async || Ok(Seen::Missing);
    let block_the_thread = async |_| {
        std::thread::sleep(millis(60));
        Ok::<_, Error>(1)
    };
    let made = lock.once(look, block_the_thread).await;
    assert!(matches!(made, Err(Error::Lost { .. })), "{made:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_an_owner_shares_makes_no_result() {
    let world = World::new();
    let shared = world.here.mutex("a").owner(tenure::Owner::unique());
    let made = shared
        .once(async || Ok(Seen::Missing), async |_| Ok::<_, Error>(1))
        .await;
    assert!(matches!(made, Err(Error::InvalidOption { .. })), "{made:?}");
}

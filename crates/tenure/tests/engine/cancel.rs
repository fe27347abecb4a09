//! Every public async fn may be dropped at every poll, and leaves nothing behind.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;

use tenure::Owner;
use tenure::conformance::faults::{Fault, Request};

use crate::{World, millis, secs};

/// Polls a future up to this many times; returns its output if it was done by then.
async fn polls<T>(times: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut left = times;
    std::future::poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Returns a world in which every request takes a while to arrive, and so does its reply.
fn slow_world(late: Fault) -> World {
    let world = World::new();
    for call in [Request::Acquire, Request::Withdraw, Request::Release] {
        world.fault.always(call, late);
    }
    world
}

const LATE: [Fault; 2] = [
    Fault::LateRequest(millis(10)),
    Fault::LateAnswer(millis(10)),
];

/// Drops a call after 0, 1, 2 … polls, until it completes by itself; `case` returns whether it did.
async fn at_every_poll(case: impl AsyncFn(usize) -> bool) {
    for times in 0..100 {
        if case(times).await {
            return;
        }
    }
    panic!("the call never ended by itself");
}

#[tokio::test(start_paused = true)]
async fn lock_on_a_free_name() {
    for late in LATE {
        at_every_poll(async |times| {
            let world = slow_world(late);
            let done = polls(times, world.here.mutex("a").ttl(secs(3600)).lock())
                .await
                .is_some();
            world
                .assert_nothing_left(&format!("{late:?}, {times} polls"))
                .await;
            done
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn lock_in_line() {
    for late in LATE {
        at_every_poll(async |times| {
            let world = slow_world(late);
            let first = world.there.mutex("a").lock().await.unwrap();
            let lock = world.here.mutex("a").ttl(secs(3600));
            let release = async {
                tokio::time::sleep(millis(50)).await;
                first.release().await.unwrap();
                std::future::pending::<()>().await;
            };
            // Dropped together with the call if that ends first: then it releases on drop.
            let done = tokio::select! {
                done = polls(times, lock.lock()) => done.is_some(),
                () = release => unreachable!(),
            };
            world
                .assert_nothing_left(&format!("{late:?}, {times} polls"))
                .await;
            done
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn lock_behind_another_task_of_the_process() {
    at_every_poll(async |times| {
        let world = slow_world(LATE[0]);
        let first = world.here.mutex("a").lock().await.unwrap();
        let here = world.here.clone();
        let second = tokio::spawn(async move { here.mutex("a").lock().await });
        tokio::time::sleep(millis(30)).await;
        let third = world.here.mutex("a");
        let others = async {
            first.release().await.unwrap();
            second.await.unwrap().unwrap().release().await.unwrap();
        };
        let ask = async { polls(times, third.lock()).await.is_some() };
        let (done, ()) = tokio::join!(ask, others);
        world.assert_nothing_left(&format!("{times} polls")).await;
        done
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn lock_on_a_kept_name() {
    for late in LATE {
        at_every_poll(async |times| {
            let world = slow_world(late);
            let lock = world.here.mutex("a").ttl(secs(3600)).keep(millis(100));
            lock.lock().await.unwrap().release().await.unwrap();
            let done = polls(times, lock.lock()).await.is_some();
            let case = format!("{late:?}, {times} polls");
            world.assert_nothing_left(&case).await;
            done
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn lock_on_a_name_that_is_kept_for_others() {
    for late in LATE {
        at_every_poll(async |times| {
            let world = slow_world(late);
            let kept = world.here.mutex("a").ttl(secs(3600)).keep(secs(3600));
            kept.lock().await.unwrap().release().await.unwrap();
            let lock = world.here.rwlock("a").read().ttl(secs(3600));
            let done = polls(times, lock.lock()).await.is_some();
            let given_back = times > 0 || world.there.mutex("a").lock().await.is_ok();
            assert!(given_back);
            let case = format!("{late:?}, {times} polls");
            world.assert_nothing_left(&case).await;
            done
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn try_lock_on_a_name_that_is_kept_for_others() {
    at_every_poll(async |times| {
        let world = slow_world(LATE[1]);
        let kept = world.here.mutex("a").ttl(secs(3600)).keep(secs(3600));
        kept.lock().await.unwrap().release().await.unwrap();
        let lock = world.here.mutex("a").ttl(secs(1800));
        let done = polls(times, lock.try_lock()).await.is_some();
        let given_back = times > 0 || world.there.mutex("a").lock().await.is_ok();
        assert!(given_back);
        world.assert_nothing_left(&format!("{times} polls")).await;
        done
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn try_lock() {
    for late in LATE {
        at_every_poll(async |times| {
            let world = slow_world(late);
            let lock = world.here.mutex("a").ttl(secs(3600));
            let done = polls(times, lock.try_lock()).await.is_some();
            world
                .assert_nothing_left(&format!("{late:?}, {times} polls"))
                .await;
            done
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn lock_timeout() {
    for patience in [millis(0), millis(5), millis(10), millis(15), millis(60)] {
        at_every_poll(async |times| {
            let world = slow_world(LATE[1]);
            let lock = world.here.mutex("a").ttl(secs(3600));
            let done = polls(times, lock.lock_timeout(patience)).await.is_some();
            world
                .assert_nothing_left(&format!("{patience:?}, {times} polls"))
                .await;
            done
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn lease_by_hand() {
    at_every_poll(async |times| {
        let world = slow_world(LATE[1]);
        let lock = world.here.mutex("a").ttl(secs(3600));
        let lease = polls(times, lock.lease()).await;
        let done = lease.is_some();
        if let Some(lease) = lease {
            world.there.release(&lease.unwrap()).await.unwrap();
        }
        world.assert_nothing_left(&format!("{times} polls")).await;
        done
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn re_entry_keeps_the_outer_hold() {
    for late in LATE {
        at_every_poll(async |times| {
            let world = slow_world(late);
            let lock = world.here.mutex("a").owner(Owner::named("job").unwrap());
            let outer = lock.lock().await.unwrap();
            let done = polls(times, lock.lock()).await.is_some();
            tokio::time::sleep(secs(1)).await;
            assert_eq!(world.holders("a").await, 1, "{late:?}, {times} polls");
            drop(outer);
            world
                .assert_nothing_left(&format!("{late:?}, {times} polls"))
                .await;
            done
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn release() {
    for late in LATE {
        at_every_poll(async |times| {
            let world = slow_world(late);
            let guard = world.here.mutex("a").ttl(secs(3600)).lock().await.unwrap();
            let done = polls(times, guard.release()).await.is_some();
            world
                .assert_nothing_left(&format!("{late:?}, {times} polls"))
                .await;
            done
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn open_leaves_nothing() {
    at_every_poll(async |times| {
        let done = polls(times, tenure::open("memory:cancelled"))
            .await
            .is_some();
        let again = tenure::open("memory:cancelled").await.unwrap();
        assert!(again.list(None).await.unwrap().is_empty());
        done
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn lost_and_list_change_nothing() {
    let world = World::new();
    let guard = world.here.mutex("a").lock().await.unwrap();
    for times in 0..2 {
        assert!(polls(times, guard.lost()).await.is_none());
        let _ = polls(times, world.here.list(None)).await;
    }
    assert_eq!(world.holders("a").await, 1);
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_waiters_that_give_up_leave_nothing() {
    let world = World::new();
    let first = world.there.mutex("a").lock().await.unwrap();
    let mut waiters = tokio::task::JoinSet::new();
    for _ in 0..10_000 {
        let here = world.here.clone();
        waiters.spawn(async move { here.mutex("a").lock_timeout(secs(1)).await.is_err() });
    }
    assert!(waiters.join_all().await.into_iter().all(|gave_up| gave_up));
    world.until_waiting("a", 0).await;
    first.release().await.unwrap();
    world.assert_nothing_left("everybody gave up").await;
}

#[tokio::test(start_paused = true)]
async fn try_lease_and_lease_timeout() {
    at_every_poll(async |times| {
        let world = slow_world(LATE[1]);
        let lock = world.here.mutex("a").ttl(secs(3600));
        let tried = polls(times, lock.try_lease()).await;
        let waited = polls(times, world.here.mutex("b").lease_timeout(secs(60))).await;
        let done = tried.is_some() && waited.is_some();
        let tried = tried.and_then(Result::unwrap);
        let waited = waited.map(Result::unwrap);
        for lease in tried.into_iter().chain(waited) {
            world.there.release(&lease).await.unwrap();
        }
        world.assert_nothing_left(&format!("{times} polls")).await;
        done
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn renew_release_and_evict_by_hand_can_be_called_again() {
    at_every_poll(async |times| {
        let world = slow_world(LATE[0]);
        for call in [Request::Renew, Request::Evict] {
            world.fault.always(call, LATE[0]);
        }
        let lease = world
            .there
            .mutex("a")
            .ttl(secs(3600))
            .lease()
            .await
            .unwrap();
        let renewed = polls(times, world.here.renew(&lease)).await.is_some();
        assert_eq!(
            world.holders("a").await,
            1,
            "{times} polls: a renewal frees nothing"
        );
        let released = polls(times, world.here.release(&lease)).await.is_some();
        let evicted = polls(times, world.here.evict(&lease.name)).await.is_some();
        let _ = polls(times, world.here.settled()).await;
        let _ = world.here.release(&lease).await.unwrap();
        world.assert_nothing_left(&format!("{times} polls")).await;
        renewed && released && evicted
    })
    .await;
}

#[tokio::test]
async fn opening_a_folder_leaves_no_client_behind() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("local:{}", folder.path().display());
    at_every_poll(async |times| {
        let done = polls(times, tenure::open(&url)).await.is_some();
        let again = tenure::open(&url).await.unwrap();
        let guard = again.mutex("a").try_lock().await.unwrap();
        assert!(guard.is_some(), "{times} polls");
        guard.unwrap().release().await.unwrap();
        done
    })
    .await;
}

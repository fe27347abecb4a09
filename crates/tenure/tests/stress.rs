//! Many tasks on several threads, with dropped calls and lost replies: exclusion, growing fences,
//! nothing left behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tenure::conformance::faults::{Fault, FaultyDriver, Request};
use tenure::driver::{Driver, News};
use tenure::store::memory::Memory;
use tenure::{Client, Guard, Health, Lock, Owner};
use tokio::task::{JoinSet, yield_now};
use tokio::time::timeout;

const NAMES: usize = 3;
/// How many tasks each client has.
const CROWD: usize = 12;

const RUN: Duration = Duration::from_secs(4);

/// What the locks protect: counts who is inside.
#[derive(Debug, Default)]
struct Room {
    writers: AtomicU32,
    readers: AtomicU32,
    largest_fence: AtomicU64,
    visits: AtomicU64,
}

impl Room {
    async fn write(&self, guard: Guard, owner: &Owner) {
        let fence = guard.fence().get();
        let before = self.largest_fence.swap(fence, Ordering::SeqCst);
        // The release of its last use may still be in flight, so an owner may join its own lease.
        let joins = guard.owner().as_ref() == Some(owner) && before == fence;
        assert!(
            before < fence || joins,
            "fence {fence} was granted after {before}"
        );
        assert_eq!(
            self.writers.fetch_add(1, Ordering::SeqCst),
            0,
            "two writers"
        );
        assert_eq!(
            self.readers.load(Ordering::SeqCst),
            0,
            "a writer among readers"
        );
        self.visit(&guard).await;
        self.writers.fetch_sub(1, Ordering::SeqCst);
        leave(guard).await;
    }

    async fn read(&self, guard: Guard) {
        self.readers.fetch_add(1, Ordering::SeqCst);
        assert_eq!(
            self.writers.load(Ordering::SeqCst),
            0,
            "a reader beside a writer"
        );
        self.visit(&guard).await;
        self.readers.fetch_sub(1, Ordering::SeqCst);
        leave(guard).await;
    }

    async fn visit(&self, guard: &Guard) {
        for _ in 0..fastrand::u32(..4) {
            yield_now().await;
        }
        assert_eq!(guard.health(), Health::Held);
        self.visits.fetch_add(1, Ordering::SeqCst);
    }
}

async fn leave(guard: Guard) {
    match fastrand::u32(..4) {
        0 => drop(guard),
        1 => {
            let cut_short = timeout(Duration::from_micros(20), guard.release()).await;
            drop(cut_short);
        }
        _ => drop(guard.release().await),
    }
}

/// Returns a plain lock, one that is kept after its release, or one with an owner, at random.
fn mutex(client: &Client, name: &str, owner: &Owner) -> Lock {
    let mutex = client.mutex(name);
    match fastrand::u32(..3) {
        0 => mutex.keep(Duration::from_millis(fastrand::u64(10..200))),
        1 => mutex.owner(owner.clone()),
        _ => mutex,
    }
}

/// Returns a lock for reading, with or without an owner, at random.
fn reader(client: &Client, name: &str, owner: &Owner) -> Lock {
    let read = client.rwlock(name).read();
    match fastrand::bool() {
        true => read.owner(owner.clone()),
        false => read,
    }
}

/// Runs one task: asks in every way, and gives up at random.
async fn work(client: Client, rooms: Arc<[Room; NAMES]>) {
    let end = Instant::now() + RUN;
    // The same in every call: giving up one call must not undo the grant of the next.
    let owner = Owner::unique();
    while goes_on(end, &rooms) {
        let number = fastrand::usize(..NAMES);
        let (name, room) = (format!("room {number}"), &rooms[number]);
        let patience = Duration::from_micros(fastrand::u64(..3000));
        match fastrand::u32(..8) {
            0 => {
                if let Ok(Some(guard)) = mutex(&client, &name, &owner).try_lock().await {
                    room.write(guard, &owner).await;
                }
            }
            1 | 2 => {
                if let Ok(guard) = mutex(&client, &name, &owner).lock_timeout(patience).await {
                    room.write(guard, &owner).await;
                }
            }
            3 => {
                if let Ok(Ok(guard)) =
                    timeout(patience, reader(&client, &name, &owner).lock()).await
                {
                    room.read(guard).await;
                }
            }
            4 => {
                let lock = client.mutex(&name).owner(Owner::unique());
                let Ok(outer) = lock.lock().await else {
                    continue;
                };
                let inner = timeout(patience, lock.lock()).await;
                drop(inner);
                room.write(outer, &owner).await;
            }
            5 => {
                if let Ok(guard) = reader(&client, &name, &owner).lock().await {
                    room.read(guard).await;
                }
            }
            _ => {
                if let Ok(guard) = mutex(&client, &name, &owner).lock().await {
                    room.write(guard, &owner).await;
                }
            }
        }
    }
}

async fn run(crowd: usize, trouble: impl Fn(&FaultyDriver)) {
    let store = Arc::new(Memory::new());
    let rooms: Arc<[Room; NAMES]> = Arc::default();
    let mut faults = Vec::new();
    let mut clients = Vec::new();
    let mut tasks = JoinSet::new();
    for _ in 0..3 {
        let fault = Arc::new(FaultyDriver::around(Arc::new(store.another())));
        let client = Client::with_driver(fault.clone());
        for _ in 0..crowd {
            tasks.spawn(work(client.clone(), Arc::clone(&rooms)));
        }
        faults.push(fault);
        clients.push(client);
    }
    let end = Instant::now() + RUN;
    while goes_on(end, &rooms) {
        // Rarely enough that most requests get through.
        trouble(&faults[fastrand::usize(..faults.len())]);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    faults.iter().for_each(|fault| fault.heal());
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    for client in &clients {
        client.settled().await;
    }
    let left = store.list(None).await.unwrap();
    assert!(left.is_empty(), "left in the store: {left:?}");
}

/// Returns whether there is time left, or too little has happened to show anything on a slow
/// machine.
fn goes_on(end: Instant, rooms: &[Room; NAMES]) -> bool {
    let mut visits = rooms.iter().map(|room| room.visits.load(Ordering::SeqCst));
    Instant::now() < end || visits.any(|visits| visits <= 50)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn calm() {
    run(CROWD, |_| {}).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn answers_are_late() {
    run(CROWD, |fault| {
        let late = Duration::from_micros(fastrand::u64(..500));
        for call in [Request::Acquire, Request::Release, Request::Withdraw] {
            let trouble = if fastrand::bool() {
                Fault::LateAnswer(late)
            } else {
                Fault::LateRequest(late)
            };
            fault.next(call, trouble, fastrand::u32(..4));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn answers_are_lost() {
    run(CROWD, |fault| {
        let calls = [Request::Acquire, Request::Release, Request::Withdraw];
        fault.next(calls[fastrand::usize(..3)], Fault::LoseAnswer, 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_store_is_away_at_times() {
    run(CROWD, |fault| {
        let calls = [Request::Acquire, Request::Release, Request::Withdraw];
        fault.next(calls[fastrand::usize(..3)], Fault::Refuse, 1);
    })
    .await;
}

/// With few tasks most leases are kept for a while before others ask for them.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn few_tasks_call_each_others_leases_back() {
    run(1, |_| {}).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn news_may_have_been_missed_at_times() {
    run(2, |fault| fault.tell(News::AskAgain(None))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn calls_are_late() {
    run(1, |fault| {
        fault.delay_news(Duration::from_micros(fastrand::u64(..2000)));
        let late = Fault::LateAnswer(Duration::from_micros(fastrand::u64(..2000)));
        fault.next(Request::Acquire, late, fastrand::u32(..4));
    })
    .await;
}

//! No update is lost at a resource that checks the fence, whatever happens to the processes.

use std::path::{Path, PathBuf};

use tenure::{Client, Health, Lock, Loss};
use tenure_testkit::Parent;
use tokio::time::sleep;

use crate::register::{Register, check};
use crate::worker::{Worker, answer};
use crate::{assert_nothing_left, entry, folder, millis, open, until, until_waiting, url};

const NAME: &str = "counter";
const WORKERS: usize = 8;
const SHORTEST_TTL_MS: u64 = 300;
const LONGEST_TTL_MS: u64 = 700;

/// How often each fault is injected.
const ROUNDS: usize = 12;

#[tokio::test]
async fn no_update_is_lost_when_the_fence_is_checked() {
    let folder = folder();
    let client = open(folder.path()).await;
    let mut workers: Vec<_> = (0..WORKERS)
        .map(|_| Worker::start("counter", folder.path()))
        .collect();
    storm(&client, &mut workers, folder.path()).await;
    // However slow the machine was meanwhile.
    until("enough updates", async || {
        let tally = check(&Register::open(folder.path()).lines()).unwrap();
        tally.grants >= 100 && tally.contended >= 50
    })
    .await;
    for worker in &mut workers {
        worker.tell("end");
    }
    for mut worker in workers {
        assert_eq!(worker.answer().await, "ended");
        worker.ended().await;
    }
    let tally = check(&Register::open(folder.path()).lines()).unwrap();
    println!("{ROUNDS} of each fault, {tally:?}");
    assert!(tally.refused >= 1, "{tally:?}");
    assert_nothing_left(client, folder.path()).await;
}

/// The same in slow motion: what a stopped holder does after its lease must not count.
#[tokio::test]
async fn a_holder_that_was_stopped_past_its_lease_is_refused_and_knows_it() {
    let folder = folder();
    let client = open(folder.path()).await;
    let (mut ann, mut bob) = (
        Worker::hand(folder.path()).await,
        Worker::hand(folder.path()).await,
    );
    let hers = ann.granted("lock a ttl=400").await;
    assert_eq!(ann.ask("read a").await, "0");
    ann.stop();
    let his = bob.granted("lock a ttl=60000").await;
    assert!(hers < his);
    assert_eq!(bob.ask("read a").await, "0");
    assert_eq!(bob.ask("write a base=0").await, "accepted");
    ann.tell("write a base=0");
    ann.tell("health a");
    ann.tell("lost a");
    ann.tell("release a");
    ann.go_on();
    assert_eq!(ann.answer().await, "refused");
    let lost = [Loss::Expired, Loss::TakenOver, Loss::Gone]
        .map(|loss| format!("{:?}", Health::Lost(loss)));
    let health = ann.answer().await;
    assert!(lost.contains(&health), "{health}");
    ann.answer().await;
    let released = ann.answer().await;
    assert!(released.starts_with("NotHeld"), "{released}");
    // Her release has not affected his lease.
    let holders = entry(&client, "a").await.unwrap().holders;
    assert_eq!(holders.len(), 1);
    assert_eq!(holders[0].fence.get(), his);
    assert_eq!(bob.ask("health a").await, "Held");
    assert_eq!(bob.ask("release a").await, "Released");
    let tally = check(&Register::open(folder.path()).lines()).unwrap();
    assert_eq!((tally.written, tally.refused), (1, 1));
}

/// A waiter that is stopped when its turn comes loses the turn, and gets another.
#[tokio::test]
async fn a_waiter_that_sleeps_through_its_lease_asks_again() {
    let folder = folder();
    let client = open(folder.path()).await;
    let mut ann = Worker::hand(folder.path()).await;
    let guard = client.mutex("a").lock().await.unwrap();
    ann.tell("lock a ttl=300");
    until_waiting(&client, "a", 1).await;
    ann.stop();
    guard.release().await.unwrap();
    // It is granted to her process, which does not know it, and expires after 300 ms.
    let guard = client.mutex("a").lock().await.unwrap();
    let ours = guard.fence().get();
    ann.go_on();
    until_waiting(&client, "a", 1).await;
    guard.release().await.unwrap();
    let hers = ann.told_granted().await;
    assert!(ours < hers, "{ours} was granted before {hers}");
}

/// What can happen to a process.
#[derive(Debug, Clone, Copy)]
enum Fault {
    KillAnybody,
    KillHolder,
    StopAnybody,
    /// Stops it for longer than its lease lasts.
    StopHolder,
}

/// Injects every fault in every round, in random order.
async fn storm(client: &Client, workers: &mut [Worker], folder: &Path) {
    use Fault::{KillAnybody, KillHolder, StopAnybody, StopHolder};
    for _ in 0..ROUNDS {
        let mut faults = [
            KillAnybody,
            KillHolder,
            StopAnybody,
            StopAnybody,
            StopHolder,
        ];
        fastrand::shuffle(&mut faults);
        for fault in faults {
            sleep(millis(fastrand::u64(20..120))).await;
            let victim = match fault {
                KillHolder | StopHolder => holder(client, workers).await,
                KillAnybody | StopAnybody => fastrand::usize(..workers.len()),
            };
            match fault {
                KillAnybody | KillHolder => {
                    workers[victim].kill();
                    workers[victim] = Worker::start("counter", folder);
                }
                StopAnybody => pause_for(&workers[victim], fastrand::u64(1..100)).await,
                StopHolder => {
                    let past = LONGEST_TTL_MS + fastrand::u64(..LONGEST_TTL_MS);
                    pause_for(&workers[victim], past).await;
                }
            }
        }
    }
}

/// Waits until one of the workers holds the lock.
async fn holder(client: &Client, workers: &[Worker]) -> usize {
    let mut found = None;
    until("a holder", async || {
        let entry = entry(client, NAME).await;
        let holder = entry.as_ref().and_then(|entry| entry.holders.first());
        found = workers
            .iter()
            .position(|worker| holder.is_some_and(|holder| holder.about.pid == worker.pid()));
        found.is_some()
    })
    .await;
    found.expect("waited for it")
}

async fn pause_for(worker: &Worker, pause_ms: u64) {
    worker.stop();
    sleep(millis(pause_ms)).await;
    worker.go_on();
}

/// Increments the register until told to end.
pub(crate) async fn counter(folder: PathBuf, commands: Parent) {
    let client = tenure::open(&url(&folder)).await.unwrap();
    let register = Register::open(&folder);
    while !commands.is_next_ready() {
        // Few different values, so that a kept lease often serves the next request.
        let ttl = fastrand::choice([SHORTEST_TTL_MS, LONGEST_TTL_MS]).unwrap();
        let lock = client.mutex(NAME).ttl(millis(ttl));
        let keep = millis(fastrand::choice([0, 20, 200]).unwrap());
        count_once(lock.keep(keep), &register).await;
    }
    drop(client);
    answer("ended");
}

async fn count_once(lock: Lock, register: &Register) {
    let (contended, guard) = match lock.try_lock().await.unwrap() {
        Some(guard) => (false, guard),
        None => (true, lock.lock().await.unwrap()),
    };
    let fence = guard.fence().get();
    let mut refused = true;
    if let Some(base) = register.read(fence, contended) {
        sleep(millis(fastrand::u64(..20))).await;
        refused = !register.write(fence, base);
    }
    let health = guard.health();
    if refused {
        // Somebody else has held the lock since, so this holder must know that its lease is over.
        assert!(matches!(health, Health::Lost(_)), "refused, but {health:?}");
    }
    guard.release().await.unwrap();
}

//! No update is lost at a resource that checks the fence, whatever happens to the processes.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tenure::{Client, Health, Loss};
use tokio::time::sleep;

use crate::register::{Register, check};
use crate::worker::{Orders, Worker, answer};
use crate::{assert_nothing_left, entry, folder, millis, open, until_waiting, url};

const NAME: &str = "counter";
const WORKERS: usize = 8;
const SHORTEST_TTL_MS: u64 = 300;
const LONGEST_TTL_MS: u64 = 700;

/// How long faults are made.
const STORM: Duration = Duration::from_secs(12);

#[tokio::test]
async fn no_update_is_lost_when_the_fence_is_checked() {
    let folder = folder();
    let client = open(folder.path()).await;
    let mut workers: Vec<_> = (0..WORKERS)
        .map(|_| Worker::start("counter", folder.path()))
        .collect();
    let faults = storm(&client, &mut workers, folder.path()).await;
    for worker in &mut workers {
        worker.tell("end");
    }
    for mut worker in workers {
        assert_eq!(worker.answer().await, "ended");
        worker.ended().await;
    }
    let tally = check(&Register::open(folder.path()).lines()).unwrap();
    println!("{tally:?} {faults:?}");
    assert!(tally.grants >= 100, "{tally:?}");
    assert!(tally.contended >= 50, "{tally:?}");
    assert!(tally.refused >= 1, "{tally:?}");
    assert!(faults.kills >= 5, "{faults:?}");
    assert!(faults.stops >= 5, "{faults:?}");
    assert!(faults.long_stops >= 3, "{faults:?}");
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
    // Her release has not touched his lease.
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
    // Granted to her, who does not know, and over after 300 ms.
    let guard = client.mutex("a").lock().await.unwrap();
    let ours = guard.fence().get();
    ann.go_on();
    until_waiting(&client, "a", 1).await;
    guard.release().await.unwrap();
    let hers = ann.told_granted().await;
    assert!(ours < hers, "{ours} was granted before {hers}");
    assert_eq!(ann.ask("health a").await, "Held");
}

/// What was done to the processes.
#[derive(Debug, Default)]
struct Faults {
    kills: usize,
    stops: usize,
    /// Stops of a holder for longer than its lease.
    long_stops: usize,
}

/// Stops and kills, with a taste for whoever holds the lock.
async fn storm(client: &Client, workers: &mut [Worker], folder: &Path) -> Faults {
    let mut faults = Faults::default();
    let begun = Instant::now();
    while begun.elapsed() < STORM {
        sleep(millis(fastrand::u64(20..120))).await;
        let holder = entry(client, NAME)
            .await
            .and_then(|entry| entry.holders.first().map(|holder| holder.about.pid));
        let holder = workers
            .iter()
            .position(|worker| Some(worker.pid()) == holder);
        let anybody = fastrand::usize(..workers.len());
        match fastrand::u32(..10) {
            0..4 => {
                let Some(holder) = holder else { continue };
                let pause = fastrand::u64(SHORTEST_TTL_MS..2 * LONGEST_TTL_MS);
                pause_for(&workers[holder], millis(pause)).await;
                faults.stops += 1;
                faults.long_stops += usize::from(pause > LONGEST_TTL_MS);
            }
            4..6 => {
                pause_for(&workers[anybody], millis(fastrand::u64(1..200))).await;
                faults.stops += 1;
            }
            dice => {
                let victim = holder.filter(|_| dice < 8).unwrap_or(anybody);
                workers[victim].kill();
                workers[victim] = Worker::start("counter", folder);
                faults.kills += 1;
            }
        }
    }
    faults
}

async fn pause_for(worker: &Worker, pause: Duration) {
    worker.stop();
    sleep(pause).await;
    worker.go_on();
}

/// Counts up at the register until told to end.
pub(crate) async fn counter(folder: PathBuf, orders: Orders) {
    let client = tenure::open(&url(&folder)).await.unwrap();
    let register = Register::open(&folder);
    while !orders.are_waiting() {
        let ttl = fastrand::u64(SHORTEST_TTL_MS..LONGEST_TTL_MS);
        count_once(&client, &register, millis(ttl)).await;
    }
    drop(client);
    answer("ended");
}

async fn count_once(client: &Client, register: &Register, ttl: Duration) {
    let lock = client.mutex(NAME).ttl(ttl);
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
        // Somebody else has held the lock since, so this holder must know that it is over.
        assert!(matches!(health, Health::Lost(_)), "refused, but {health:?}");
    }
    guard.release().await.unwrap();
}

//! Processes that lock and release as fast as they can, killed and stopped at any point.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tenure::driver::{
    Answer, Claim, Driver, Entry, News, Release, Released, Renewal, Renewed, Wait,
};
use tenure::store::local::Local;
use tenure::{Client, Error, Fence, Name, Outcome, Owner};
use tenure_testkit::Parent;
use tokio::time::{sleep, timeout};

use crate::history::{Diary, check, check_order, grants, holds};
use crate::worker::{Worker, answer};
use crate::{LONG_MS, PATIENCE, assert_nothing_left, folder, millis, open};

const NAMES: [&str; 3] = ["a", "b", "c"];
const VICTIMS: usize = 6;

#[tokio::test]
async fn a_process_killed_at_any_point_breaks_nothing() {
    let mut scene = Scene::open().await;
    for _ in 0..500 {
        let victim = fastrand::usize(..VICTIMS);
        scene.kill(victim);
        // Some die while they open the store, some in the middle of a request.
        sleep(Duration::from_micros(fastrand::u64(..25_000))).await;
        scene.look().await;
    }
    // The last ones are killed as well, so that all dead processes have to be cleaned up.
    for victim in 0..VICTIMS {
        scene.kill(victim);
    }
    let killed = scene.killed.len();
    assert!(killed >= 500);
    scene.end("killed", killed).await;
}

#[tokio::test]
async fn a_process_stopped_at_any_point_breaks_nothing() {
    let mut scene = Scene::open().await;
    let mut stops = 0;
    for _ in 0..250 {
        let victims: Vec<_> = (0..VICTIMS).filter(|_| fastrand::bool()).collect();
        for victim in &victims {
            scene.victims[*victim].stop();
        }
        stops += victims.len();
        sleep(Duration::from_micros(fastrand::u64(..20_000))).await;
        for victim in victims {
            scene.victims[victim].go_on();
        }
        sleep(Duration::from_micros(fastrand::u64(..20_000))).await;
        scene.look().await;
    }
    assert!(stops >= 500, "{stops}");
    scene.end("stopped", stops).await;
}

/// A directory, the processes that faults hit, and two that only want to make progress.
struct Scene {
    folder: TempDir,
    client: Client,
    steady: Vec<Worker>,
    victims: Vec<Worker>,
    /// A time at which each of them was still alive.
    killed: BTreeMap<u32, u64>,
    /// The last observed state of each name.
    seen: BTreeMap<Name, Entry>,
    waiting_seen: usize,
}

impl Scene {
    async fn open() -> Self {
        let folder = folder();
        let client = open(folder.path()).await;
        let start = |_| Worker::start("churner", folder.path());
        Self {
            steady: (0..2).map(start).collect(),
            victims: (0..VICTIMS).map(start).collect(),
            client,
            killed: BTreeMap::new(),
            seen: BTreeMap::new(),
            waiting_seen: 0,
            folder,
        }
    }

    /// Kills a process and starts another in its place.
    fn kill(&mut self, victim: usize) {
        let pid = self.victims[victim].pid();
        let alive = self.victims[victim].kill();
        // A process id is reused only after tens of thousands of processes.
        assert_eq!(self.killed.insert(pid, alive), None);
        self.victims[victim] = Worker::start("churner", self.folder.path());
    }

    /// Checks who holds and who waits, and compares it with the previous state.
    async fn look(&mut self) {
        for entry in self.client.list(None).await.unwrap() {
            self.waiting_seen += usize::from(entry.waiters.len() > 1);
            if let Some(before) = self.seen.get(&entry.name) {
                check_order(before, &entry).unwrap();
            }
            self.seen.insert(entry.name.clone(), entry);
        }
    }

    /// Waits until enough has happened to prove something, however slow the machine is.
    async fn until_enough(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while self.waiting_seen < 20 || grants(self.folder.path()) < 1000 {
            assert!(Instant::now() < deadline, "the line stands still");
            sleep(millis(20)).await;
            self.look().await;
        }
    }

    /// Lets the living processes finish, and checks what all of them have recorded.
    async fn end(mut self, what: &str, count: usize) {
        self.until_enough().await;
        let (path, mut longest) = (self.folder.path(), Duration::ZERO);
        let mut alive: Vec<_> = self.steady.into_iter().chain(self.victims).collect();
        for worker in &mut alive {
            worker.tell("end");
        }
        for mut worker in alive {
            let waited = worker.answer().await.parse().expect("how long it waited");
            longest = longest.max(millis(waited));
            worker.ended().await;
        }
        let grants = check(holds(path, &self.killed)).unwrap();
        println!("{what} {count}, {grants} grants, longest wait {longest:?}");
        assert_nothing_left(self.client, path).await;
    }
}

/// Locks and releases until told to end; answers the longest wait in milliseconds.
pub(crate) async fn churner(folder: PathBuf, commands: Parent) {
    let churner = Churner {
        diary: Diary::open(&folder),
        folder,
        commands,
    };
    let longest = match fastrand::bool() {
        true => churner.by_driver().await,
        false => churner.by_client().await,
    };
    answer(&longest.as_millis().to_string());
}

struct Churner {
    folder: PathBuf,
    commands: Parent,
    diary: Diary,
}

impl Churner {
    /// Uses the driver directly: every kind of request, without the engine.
    async fn by_driver(&self) -> Duration {
        let local = Local::open(Some(&self.folder)).await.unwrap();
        let mut longest = Duration::ZERO;
        while !self.commands.is_next_ready() {
            let claim = claim(fastrand::choice([Wait::No, Wait::InLine]).unwrap());
            let asked = Instant::now();
            let granted = match local.acquire(&claim).await.unwrap() {
                Answer::Granted(grant) => Some(grant.fence),
                Answer::Queued { .. } if fastrand::u32(..4) > 0 => Some(wait(&local, &claim).await),
                Answer::Queued { .. } => {
                    local.withdraw(&claim).await.unwrap();
                    None
                }
                _ => None,
            };
            longest = longest.max(asked.elapsed());
            if let Some(fence) = granted {
                self.hold(&local, &claim, fence).await;
            }
            tokio::task::yield_now().await;
        }
        longest
    }

    async fn hold(&self, local: &Local, claim: &Claim, fence: Fence) {
        let name = claim.name.as_str();
        self.diary.granted(name, fence.get());
        for _ in 0..fastrand::u32(..3) {
            let renewed = local.renew(&[renewal(claim, fence)]).await.unwrap();
            let valid = claim.ttl;
            assert_eq!(renewed, [Renewed::Extended { fence, valid }]);
        }
        self.diary.releases(name, fence.get());
        if fastrand::bool() {
            let released = local.release(&release(claim, fence)).await.unwrap();
            assert_eq!(released, Released::Freed { left: 0 });
        } else {
            local.withdraw(claim).await.unwrap();
        }
    }

    /// Uses the engine: two tasks, which wait, give up waiting, and pass locks on to each other.
    async fn by_client(&self) -> Duration {
        let client = open(&self.folder).await;
        let (one, other) = tokio::join!(self.task(&client), self.task(&client));
        one.max(other)
    }

    async fn task(&self, client: &Client) -> Duration {
        let mut longest = Duration::ZERO;
        // The same in every call: giving up one call must not undo the grant of the next.
        let owner = Owner::unique();
        while !self.commands.is_next_ready() {
            let name = *fastrand::choice(&NAMES).unwrap();
            let mut lock = client.mutex(name).ttl(millis(LONG_MS));
            if fastrand::bool() {
                lock = lock.owner(owner.clone());
            }
            let asked = Instant::now();
            let guard = match fastrand::u32(..4) {
                0 => lock.try_lock().await.unwrap(),
                1 => {
                    let patience = Duration::from_micros(fastrand::u64(..3_000));
                    match lock.lock_timeout(patience).await {
                        // On a busy machine the store may be silent for as long as in an outage.
                        Err(Error::TimedOut { .. } | Error::Indeterminate { .. }) => None,
                        granted => Some(granted.unwrap()),
                    }
                }
                _ => Some(lock.lock_timeout(PATIENCE).await.unwrap()),
            };
            longest = longest.max(asked.elapsed());
            if let Some(guard) = guard {
                let fence = guard.fence().get();
                self.diary.granted(name, fence);
                if fastrand::u32(..4) == 0 {
                    sleep(millis(1)).await;
                }
                self.diary.releases(name, fence);
                let is_owned = guard.owner().as_ref() == Some(&owner);
                match fastrand::u32(..4) {
                    // An owner would join its own lease, with the same fence, until that is
                    // released.
                    0 if !is_owned => drop(guard),
                    _ => {
                        let outcome = guard.release().await.unwrap();
                        // The claim that the owner gave up last may have been granted, and may not
                        // be undone yet.
                        let is_last = outcome == Outcome::Released;
                        let is_lowered = outcome == Outcome::Lowered { depth: 1 };
                        assert!(is_last || is_owned && is_lowered, "{outcome:?}");
                    }
                }
            }
            tokio::task::yield_now().await;
        }
        longest
    }
}

/// Waits in line for the grant, as the engine would.
async fn wait(local: &Local, claim: &Claim) -> Fence {
    loop {
        let news = timeout(PATIENCE, local.news()).await;
        match news.expect("the line moves on") {
            News::Granted {
                claim: id, grant, ..
            } if id == claim.id => return grant.fence,
            News::AskAgain(_) => {
                if let Answer::Granted(grant) = local.acquire(claim).await.unwrap() {
                    return grant.fence;
                }
            }
            _ => {}
        }
    }
}

fn claim(wait: Wait) -> Claim {
    Claim::new(
        fastrand::choice(&NAMES).unwrap().parse().unwrap(),
        millis(LONG_MS),
    )
    .with_wait(wait)
    .with_fences(fastrand::u32(1..70))
}

fn renewal(claim: &Claim, fence: Fence) -> Renewal {
    Renewal::of(claim).with_fence(fence)
}

fn release(claim: &Claim, fence: Fence) -> Release {
    Release::of(claim).with_fence(fence)
}

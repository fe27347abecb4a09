//! Follows the steps of a task: locks, holds, releases, and records.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tenure::driver::TimeSource;
use tenure::{Client, Error, Guard, Health, Lock, Outcome, Owner, Result};
use tenure_checker::{Freed, Mode, What};

use crate::beliefs::{Asks, Evidence};
use crate::bugs::Bug;
use crate::network::Link;
use crate::plan::{ClientPlan, Cut, End, How, LockSpec, ModeSpec, NameKind, OwnerSpec, Step, Take};
use crate::story;
use crate::world::{World, name};

/// One process of a client: its link, its engine and the locks that its tasks share.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) link: Arc<Link>,
    /// Taken when the client is dropped.
    client: Mutex<Option<Opened>>,
}

/// A client, and locks that were built once for tasks to clone.
#[derive(Debug)]
struct Opened {
    client: Client,
    built: Vec<(LockSpec, Lock)>,
}

impl Process {
    /// Builds the locks that the tasks of a plan share.
    pub(crate) fn new(world: &World, link: Arc<Link>, client: Client, plan: &ClientPlan) -> Self {
        let mut built: Vec<(LockSpec, Lock)> = Vec::new();
        let whole = crate::plan::Plan {
            clients: vec![plan.clone()],
            ..world.plan.clone()
        };
        for spec in whole.locks() {
            let shared = spec.owner == OwnerSpec::TaskByClone;
            if shared && built.iter().all(|(known, _)| known != spec) {
                built.push((spec.clone(), build(world, &client, spec)));
            }
        }
        Self {
            link,
            client: Mutex::new(Some(Opened { client, built })),
        }
    }

    pub(crate) fn client(&self) -> Option<Client> {
        self.slot().as_ref().map(|opened| opened.client.clone())
    }

    /// Drops the client.
    pub(crate) fn drop_client(&self) {
        let client = self.slot().take();
        drop(client);
    }

    fn slot(&self) -> MutexGuard<'_, Option<Opened>> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One task that follows its steps.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) world: Arc<World>,
    pub(crate) process: Arc<Process>,
    pub(crate) number: usize,
}

impl Task {
    /// Follows the steps to their end.
    pub(crate) async fn follow(self, start_ms: u64, steps: Vec<Step>) {
        self.sleep(start_ms).await;
        for step in &steps {
            self.process.link.clock.running().await;
            self.step(step).await;
        }
    }

    async fn step(&self, step: &Step) {
        match step {
            Step::Sleep(ms) => self.sleep(*ms).await,
            Step::Take(take) => self.take(take).await,
            Step::ByHand(by_hand) => self.by_hand(by_hand).await,
            Step::Once { lock, for_ms } => self.once(lock, *for_ms).await,
            Step::Evict(number) => {
                if let Some(client) = self.process.client() {
                    let name = &self.world.names[*number];
                    self.line(|| format!("evicts {name}"));
                    // An unknown outcome does not matter here.
                    let _ = client.evict(name).await;
                }
            }
            Step::List(number) => {
                if let Some(client) = self.process.client() {
                    let _ = client.list(Some(&self.world.names[*number])).await;
                }
            }
            Step::Settle => {
                if let Some(client) = self.process.client() {
                    self.line(|| "waits until the client is settled".to_owned());
                    client.settled().await;
                }
            }
            Step::DropClient => {
                self.line(|| "drops the client".to_owned());
                self.process.drop_client();
            }
        }
    }

    /// Locks, holds and releases.
    fn take<'a>(&'a self, take: &'a Take) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(async move {
            let times = match take.how {
                How::Retry { times, .. } => times,
                _ => 1,
            };
            for _ in 0..times {
                let Some(lock) = self.lock(&take.lock) else {
                    return;
                };
                let (claim, owner) = self.ask(&take.lock, !matches!(take.how, How::Try));
                self.line(|| story::call(claim, take, &owner));
                let call = async {
                    match take.how {
                        How::Lock => lock.lock().await.map(Some),
                        How::Try => lock.try_lock().await,
                        How::Timeout(ms) | How::Retry { timeout_ms: ms, .. } => {
                            lock.lock_timeout(millis(ms)).await.map(Some)
                        }
                    }
                };
                let Some(answer) = self.cut(call, take.cut).await else {
                    self.line(|| format!("drops the call of claim {claim}"));
                    let what = What::Releasing { claim };
                    self.world.answered(self.process.link.process, claim, what);
                    return;
                };
                if let Some(guard) = self.granted(claim, answer) {
                    self.hold(claim, guard, take).await;
                    return;
                }
            }
        })
    }

    async fn hold(&self, claim: u64, guard: Guard, take: &Take) {
        let guard = Arc::new(guard);
        let (link, process) = (&self.process.link, self.process.link.process);
        let fence = guard.fence().get();
        self.line(|| format!("holds {} by claim {claim} with fence {fence}", guard.name()));
        let max_hold = take.lock.max_hold_ms;
        let evidence = Evidence::Guard {
            guard: Arc::downgrade(&guard),
            clock: Arc::clone(&link.clock),
            ends_by: max_hold.map(|ms| link.clock.now() + millis(ms + 1)),
        };
        if let Health::Lost(loss) = guard.health() {
            self.line(|| format!("claim {claim} was over when it was granted: {loss}"));
            return self.world.given_up(process, claim);
        }
        self.world
            .granted(process, claim, &take.lock, fence, evidence);
        let lost = self
            .watch(claim, &guard, take.lock.ttl_ms, take.hold_ms / 2)
            .await;
        if let Some(inner) = take.inner.as_ref().filter(|_| !lost) {
            self.take(inner).await;
        }
        if !lost {
            self.watch(claim, &guard, take.lock.ttl_ms, take.hold_ms.div_ceil(2))
                .await;
        }
        let belief = self.world.releasing(process, claim);
        let Some(guard) = Arc::into_inner(guard) else {
            return;
        };
        let stay = |belief: Option<crate::beliefs::Belief>| {
            if let Some(belief) = belief {
                self.world.stays(claim, &belief);
            }
        };
        match take.end {
            End::Drop => {
                self.line(|| format!("drops the guard of claim {claim}"));
                drop(guard);
                if self.world.plan.is_calm() {
                    stay(belief);
                }
            }
            End::Release => {
                self.line(|| format!("releases claim {claim}"));
                let outcome = guard.release().await;
                if matches!(outcome, Ok(Outcome::Released)) {
                    stay(belief);
                }
                self.released(claim, &outcome);
            }
            End::ReleaseCut(polls) => {
                self.line(|| format!("releases claim {claim}, and drops the call half way"));
                let outcome = self.cut(guard.release(), Some(Cut::Polls(polls))).await;
                if let Some(outcome) = outcome {
                    self.released(claim, &outcome);
                }
            }
        }
    }

    /// Holds for a while; returns whether the lock was lost meanwhile.
    ///
    /// The loss must be reported before the store can grant the lock to somebody else: within the
    /// margin that the guard's own count leaves, unless the machine was suspended.
    async fn watch(&self, claim: u64, guard: &Guard, ttl_ms: u64, hold_ms: u64) -> bool {
        let clock = &self.process.link.clock;
        let until = clock.now() + millis(hold_ms);
        loop {
            let left = guard.time_left();
            let over = matches!(guard.health(), Health::Lost(_));
            let margin = millis(ttl_ms) / 100 + Duration::from_millis(1);
            let look = if over { margin } else { left };
            tokio::select! {
                biased;
                loss = guard.lost() => {
                    clock.running().await;
                    self.line(|| format!("is told that claim {claim} is lost: {loss}"));
                    self.world.lost(claim);
                    return true;
                }
                () = clock.sleep(until.saturating_sub(clock.now())) => return false,
                () = clock.sleep(look) => {}
            }
            if over && !self.world.plan.has_suspends() {
                self.world.recorder.breach("told-in-time", || {
                    format!("claim {claim} is lost, and lost() has not told so when the store may grant it to another")
                });
            }
        }
    }

    /// Records the answer to a claim; returns the guard if it was granted.
    pub(crate) fn granted(&self, claim: u64, answer: Result<Option<Guard>>) -> Option<Guard> {
        match answer {
            Ok(Some(guard)) => return Some(guard),
            Ok(None) => self.refused(claim, "busy"),
            Err(error) => self.failed(claim, &error),
        }
        None
    }

    pub(crate) fn failed(&self, claim: u64, error: &Error) {
        if error.nothing_changed() {
            return self.refused(claim, &error.to_string());
        }
        self.line(|| format!("claim {claim} failed: {error}"));
        let error = error.to_string();
        let what = What::Unknown { claim, error };
        self.world.answered(self.process.link.process, claim, what);
    }

    fn refused(&self, claim: u64, why: &str) {
        self.line(|| format!("claim {claim} is refused: {why}"));
        let what = What::Refused { claim };
        self.world.answered(self.process.link.process, claim, what);
    }

    pub(crate) fn released(&self, claim: u64, outcome: &Result<Outcome>) {
        self.line(|| format!("release of claim {claim}: {outcome:?}"));
        let freed = match outcome {
            Ok(Outcome::Released) => Freed::Freed,
            Ok(Outcome::Lowered { .. }) => Freed::Lowered,
            Ok(_) => Freed::NotHeld,
            Err(_) => Freed::Unknown,
        };
        self.world.released(self.process.link.process, claim, freed);
    }

    /// Records that a claim is about to be sent.
    pub(crate) fn ask(&self, lock: &LockSpec, waits: bool) -> (u64, String) {
        let process = self.process.link.process;
        let owner = match lock.owner {
            OwnerSpec::None => None,
            OwnerSpec::Named(number) => Some(format!("job-{number}")),
            OwnerSpec::Task | OwnerSpec::TaskByClone => {
                Some(format!("process-{process}-task-{}", self.number))
            }
        };
        let mode = match (lock.mode, self.world.plan.names[lock.name]) {
            (ModeSpec::Exclusive, _) => Mode::Exclusive,
            (ModeSpec::Shared, _) => Mode::Shared,
            (ModeSpec::Take(take), NameKind::Semaphore { of }) => Mode::Permits { take, of },
            (ModeSpec::Take(take), NameKind::Lock) => Mode::Permits { take, of: take },
        };
        self.world.ask(Asks {
            process,
            lock,
            mode,
            owner,
            waits,
        })
    }

    /// Returns the lock that a step asks for; `None` if the client is gone.
    pub(crate) fn lock(&self, spec: &LockSpec) -> Option<Lock> {
        let slot = self.process.slot();
        let opened = slot.as_ref()?;
        let found = opened.built.iter().find(|(known, _)| known == spec);
        Some(match found {
            Some((_, lock)) => lock.clone(),
            None => build(&self.world, &opened.client, spec),
        })
    }

    /// Runs a call, and drops it before it is done if the plan says so.
    async fn cut<T>(&self, call: impl Future<Output = T>, cut: Option<Cut>) -> Option<T> {
        let mut call = Box::pin(call);
        match cut {
            None => Some(call.await),
            Some(Cut::Polls(left)) => Polls { call, left }.await,
            Some(Cut::After(ms)) => {
                tokio::select! {
                    biased;
                    output = &mut call => Some(output),
                    () = self.sleep(ms) => None,
                }
            }
        }
    }

    pub(crate) async fn sleep(&self, ms: u64) {
        if ms > 0 {
            self.process.link.clock.sleep(millis(ms)).await;
        }
    }

    pub(crate) fn line(&self, text: impl FnOnce() -> String) {
        self.world.recorder.line(|| {
            let client = self.process.link.called();
            format!("client {client}, task {}: {}", self.number + 1, text())
        });
    }
}

/// Polls a call this often, and drops it at the next wake-up.
struct Polls<F> {
    call: Pin<Box<F>>,
    left: u32,
}

impl<F: Future> Future for Polls<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.left -= 1;
        self.call.as_mut().poll(context).map(Some)
    }
}

/// Builds a lock with its options.
fn build(world: &World, client: &Client, spec: &LockSpec) -> Lock {
    let text = name(spec.name);
    let lock = match (spec.mode, world.plan.names[spec.name]) {
        (ModeSpec::Exclusive, _) => client.mutex(text),
        (ModeSpec::Shared, _) => client.rwlock(text).read(),
        (ModeSpec::Take(take), NameKind::Semaphore { of }) => client.semaphore(text, of).take(take),
        (ModeSpec::Take(take), NameKind::Lock) => client.semaphore(text, take).take(take),
    };
    let mut lock = lock.ttl(millis(spec.ttl_ms));
    if spec.at_least_ms > 0 {
        lock = lock.at_least(millis(spec.at_least_ms));
    }
    if let Some(longest) = spec.max_hold_ms {
        lock = lock.max_hold(millis(longest));
    }
    if spec.keep_ms > 0 {
        lock = lock.keep(millis(spec.keep_ms));
    }
    match spec.owner {
        OwnerSpec::None => lock,
        OwnerSpec::Named(number) => match Owner::named(&format!("job-{number}")) {
            Ok(owner) => lock.owner(owner),
            Err(_) => lock,
        },
        OwnerSpec::TaskByClone if world.planted.is(Bug::ReentryWhereBuilt) => {
            match Owner::named("whoever built it") {
                Ok(owner) => lock.owner(owner),
                Err(_) => lock,
            }
        }
        OwnerSpec::Task | OwnerSpec::TaskByClone => lock.reentrant(),
    }
}

pub(crate) fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

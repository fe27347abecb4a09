//! The workloads, from the side of the process that starts the others.

use std::time::{Duration, Instant};

use rustix::event::Timespec;
use tenure::{Client, DEFAULT_TTL, Name};

use crate::bench::clock::{as_ns, now_ns};
use crate::bench::figures::{Figures, fairness, percentile};
use crate::bench::kind::{Kind, Subject};
use crate::bench::player::Player;
use crate::bench::wire::{Order, Part, Step, Who};
use crate::bench::workload::Workload;
use crate::error::{Failure, Result};
use crate::exit_code;
use crate::store::Store;

/// What all measurements share.
#[derive(Debug)]
pub(super) struct Bench<'a> {
    store: &'a Store,
    /// Only looks at the lines of waiters.
    client: Client,
    kind: &'a dyn Kind,
    time: Duration,
}

impl<'a> Bench<'a> {
    pub(super) fn new(
        store: &'a Store,
        client: Client,
        kind: &'a dyn Kind,
        time: Duration,
    ) -> Self {
        Self {
            store,
            client,
            kind,
            time,
        }
    }

    /// Measures one subject once.
    pub(super) async fn measure(&self, subject: &Subject) -> Result<Figures> {
        let (who, time) = (subject.who.clone(), self.time);
        match subject.workload {
            Workload::Pair => self.alone(subject, Part::Pairs { who, time }, time),
            Workload::Parallel => self.tasks(subject, TASKS),
            Workload::Hot => self.tasks(subject, 1),
            Workload::Handover => self.handover(subject).await,
            Workload::Crowd => self.crowd(subject),
            Workload::Crash => self.crash(subject).await,
            Workload::Idle => self.idle(subject).await,
            Workload::Many => self.many(subject),
        }
    }

    fn tasks(&self, subject: &Subject, names: u32) -> Result<Figures> {
        let (tasks, time) = (TASKS, self.time);
        self.alone(subject, Part::Tasks { tasks, names, time }, time)
    }

    fn many(&self, subject: &Subject) -> Result<Figures> {
        let leases = self.scaled(LEASES.into()).max(100);
        let (ttl, time) = (self.shortened(DEFAULT_TTL), self.shortened(DEFAULT_TTL));
        let leases = u32::try_from(leases).unwrap_or(LEASES);
        self.alone(subject, Part::Many { leases, ttl, time }, time)
    }

    /// A workload of one process.
    fn alone(&self, subject: &Subject, part: Part, time: Duration) -> Result<Figures> {
        self.start(subject, part)?.figures(time)
    }

    /// Two processes in turn: one holds, the other is blocked, and the first lets go.
    async fn handover(&self, subject: &Subject) -> Result<Figures> {
        let steps = || Part::Steps {
            who: subject.who.clone(),
        };
        let mut holder = self.start(subject, steps())?;
        let mut waiter = self.start(subject, steps())?;
        let begun = Instant::now();
        holder.lock()?;
        let mut count = 0_usize;
        // Ends after an even number, so that the first one holds as at the beginning.
        while begun.elapsed() < self.time || count % 2 == 1 {
            waiter.tell(Step::Lock)?;
            self.until_blocked(subject, &waiter).await?;
            holder.tell(Step::Release)?;
            waiter.held()?;
            std::mem::swap(&mut holder, &mut waiter);
            count += 1;
        }
        holder.tell(Step::Release)?;
        let (first, second) = (holder.times()?, waiter.times()?);
        // The first one begins: its release 0 is followed by lock 0 of the second, and so on.
        let there = first.1.iter().zip(&second.0);
        let back = second.1.iter().zip(first.0.iter().skip(1));
        let gaps: Vec<_> = there
            .chain(back)
            .map(|(from, to)| micros(*from, *to))
            .collect();
        Ok(spread(Figures::default(), &gaps, "us").with("handovers", count as f64))
    }

    /// Many processes that want the same lock for a moment each.
    fn crowd(&self, subject: &Subject) -> Result<Figures> {
        let (who, rest, time) = (&subject.who, subject.rest, self.time);
        let part = || Part::Crowd {
            who: who.clone(),
            rest,
            time,
        };
        let players = (0..CROWD).map(|_| self.start(subject, part()));
        let mut players = players.collect::<Result<Vec<_>>>()?;
        let at_ns = now_ns() + as_ns(HEAD_START);
        for player in &mut players {
            player.tell(Step::Go { at_ns })?;
        }
        let (mut shares, mut longest) = (Vec::new(), 0_f64);
        for player in &mut players {
            let figures = player.done(time)?;
            shares.push(figures.find("sections").unwrap_or(0.0));
            longest = longest.max(figures.find("longest_wait_ms").unwrap_or(0.0));
        }
        let sections: f64 = shares.iter().sum();
        Ok(Figures::default()
            .with("per_second", sections / time.as_secs_f64())
            .with("fairness", fairness(&shares))
            .with("longest_wait_ms", longest))
    }

    /// A holder that is killed while another process waits.
    async fn crash(&self, subject: &Subject) -> Result<Figures> {
        let steps = || Part::Steps {
            who: subject.who.clone(),
        };
        let mut waiter = self.start(subject, steps())?;
        let mut killed = Vec::new();
        let begun = Instant::now();
        while killed.is_empty() || begun.elapsed() < self.time {
            let mut holder = self.start(subject, steps())?;
            holder.lock()?;
            waiter.tell(Step::Lock)?;
            self.until_blocked(subject, &waiter).await?;
            killed.push(holder.kill()?);
            waiter.held()?;
            waiter.tell(Step::Release)?;
        }
        let (locked, _) = waiter.times()?;
        let gaps = killed.iter().zip(&locked);
        let gaps: Vec<_> = gaps.map(|(from, to)| micros(*from, *to) / 1000.0).collect();
        Ok(spread(Figures::default(), &gaps, "ms").with("kills", killed.len() as f64))
    }

    /// Many waiters of one process while another one holds the lock.
    async fn idle(&self, subject: &Subject) -> Result<Figures> {
        let mut holder = self.start(subject, Part::Steps { who: Who::Tenure })?;
        holder.lock()?;
        let (waiters, time) = (WAITERS, self.shortened(IDLE));
        let mut waiting = self.start(subject, Part::Idle { waiters, time })?;
        self.until_blocked(subject, &waiting).await?;
        tokio::time::sleep(SETTLE_DOWN).await;
        let before = self.kind.changes();
        waiting.tell(Step::Go { at_ns: now_ns() })?;
        // Not to the very end: then the waiters leave the line, which is a change.
        tokio::time::sleep(time.mul_f64(0.9)).await;
        let after = self.kind.changes();
        let mut figures = waiting.done(time)?;
        if let (Some(before), Some(after)) = (before, after) {
            figures = figures.with("changes", after.saturating_sub(before) as f64);
        }
        holder.tell(Step::Release)?;
        holder.times()?;
        Ok(figures)
    }

    /// Waits until a process stands in line, and a little longer, so that it sleeps.
    async fn until_blocked(&self, subject: &Subject, waiter: &Player) -> Result<()> {
        let give_up = Instant::now() + LONGEST_WAY;
        while !self.is_blocked(subject, waiter).await? {
            if Instant::now() > give_up {
                let sentence = "a process of the benchmark does not get into line";
                return Err(Failure::new(exit_code::UNAVAILABLE, sentence));
            }
            nap(LOOK_AGAIN);
        }
        nap(FALL_ASLEEP);
        Ok(())
    }

    async fn is_blocked(&self, subject: &Subject, waiter: &Player) -> Result<bool> {
        match subject.who {
            Who::Tenure => {
                let name = Name::new(&name_of(subject))?;
                let found = self.client.list(Some(&name)).await?;
                let mut waiters = found.iter().flat_map(|entry| &entry.waiters);
                Ok(waiters.any(|one| one.about.pid == waiter.id()))
            }
            Who::Flock(_) | Who::Lmdb(_) => Ok(waits_for_a_file(waiter.id())),
        }
    }

    fn start(&self, subject: &Subject, part: Part) -> Result<Player> {
        let name = name_of(subject);
        Player::start(self.store, &Order { name, part })
    }

    /// Less for runs whose workloads take less than a second.
    fn shortened(&self, time: Duration) -> Duration {
        time.mul_f64(self.time.as_secs_f64().min(1.0))
    }

    fn scaled(&self, count: u64) -> u64 {
        let time = Duration::from_nanos(count);
        as_ns(self.shortened(time))
    }
}

/// A name of its own for each run and workload.
fn name_of(subject: &Subject) -> String {
    let workload = subject.workload.name();
    format!("tenure-bench/{}/{workload}", std::process::id())
}

/// Whether a process is blocked by a file lock; the kernel marks those with an arrow.
fn waits_for_a_file(process: u32) -> bool {
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    let process = process.to_string();
    let mut blocked = locks.lines().filter(|line| line.contains("->"));
    blocked.any(|line| line.split_whitespace().any(|word| word == process))
}

/// Blocks: Tokio's timer would round up to a millisecond.
fn nap(time: Duration) {
    if let Ok(time) = Timespec::try_from(time) {
        let _ = rustix::thread::nanosleep(&time);
    }
}

fn spread(figures: Figures, gaps: &[f64], unit: &str) -> Figures {
    let (p50, p99) = (percentile(gaps, 50), percentile(gaps, 99));
    figures
        .with(&format!("p50_{unit}"), p50.unwrap_or(0.0))
        .with(&format!("p99_{unit}"), p99.unwrap_or(0.0))
        .with(
            &format!("worst_{unit}"),
            percentile(gaps, 100).unwrap_or(0.0),
        )
}

fn micros(from_ns: u64, to_ns: u64) -> f64 {
    to_ns.saturating_sub(from_ns) as f64 / 1000.0
}

const TASKS: u32 = 64;
const CROWD: u32 = 8;
const WAITERS: u32 = 200;
const LEASES: u32 = 100_000;
const IDLE: Duration = Duration::from_secs(5);

/// How long after the call all processes begin at once.
const HEAD_START: Duration = Duration::from_millis(20);

/// How long it may take to get into line.
const LONGEST_WAY: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_micros(500);
const FALL_ASLEEP: Duration = Duration::from_millis(2);
const SETTLE_DOWN: Duration = Duration::from_millis(200);

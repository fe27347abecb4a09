//! The workloads, as seen by the process that starts the others.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use tenure::{Client, DEFAULT_TTL, Name};

use crate::bench::figures::{Figures, fairness, percentile};
use crate::bench::messages::{Part, Setup, Step, Who};
use crate::bench::report::Round;
use crate::bench::stores::{BenchStore, Counter, Subject};
use crate::bench::worker::Worker;
use crate::bench::workload::Workload;
use crate::clock::{as_ns, now_ns};
use tenure_cli::{Failure, Result, Store};

/// What all measurements share.
#[derive(Debug)]
pub(super) struct Bench<'a> {
    pub(super) store: &'a Store,
    /// Only used to inspect the lines of waiters.
    pub(super) client: Client,
    pub(super) measured: &'a dyn BenchStore,
    pub(super) time: Duration,
    /// Set only while commands are counted.
    pub(super) counter: Option<Box<dyn Counter>>,
}

impl Bench<'_> {
    /// Measures one subject once more to count its commands. Its other figures are discarded.
    pub(super) async fn count(&self, subject: &Subject) -> Result<Figures> {
        let Some(counter) = self.measured.counter()? else {
            return Ok(Figures::default());
        };
        let counting = Bench {
            client: self.client.clone(),
            counter: Some(counter),
            ..*self
        };
        counting.measure(subject).await
    }

    /// Measures one subject once.
    pub(super) async fn measure(&self, subject: &Subject) -> Result<Figures> {
        self.measured.prepare(&subject.who, &name_of(subject))?;
        let time = self.time;
        match subject.workload {
            Workload::Pair | Workload::Dead | Workload::Slow => {
                self.alone(subject, Part::Pairs { time })
            }
            Workload::Keep => self.keep(subject),
            Workload::Parallel => self.tasks(subject, TASKS, Duration::ZERO),
            Workload::Hot => self.tasks(subject, 1, Duration::ZERO),
            Workload::Team => self.tasks(subject, 1, WORK),
            Workload::Handover => self.handover(subject).await,
            Workload::Crowd => self.crowd(subject),
            Workload::Crash => self.crash(subject).await,
            Workload::Idle => self.idle(subject).await,
            Workload::Many => self.many(subject).await,
        }
    }

    /// Measures pairs of all subjects in short turns, each in its own process that exists all the
    /// time. A temporary disturbance of the machine then affects all of them.
    pub(super) fn by_turns(&self, subjects: &[Subject]) -> Result<Vec<Round>> {
        let time = self.time / TURNS;
        let start = |subject: &Subject| {
            self.measured.prepare(&subject.who, &name_of(subject))?;
            self.start(subject, Part::Turns { time })
        };
        let mut workers = subjects.iter().map(start).collect::<Result<Vec<_>>>()?;
        let mut rounds = Vec::new();
        for turn in 0..TURNS as usize {
            let mut round = Round::new();
            for place in 0..subjects.len() {
                // Each subject is first in a turn equally often.
                let next = (place + turn) % subjects.len();
                let before = self.look()?;
                let figures = workers[next].measure(time)?;
                let work = self.look()?.since(before);
                let pairs = figures.find("pairs").unwrap_or(0.0);
                round.insert(subjects[next].label, work.each(figures, pairs));
            }
            rounds.push(round);
        }
        for mut worker in workers {
            worker.send(&Step::End)?;
            worker.figures(Duration::ZERO)?;
            worker.end()?;
        }
        Ok(rounds)
    }

    fn tasks(&self, subject: &Subject, names: u32, work: Duration) -> Result<Figures> {
        let (tasks, time) = (TASKS, self.time);
        let part = Part::Tasks {
            tasks,
            names,
            work,
            time,
        };
        self.alone(subject, part)
    }

    /// Runs a workload that needs one process.
    fn alone(&self, subject: &Subject, part: Part) -> Result<Figures> {
        let mut worker = self.start(subject, part)?;
        let before = self.look()?;
        let figures = worker.measure(self.time)?;
        let work = self.look()?.since(before);
        worker.end()?;
        let pairs = figures.find("pairs").unwrap_or(0.0);
        Ok(work.each(figures, pairs))
    }

    /// Measures pairs on a name that is kept. Then two processes alternate: one keeps the name, the
    /// other claims it.
    ///
    /// The latencies are those of the claims.
    fn keep(&self, subject: &Subject) -> Result<Figures> {
        let figures = self.alone(subject, Part::Pairs { time: self.time })?;
        let mut keeper = self.start(subject, Part::Steps)?;
        let mut claimer = self.start(subject, Part::Steps)?;
        keeper.lock()?;
        keeper.send(&Step::Release)?;
        let begun = Instant::now();
        // At least once, even on a very busy machine.
        loop {
            nap(FALL_ASLEEP);
            claimer.lock()?;
            claimer.send(&Step::Release)?;
            std::mem::swap(&mut keeper, &mut claimer);
            if begun.elapsed() >= self.time {
                break;
            }
        }
        let (one, other) = (keeper.times()?, claimer.times()?);
        let asked = one.asked.iter().chain(&other.asked);
        let claims = asked.zip(one.locked.iter().chain(&other.locked));
        // The very first claim finds a name that nobody kept. This does not change the median.
        let gaps: Vec<_> = claims.map(|(from, to)| micros(*from, *to)).collect();
        Ok(spread(figures, &gaps, "us"))
    }

    /// Lets two processes alternate: one holds, the other is blocked, and the first releases.
    async fn handover(&self, subject: &Subject) -> Result<Figures> {
        let mut holder = self.start(subject, Part::Steps)?;
        let mut waiter = self.start(subject, Part::Steps)?;
        let begun = Instant::now();
        holder.lock()?;
        let before = self.look()?;
        let mut count = 0_usize;
        // Ends after an even number, so that the first process holds as at the beginning; and not
        // before there is something to report, even on a very busy machine.
        while count == 0 || begun.elapsed() < self.time || count % 2 == 1 {
            waiter.send(&Step::Lock)?;
            self.until_blocked(subject, &waiter).await?;
            holder.send(&Step::Release)?;
            waiter.locked()?;
            std::mem::swap(&mut holder, &mut waiter);
            count += 1;
        }
        let work = self.look()?.since(before);
        holder.send(&Step::Release)?;
        let (first, second) = (holder.times()?, waiter.times()?);
        // The first process starts: its release 0 is followed by lock 0 of the second, and so on.
        let there = first.let_go.iter().zip(&second.locked);
        let back = second.let_go.iter().zip(first.locked.iter().skip(1));
        let gaps: Vec<_> = there
            .chain(back)
            .map(|(from, to)| micros(*from, *to))
            .collect();
        let count = count as f64;
        let figures = spread(Figures::default(), &gaps, "us").with("handovers", count);
        Ok(work.each(figures, count))
    }

    /// Lets many processes compete for the same lock and hold it for a moment each.
    fn crowd(&self, subject: &Subject) -> Result<Figures> {
        let (rest, time) = (subject.rest, self.time);
        let workers = (0..CROWD).map(|_| self.start(subject, Part::Crowd { rest, time }));
        let mut workers = workers.collect::<Result<Vec<_>>>()?;
        let before = self.look()?;
        let at_ns = now_ns() + as_ns(HEAD_START);
        for worker in &mut workers {
            worker.send(&Step::Go { at_ns })?;
        }
        let (mut shares, mut acquisitions, mut longest) = (Vec::new(), 0.0, 0_f64);
        for worker in &mut workers {
            let figures = worker.figures(time)?;
            worker.end()?;
            let find = |name| figures.find(name).unwrap_or(0.0);
            shares.push(find("sections"));
            acquisitions += find("acquisitions");
            longest = longest.max(find("longest_wait_ms"));
        }
        let work = self.look()?.since(before);
        let per_second = shares.iter().sum::<f64>() / time.as_secs_f64();
        let turn_ms = f64::from(CROWD) * 1000.0 / per_second;
        let figures = Figures::default()
            .with("per_second", per_second)
            .with("fairness", fairness(&shares))
            .with("longest_wait_ms", longest)
            .with("longest_wait_turns", longest / turn_ms);
        Ok(work.each(figures, acquisitions))
    }

    /// Kills a holder while another process waits.
    async fn crash(&self, subject: &Subject) -> Result<Figures> {
        let mut waiter = self.start(subject, Part::Steps)?;
        let (mut killed, mut ends) = (Vec::new(), Vec::new());
        let begun = Instant::now();
        while killed.is_empty() || begun.elapsed() < self.time {
            let mut holder = self.start(subject, Part::Steps)?;
            holder.lock()?;
            waiter.send(&Step::Lock)?;
            self.until_blocked(subject, &waiter).await?;
            let left = self.left(subject).await?;
            ends.push(now_ns() + as_ns(left));
            killed.push(holder.kill()?);
            waiter.locked()?;
            waiter.send(&Step::Release)?;
        }
        let locked = waiter.times()?.locked;
        let gaps = killed.iter().zip(&locked);
        let gaps: Vec<_> = gaps.map(|(from, to)| micros(*from, *to) / 1000.0).collect();
        let figures = spread(Figures::default(), &gaps, "ms").with("kills", killed.len() as f64);
        if subject.ttl.is_none() {
            return Ok(figures);
        }
        // A negative value would mean a grant before the lease had expired.
        let late = ends.iter().zip(&locked);
        let late: Vec<_> = late.map(|(end, to)| *to as f64 - *end as f64).collect();
        let late: Vec<_> = late.iter().map(|late| late / 1e6).collect();
        Ok(spread(figures, &late, "late_ms"))
    }

    /// Lets many tasks of one process wait while another process holds the lock.
    async fn idle(&self, subject: &Subject) -> Result<Figures> {
        let mut holder = self.start(subject, Part::Steps)?;
        holder.lock()?;
        let (waiters, time) = (WAITERS, self.shortened(IDLE));
        let mut waiting = self.start(subject, Part::Idle { waiters, time })?;
        self.until_blocked(subject, &waiting).await?;
        tokio::time::sleep(SETTLE_DOWN).await;
        let figures = self.held(&mut waiting, time).await?;
        holder.send(&Step::Release)?;
        holder.times()?;
        Ok(figures)
    }

    /// Lets one process hold many leases.
    async fn many(&self, subject: &Subject) -> Result<Figures> {
        let (ttl, time) = (self.shortened(DEFAULT_TTL), self.shortened(DEFAULT_TTL));
        let leases = self.scaled(subject.leases.into()).max(100);
        let leases = u32::try_from(leases).unwrap_or(subject.leases);
        let mut holder = self.start(subject, Part::Many { leases, ttl, time })?;
        self.held(&mut holder, time).await
    }

    /// Measures a process that holds or waits for some time, and should cost next to nothing.
    async fn held(&self, worker: &mut Worker, time: Duration) -> Result<Figures> {
        let before = self.look()?;
        worker.send(&Step::Go { at_ns: now_ns() })?;
        // Stops before the very end, because releasing and leaving the line are changes.
        let watched = time.mul_f64(0.9);
        tokio::time::sleep(watched).await;
        let work = self.look()?.since(before);
        let figures = worker.figures(time)?;
        worker.end()?;
        Ok(work.over(figures, watched))
    }

    /// Returns what the store and its server have done so far.
    fn look(&self) -> Result<Work> {
        let counter = self.counter.as_ref();
        Ok(Work {
            changes: self.measured.changes(),
            commands: counter.map(|counter| counter.commands()).transpose()?,
            server_time: self.measured.server_time(),
        })
    }

    /// Returns how much of the holder's lease is left.
    async fn left(&self, subject: &Subject) -> Result<Duration> {
        if subject.who != Who::Tenure {
            return Ok(Duration::ZERO);
        }
        let name = Name::new(&name_of(subject))?;
        let found = self.client.list(Some(&name)).await?;
        let holders = found.iter().flat_map(|entry| &entry.holders);
        let left = holders.map(|holder| holder.expires_in).max();
        Ok(left.unwrap_or(Duration::ZERO))
    }

    /// Waits until a process is in line, and a little longer, so that it is asleep.
    async fn until_blocked(&self, subject: &Subject, waiter: &Worker) -> Result<()> {
        let give_up = Instant::now() + LONGEST_WAY;
        while !self.is_blocked(subject, waiter).await? {
            if Instant::now() > give_up {
                let sentence = "a process of the benchmark does not join the line of waiters";
                return Err(Failure::unavailable(sentence));
            }
            nap(LOOK_AGAIN);
        }
        nap(FALL_ASLEEP);
        Ok(())
    }

    async fn is_blocked(&self, subject: &Subject, waiter: &Worker) -> Result<bool> {
        if subject.who != Who::Tenure {
            return self.measured.is_blocked(waiter.id());
        }
        let name = Name::new(&name_of(subject))?;
        let found = self.client.list(Some(&name)).await?;
        let mut waiters = found.iter().flat_map(|entry| &entry.waiters);
        Ok(waiters.any(|one| one.about.pid == waiter.id()))
    }

    fn start(&self, subject: &Subject, part: Part) -> Result<Worker> {
        let setup = Setup {
            name: name_of(subject),
            who: subject.who.clone(),
            ttl: subject.ttl,
            keep: subject.keep,
            part,
        };
        match (&subject.url, subject.options) {
            (Some(url), _) => Worker::start(url, &setup),
            (None, "") => Worker::start(self.store.url(), &setup),
            (None, options) => Worker::start(self.store.with_option(options).url(), &setup),
        }
    }

    /// Returns a shorter time if workloads take less than a second.
    fn shortened(&self, time: Duration) -> Duration {
        time.mul_f64(self.time.as_secs_f64().min(1.0))
    }

    fn scaled(&self, count: u64) -> u64 {
        let time = Duration::from_nanos(count);
        as_ns(self.shortened(time))
    }
}

/// Returns a name for each run, workload and subject, all of the same length.
fn name_of(subject: &Subject) -> String {
    let (process, workload) = (std::process::id(), subject.workload.name());
    let mut hasher = DefaultHasher::new();
    subject.label.hash(&mut hasher);
    let label = hasher.finish();
    format!("tenure-bench/{process}/{workload}/{label:016x}")
}

/// The work that was done; `None` where it is not known.
#[derive(Debug, Clone, Copy)]
struct Work {
    changes: Option<u64>,
    commands: Option<u64>,
    server_time: Option<Duration>,
}

impl Work {
    /// Returns the work that was done since `before`.
    fn since(self, before: Self) -> Self {
        let less = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        let server_time = self.server_time.zip(before.server_time);
        Self {
            changes: less(self.changes, before.changes),
            commands: less(self.commands, before.commands),
            server_time: server_time.map(|(now, then)| now.saturating_sub(then)),
        }
    }

    /// Adds the work per operation.
    fn each(self, mut figures: Figures, operations: f64) -> Figures {
        if let Some(commands) = self.commands {
            // In hundredths: a few commands at both ends belong to no operation.
            let hundredths = (100.0 * commands as f64 / operations).round();
            figures = figures.with("commands_each", hundredths / 100.0);
        }
        if let Some(time) = self.server_time {
            figures = figures.with("server_us_each", time.as_secs_f64() * 1e6 / operations);
        }
        figures
    }

    /// Adds the work per time.
    fn over(self, mut figures: Figures, time: Duration) -> Figures {
        if let Some(changes) = self.changes {
            figures = figures.with("changes", changes as f64);
        }
        if let Some(commands) = self.commands {
            figures = figures.with("commands_per_second", commands as f64 / time.as_secs_f64());
        }
        if let Some(used) = self.server_time {
            figures = figures.with("server_percent", 100.0 * used.div_duration_f64(time));
        }
        figures
    }
}

/// Blocks the thread, because Tokio's timer would round up to a millisecond.
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

/// How many turns a round has.
const TURNS: u32 = 8;

const TASKS: u32 = 64;
const CROWD: u32 = 8;
const WAITERS: u32 = 200;

/// How long a task of the workload `team` works with the lock.
const WORK: Duration = Duration::from_millis(1);
const IDLE: Duration = Duration::from_secs(5);

/// How long after the message all processes start at once.
const HEAD_START: Duration = Duration::from_millis(20);

/// How long it may take to join the line.
const LONGEST_WAY: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_micros(500);
const FALL_ASLEEP: Duration = Duration::from_millis(2);
const SETTLE_DOWN: Duration = Duration::from_millis(200);

//! One sale with one lock, from the first copy that is started to the last that has ended.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tenure::Name;
use tenure_testkit::Port;
use tokio::task::JoinSet;

use super::buyers;
use super::crew::Copy;
use super::fault::{Faults, Times};
use super::front::Front;
use super::live::{Live, Order, Orders};
use super::lock::LockKind;
use super::record::{FaultKind, Outcome, Record, Sale, Totals};
use super::stage::Stage;
use super::stock::Stock;
use super::verdict;
use super::wire::Settings;
use tenure_cli::error::{Failure, Result};
use tenure_cli::exit_code;
use tenure_cli::output::millis;

/// How a sale ended, and what was ordered meanwhile.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) record: Record,
    /// Another sale that somebody wants instead.
    pub(super) next: Option<LockKind>,
}

/// Holds one sale.
///
/// # Cancel safety
///
/// Cancel safe: the processes end with the call.
pub(super) async fn hold(
    stage: &Stage,
    lock: LockKind,
    live: &Live,
    orders: &mut Orders,
) -> Result<Held> {
    let stock = stage.shelf.open().await?;
    stock.fill(stage.args.stock()).await?;
    let name = Stage::name()?;
    let held = hold_with(stage, lock, &name, stock.as_ref(), live, orders).await;
    stock.remove(name.as_str()).await?;
    held
}

async fn hold_with(
    stage: &Stage,
    lock: LockKind,
    name: &Name,
    stock: &dyn Stock,
    live: &Live,
    orders: &mut Orders,
) -> Result<Held> {
    let args = &stage.args;
    let copies = crew(stage, lock, name).await?;
    let ports: Vec<_> = copies.iter().map(|copy| copy.port()).collect();
    let front = Front::start(args.front, args.port, &ports, stage.folder.path())?;
    let pids: Vec<_> = copies
        .iter()
        .map(|copy| (copy.number(), copy.pid()))
        .collect();
    let line = (lock == LockKind::Tenure).then(|| (stage.client.clone(), name.clone()));
    live.begin(lock, args.stock(), args.buyers(), &pids, line);
    let began_unix_ms = unix_ms();
    let mut faults = Faults::new(times(stage), live);
    arm(stage, lock, &copies, &mut faults);
    let load = buyers::start(front.port(), args.buyers(), args.at_once(), live);
    let end = until_over(stage, lock, &copies, load, &mut faults, live, orders).await?;
    let finished = faults.finish().await;
    if lock == LockKind::Tenure {
        finished?;
    }
    let seconds = live.now_us() as f64 / 1e6;
    let (sales, faults) = live.end();
    let front_name = front.name().to_owned();
    drop(front);
    for copy in copies {
        copy.end().await;
    }
    let totals = Totals::of(&sales, args.stock(), stock.counted().await?);
    live.sum_up(totals);
    let mut record = Record {
        lock: lock.name(),
        store: stage.shown(),
        front: front_name,
        copies: args.copies,
        stock: args.stock(),
        buyers: args.buyers(),
        at_once: args.at_once(),
        ttl_ms: millis(args.ttl),
        began_unix_ms,
        seconds,
        stuck: matches!(end, End::Stuck),
        sales,
        faults,
        totals,
        broken: Vec::new(),
    };
    if lock == LockKind::Tenure && !matches!(end, End::Ordered(_)) {
        record.broken = verdict::broken(&record, &args.faults());
    }
    let next = match end {
        End::Ordered(next) => next,
        End::Served | End::Stuck => None,
    };
    Ok(Held { record, next })
}

/// Starts the copies, one after another.
async fn crew(stage: &Stage, lock: LockKind, name: &Name) -> Result<Vec<Arc<Copy>>> {
    let mut copies = Vec::new();
    for number in 1..=stage.args.copies {
        let port = Port::free().map_err(|error| {
            Failure::new(
                exit_code::UNAVAILABLE,
                format!("no port for a copy: {error}"),
            )
        })?;
        let settings = Settings {
            number,
            port: port.number(),
            lock,
            name: name.as_str().to_owned(),
            store: stage.store.url().to_owned(),
            shelf: stage.shelf.clone(),
            ttl_ms: millis(stage.args.ttl),
            think_ms: millis(stage.args.think()),
            folder: stage.folder.path().to_owned(),
        };
        copies.push(Arc::new(Copy::start(settings, port).await?));
    }
    Ok(copies)
}

/// Lets the faults that were asked for come one after another while the stock lasts, each to a copy of
/// its own if there are enough.
fn arm(stage: &Stage, lock: LockKind, copies: &[Arc<Copy>], faults: &mut Faults) {
    for (kind, copy) in stage
        .args
        .faults()
        .into_iter()
        .zip(copies.iter().rev().cycle())
    {
        let tenths = match kind {
            FaultKind::Kill => 1,
            FaultKind::Slow => 2,
            FaultKind::Pause => 3,
        };
        // Nobody waits for a sale that holds nothing.
        if kind == FaultKind::Slow && lock == LockKind::None {
            continue;
        }
        faults.arm(kind, copy, stage.args.stock() * tenths / 10);
    }
}

/// Why a sale is over.
#[derive(Debug, Clone, Copy)]
enum End {
    /// Every buyer was answered.
    Served,
    /// Nobody is answered any more.
    Stuck,
    /// Somebody wanted it, and maybe another sale.
    Ordered(Option<LockKind>),
}

async fn until_over(
    stage: &Stage,
    lock: LockKind,
    copies: &[Arc<Copy>],
    mut load: JoinSet<()>,
    faults: &mut Faults,
    live: &Live,
    orders: &mut Orders,
) -> Result<End> {
    let mut watch = Stillness::new(patience(stage));
    let mut look = tokio::time::interval(LOOK);
    let find = |number: u32| copies.iter().find(|copy| copy.number() == number);
    loop {
        tokio::select! {
            ended = load.join_next() => if ended.is_none() {
                return Ok(End::Served);
            },
            // The copies of a broken lock may crash; then the fault has not happened.
            failure = faults.failed() => if lock == LockKind::Tenure {
                return Err(failure);
            },
            order = orders.next() => match order {
                Order::Start(lock) => return Ok(End::Ordered(Some(lock))),
                Order::Stop => return Ok(End::Ordered(None)),
                Order::Pause(number) => if let Some(copy) = find(number) {
                    faults.arm(FaultKind::Pause, copy, 0);
                },
                Order::Kill(number) => if let Some(copy) = find(number) {
                    faults.arm(FaultKind::Kill, copy, 0);
                },
            },
            _ = look.tick() => if watch.is_stuck(live) {
                load.shutdown().await;
                give_up(live);
                return Ok(End::Stuck);
            },
        }
    }
}

/// Notices that nobody is answered any more.
#[derive(Debug)]
struct Stillness {
    patience: Duration,
    answered: u64,
    since: Instant,
}

impl Stillness {
    fn new(patience: Duration) -> Self {
        Self {
            patience,
            answered: 0,
            since: Instant::now(),
        }
    }

    fn is_stuck(&mut self, live: &Live) -> bool {
        let (_, answered) = live.progress();
        if answered != self.answered {
            (self.answered, self.since) = (answered, Instant::now());
        }
        self.since.elapsed() > self.patience
    }
}

/// Counts those who still wait as errors.
fn give_up(live: &Live) {
    let (asked, answered) = live.progress();
    let at_us = live.now_us();
    for _ in answered..asked {
        live.answered(Sale {
            at_us,
            copy: 0,
            left: 0,
            waited_us: 0,
            took_us: 0,
            outcome: Outcome::Error,
            fence: None,
        });
    }
}

fn times(stage: &Stage) -> Times {
    Times {
        slow: stage.args.slow.unwrap_or_default(),
        // Its own lease, and the one that the next in line of the same copy gets meanwhile.
        pause: 2 * stage.args.ttl + PAST_THE_LEASE,
    }
}

/// Longer than any fault, and than any lease that somebody may have to wait for.
fn patience(stage: &Stage) -> Duration {
    let times = times(stage);
    times.slow + times.pause + stage.args.ttl + 10 * stage.args.think() + SPARE
}

fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, millis)
}

const PAST_THE_LEASE: Duration = Duration::from_secs(2);
const SPARE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(100);

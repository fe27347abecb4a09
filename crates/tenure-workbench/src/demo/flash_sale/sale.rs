//! One sale with one lock, from the start of the first copy to the end of the last.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tenure::Name;
use tenure_testkit::Port;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;

use super::balancer::Balancer;
use super::buyers;
use super::faults::{Faults, Times};
use super::live::{Command, Live};
use super::lock_kind::LockKind;
use super::messages::Settings;
use super::process::Copy;
use super::record::{FaultKind, Record, Sale, Totals};
use super::setup::Setup;
use super::stock::Stock;
use super::verdict;
use tenure_cli::output::millis;
use tenure_cli::{Failure, Result};

/// How a sale ended.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) record: Record,
    /// Another sale that the user started instead.
    pub(super) next: Option<LockKind>,
}

/// Holds one sale.
///
/// # Cancel safety
///
/// Cancel safe: the processes end with the call.
pub(super) async fn hold(
    setup: &Setup,
    lock: LockKind,
    live: &Live,
    commands: &mut UnboundedReceiver<Command>,
) -> Result<Finished> {
    let stock = setup.stock.open().await?;
    stock.fill(setup.args.stock()).await?;
    let name = Setup::name()?;
    let held = hold_with(setup, lock, &name, stock.as_ref(), live, commands).await;
    stock.remove(name.as_str()).await?;
    held
}

async fn hold_with(
    setup: &Setup,
    lock: LockKind,
    name: &Name,
    stock: &dyn Stock,
    live: &Live,
    commands: &mut UnboundedReceiver<Command>,
) -> Result<Finished> {
    let args = &setup.args;
    let copies = start_copies(setup, lock, name).await?;
    let ports: Vec<_> = copies.iter().map(|copy| copy.settings.port).collect();
    let balancer = Balancer::start(args.front, args.port, &ports, setup.folder.path())?;
    let record = Record {
        lock: lock.name(),
        store: setup.shown(),
        front: balancer.name.to_owned(),
        copies: args.copies,
        stock: args.stock(),
        buyers: args.buyers(),
        at_once: args.at_once(),
        ttl_ms: millis(args.ttl),
        began_unix_ms: unix_ms(),
        ..Record::default()
    };
    let queue = (lock == LockKind::Tenure).then(|| (setup.client.clone(), name.clone()));
    let processes = copies.iter().map(|copy| (copy.settings.number, copy.pid()));
    live.begin(record, processes, queue);
    let mut faults = Faults::new(times(setup), live);
    arm(setup, lock, &copies, &mut faults);
    let load = buyers::start(balancer.port, args.buyers(), args.at_once(), live);
    let end = until_over(setup, lock, &copies, load, &mut faults, live, commands).await?;
    let finished = faults.finish().await;
    if lock == LockKind::Tenure {
        finished?;
    }
    let mut record = live.end();
    drop(balancer);
    for copy in copies {
        copy.end().await;
    }
    record.stuck = matches!(end, End::Stuck);
    record.totals = Totals::of(&record.sales, record.stock, stock.counted().await?);
    let next = match end {
        End::Commanded(next) => next,
        End::Served | End::Stuck => {
            if lock == LockKind::Tenure {
                record.broken = verdict::broken(&record, &args.faults());
            }
            None
        }
    };
    live.finish(&record);
    Ok(Finished { record, next })
}

/// Starts the copies, one after another.
async fn start_copies(setup: &Setup, lock: LockKind, name: &Name) -> Result<Vec<Arc<Copy>>> {
    let mut copies = Vec::new();
    for number in 1..=setup.args.copies {
        let port = Port::free()
            .map_err(|error| Failure::unavailable(format!("no port for a copy: {error}")))?;
        let settings = Settings {
            number,
            port: port.number(),
            lock,
            name: name.as_str().to_owned(),
            store: setup.store.url().to_owned(),
            stock: setup.stock.clone(),
            pieces: setup.args.stock(),
            ttl_ms: millis(setup.args.ttl),
            think_ms: millis(setup.args.think()),
            folder: setup.folder.path().to_owned(),
        };
        copies.push(Arc::new(Copy::start(settings, port).await?));
    }
    Ok(copies)
}

/// Schedules the requested faults one after another while the stock lasts, each for a different
/// copy if there are enough.
fn arm(setup: &Setup, lock: LockKind, copies: &[Arc<Copy>], faults: &mut Faults) {
    let kinds = setup.args.faults().into_iter();
    for (kind, copy) in kinds.zip(copies.iter().rev().cycle()) {
        let tenths = match kind {
            FaultKind::Kill => 1,
            FaultKind::Slow => 2,
            FaultKind::Pause => 3,
        };
        // Nobody waits for a sale that holds no lock.
        if kind == FaultKind::Slow && lock == LockKind::None {
            continue;
        }
        faults.arm(kind, copy, setup.args.stock() * tenths / 10);
    }
}

/// Why a sale is over.
#[derive(Debug, Clone, Copy)]
enum End {
    /// Every buyer was answered.
    Served,
    /// Buyers are no longer answered.
    Stuck,
    /// The user ended it, and may have started another sale.
    Commanded(Option<LockKind>),
}

async fn until_over(
    setup: &Setup,
    lock: LockKind,
    copies: &[Arc<Copy>],
    mut load: JoinSet<()>,
    faults: &mut Faults,
    live: &Live,
    commands: &mut UnboundedReceiver<Command>,
) -> Result<End> {
    let mut stuck = pin!(live.until_stuck(patience(setup)));
    let find = |number: u32| copies.iter().find(|copy| copy.settings.number == number);
    loop {
        tokio::select! {
            ended = load.join_next() => if ended.is_none() {
                return Ok(End::Served);
            },
            // The copies of a broken lock may crash. The fault then did not happen.
            failure = faults.failed() => if lock == LockKind::Tenure {
                return Err(failure);
            },
            Some(command) = commands.recv() => match command {
                Command::Start(lock) => return Ok(End::Commanded(Some(lock))),
                Command::Stop => return Ok(End::Commanded(None)),
                Command::Pause(number) => if let Some(copy) = find(number) {
                    faults.arm(FaultKind::Pause, copy, 0);
                },
                Command::Kill(number) => if let Some(copy) = find(number) {
                    faults.arm(FaultKind::Kill, copy, 0);
                },
            },
            () = &mut stuck => {
                load.shutdown().await;
                count_unanswered(live);
                return Ok(End::Stuck);
            },
        }
    }
}

/// Counts the buyers who are still waiting as errors.
fn count_unanswered(live: &Live) {
    let (asked, answered) = live.progress();
    let at_us = live.now_us();
    for _ in answered..asked {
        live.answered(Sale::unanswered(at_us, 0));
    }
}

fn times(setup: &Setup) -> Times {
    Times {
        slow: setup.args.slow.unwrap_or_default(),
        // Its own lease, and the lease that the next in line of the same copy gets meanwhile.
        pause: 2 * setup.args.ttl + PAST_THE_LEASE,
    }
}

/// Returns how long to wait for an answer: longer than any fault, and than any lease that a sale
/// may have to wait for.
fn patience(setup: &Setup) -> Duration {
    let times = times(setup);
    times.slow + times.pause + setup.args.ttl + 10 * setup.args.think() + SPARE
}

fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, millis)
}

const PAST_THE_LEASE: Duration = Duration::from_secs(2);
const SPARE: Duration = Duration::from_secs(10);

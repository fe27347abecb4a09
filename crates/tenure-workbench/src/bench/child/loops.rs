//! Workloads that lock and release as fast as they can.

use std::time::Duration;

use hdrhistogram::Histogram;
use tenure_testkit::Parent;
use tokio::task::JoinSet;

use crate::bench::child::{Figures, ready};
use crate::bench::contender::Contender;
use crate::bench::messages::{Message, Step};
use crate::clock::{as_ns, now_ns};
use crate::process::OrFail;
use tenure_cli::{Failure, Result};

/// Locks and releases in a loop.
pub(super) async fn pairs(
    mut contender: Contender,
    time: Duration,
    parent: &mut Parent,
) -> Result<Figures> {
    pairs_for(&mut contender, warm_up(time), |_| {}).await?;
    ready(parent).await?;
    count_pairs(&mut contender, time).await
}

/// Does the same in turns, while the contenders that it is compared with are idle.
pub(super) async fn turns(
    mut contender: Contender,
    time: Duration,
    parent: &mut Parent,
) -> Result<Figures> {
    pairs_for(&mut contender, time, |_| {}).await?;
    Parent::send(&Message::Ready)?;
    while let Step::Go { .. } = parent.next().await.or_fail()? {
        let figures = count_pairs(&mut contender, time).await?;
        Parent::send(&Message::Figures(figures))?;
    }
    Ok(Figures::default())
}

/// Runs one turn, without messages to the parent.
pub(super) async fn count_pairs(contender: &mut Contender, time: Duration) -> Result<Figures> {
    let latencies = Histogram::<u64>::new_with_bounds(1, LONGEST_NS, 3);
    let mut latencies = latencies
        .map_err(|error| Failure::unavailable(format!("latencies cannot be counted: {error}")))?;
    let note = |latency| latencies.saturating_record(latency);
    let (pairs, took_ns) = pairs_for(contender, time, note).await?;
    let micros = |quantile| latencies.value_at_quantile(quantile) as f64 / 1000.0;
    Ok(rate(pairs, took_ns)
        .with("pair_us", took_ns as f64 / 1000.0 / pairs as f64)
        .with("p50_us", micros(0.5))
        .with("p99_us", micros(0.99)))
}

/// Returns how many pairs were made, and in how many nanoseconds.
async fn pairs_for(
    contender: &mut Contender,
    time: Duration,
    mut note: impl FnMut(u64),
) -> Result<(u64, u64)> {
    let (begun, time) = (now_ns(), as_ns(time));
    let (mut last, mut pairs) = (begun, 0);
    while last - begun < time {
        contender.acquire().await?;
        contender.release().await?;
        let now = now_ns();
        note(now - last);
        last = now;
        pairs += 1;
    }
    Ok((pairs, last - begun))
}

/// Locks and releases in many tasks at once, and does some work while holding the lock.
pub(super) async fn tasks(
    contenders: Vec<Contender>,
    work: Duration,
    time: Duration,
    parent: &mut Parent,
) -> Result<Figures> {
    let warm = now_ns() + as_ns(warm_up(time));
    let (contenders, _) = tasks_until(contenders, work, warm).await?;
    ready(parent).await?;
    let begun = now_ns();
    let (_, pairs) = tasks_until(contenders, work, begun + as_ns(time)).await?;
    let took_ns = now_ns() - begun;
    let figures = rate(pairs, took_ns);
    if work.is_zero() {
        return Ok(figures);
    }
    let working = (as_ns(work) * pairs) as f64;
    Ok(figures.with("ideal_percent", 100.0 * working / took_ns as f64))
}

/// Returns the contenders, and how many pairs they made.
async fn tasks_until(
    contenders: Vec<Contender>,
    work: Duration,
    end: u64,
) -> Result<(Vec<Contender>, u64)> {
    let mut tasks = JoinSet::new();
    for mut contender in contenders {
        tasks.spawn(async move {
            let mut pairs = 0_u64;
            while now_ns() < end {
                // Otherwise a task whose calls never wait would keep the thread to itself, and the
                // other tasks would never run.
                if !acquire_and_tell(&mut contender).await? {
                    tokio::task::yield_now().await;
                }
                if !work.is_zero() {
                    work_until(now_ns() + as_ns(work));
                }
                contender.release().await?;
                pairs += 1;
            }
            Ok::<_, Failure>((contender, pairs))
        });
    }
    let (mut contenders, mut pairs) = (Vec::new(), 0);
    while let Some(ended) = tasks.join_next().await {
        let (contender, made) = ended.map_err(|error| {
            Failure::unavailable(format!("a task of the benchmark failed: {error}"))
        })??;
        contenders.push(contender);
        pairs += made;
    }
    Ok((contenders, pairs))
}

/// Waits for the lock; returns whether the caller had to wait.
async fn acquire_and_tell(contender: &mut Contender) -> Result<bool> {
    let mut asked = std::pin::pin!(contender.acquire());
    let mut waited = false;
    let acquired = std::future::poll_fn(|context| {
        let answer = asked.as_mut().poll(context);
        waited |= answer.is_pending();
        answer
    });
    acquired.await?;
    Ok(waited)
}

/// Competes with other processes; works for a moment while it holds the lock.
pub(super) async fn crowd(
    mut contender: Contender,
    rest: Duration,
    time: Duration,
    parent: &mut Parent,
) -> Result<Figures> {
    let begin = ready(parent).await?;
    let end = begin + as_ns(time);
    work_until(begin);
    let (mut acquisitions, mut sections, mut longest) = (0_u64, 0_u64, 0);
    loop {
        let asked = now_ns();
        contender.acquire().await?;
        acquisitions += 1;
        let granted = now_ns();
        // A lock that is granted after the end is released at once.
        if granted < end {
            longest = longest.max(granted - asked);
            work_until(granted + as_ns(WORK));
            sections += u64::from(now_ns() <= end);
        }
        contender.release().await?;
        if now_ns() >= end {
            break;
        }
        if !rest.is_zero() {
            std::thread::sleep(rest);
        }
    }
    Ok(Figures::default()
        .with("acquisitions", acquisitions as f64)
        .with("sections", sections as f64)
        .with("longest_wait_ms", longest as f64 / 1e6))
}

/// Keeps the CPU busy. A sleep could take much longer than requested.
fn work_until(end: u64) {
    while now_ns() < end {
        std::hint::spin_loop();
    }
}

fn rate(pairs: u64, took_ns: u64) -> Figures {
    let seconds = took_ns as f64 / 1e9;
    Figures::default()
        .with("pairs", pairs as f64)
        .with("per_second", pairs as f64 / seconds)
}

/// Returns how long to warm up: long enough to fill caches and to grow the store's file.
fn warm_up(time: Duration) -> Duration {
    (time / 10).min(Duration::from_millis(200))
}

/// The longest latency that can be told apart from longer ones.
const LONGEST_NS: u64 = 60_000_000_000;

/// How long a process of the crowd works with the lock.
const WORK: Duration = Duration::from_millis(1);

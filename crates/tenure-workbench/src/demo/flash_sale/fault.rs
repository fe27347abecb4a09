//! Faults on purpose: a slow sale, a frozen copy, a killed one, each for certain in the middle of a sale.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::task::JoinSet;

use super::crew::Copy;
use super::live::{CopyState, Live};
use super::record::{FaultKind, FaultSeen, Outcome};
use super::wire::Said;
use tenure_cli::error::Result;

/// The faults of one sale: those that wait for their moment, and those that go on.
#[derive(Debug)]
pub(super) struct Faults {
    tasks: JoinSet<Result<()>>,
    going_on: Arc<AtomicUsize>,
    /// Faults begin one at a time: which copies serve must not change while one looks for another copy.
    turn: Arc<Mutex<()>>,
    times: Times,
    live: Live,
}

/// How long faults last.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// A slow sale.
    pub(super) slow: Duration,
    /// A pause: longer than a lease.
    pub(super) pause: Duration,
}

impl Faults {
    pub(super) fn new(times: Times, live: &Live) -> Self {
        Self {
            tasks: JoinSet::new(),
            going_on: Arc::default(),
            turn: Arc::default(),
            times,
            live: live.clone(),
        }
    }

    /// Lets a fault come to a copy, in its next sale once so many pieces are sold.
    ///
    /// Faults begin in the order in which they are armed. A copy is frozen only while another one serves and
    /// can take over.
    pub(super) fn arm(&mut self, kind: FaultKind, copy: &Arc<Copy>, sold: u64) {
        let (copy, live, times) = (Arc::clone(copy), self.live.clone(), self.times);
        let (going_on, turn) = (Arc::clone(&self.going_on), Arc::clone(&self.turn));
        self.tasks.spawn(async move {
            let turn = turn.lock_owned().await;
            live.until_sold(sold).await;
            if kind == FaultKind::Pause {
                live.until_another_serves(copy.number()).await;
            }
            let moment = Moment {
                from_us: None,
                going_on: &going_on,
                turn: Some(turn),
            };
            inflict(kind, &copy, times, &live, moment).await
        });
    }

    /// Waits for a fault that has failed, for ever if none does.
    pub(super) async fn failed(&mut self) -> tenure_cli::error::Failure {
        loop {
            match self.tasks.join_next().await {
                Some(Ok(Err(failure))) => return failure,
                Some(_) => {}
                None => std::future::pending().await,
            }
        }
    }

    /// Waits for the faults that go on; those that still wait for their moment do not happen.
    pub(super) async fn finish(mut self) -> Result<()> {
        while self.going_on.load(Ordering::Acquire) > 0 {
            match self.tasks.join_next().await {
                Some(Ok(ended)) => ended?,
                Some(Err(_)) => {}
                None => break,
            }
        }
        self.tasks.shutdown().await;
        Ok(())
    }
}

/// Waits for the middle of a sale, makes the fault, and says what became of the sale.
async fn inflict(
    kind: FaultKind,
    copy: &Copy,
    times: Times,
    live: &Live,
    mut moment: Moment<'_>,
) -> Result<()> {
    let mut to_us = None;
    let mut begun = |state| {
        live.copy(copy.number(), copy.pid(), state);
        moment.begin(live.now_us());
    };
    let (outcome, fence) = match kind {
        FaultKind::Slow => of(&copy.slow(times.slow, || begun(CopyState::Slow)).await?),
        FaultKind::Pause => {
            let (begun, over) = (|| begun(CopyState::Frozen), || to_us = Some(live.now_us()));
            of(&copy.pause(times.pause, begun, over).await?)
        }
        FaultKind::Kill => {
            copy.kill().await?;
            begun(CopyState::Serving);
            (Outcome::Error, None)
        }
    };
    live.copy(copy.number(), copy.pid(), CopyState::Serving);
    live.fault(FaultSeen {
        kind,
        copy: copy.number(),
        from_us: moment.from_us.unwrap_or(0),
        to_us: to_us.unwrap_or_else(|| live.now_us()),
        outcome,
        fence,
        taken_over: None,
    });
    Ok(())
}

/// When a fault began, if it has; it goes on until this is dropped.
#[derive(Debug)]
struct Moment<'a> {
    from_us: Option<u64>,
    going_on: &'a AtomicUsize,
    /// Given to the next fault when this one has begun.
    turn: Option<OwnedMutexGuard<()>>,
}

impl Moment<'_> {
    fn begin(&mut self, now_us: u64) {
        self.going_on.fetch_add(1, Ordering::Release);
        self.from_us = Some(now_us);
        self.turn = None;
    }
}

impl Drop for Moment<'_> {
    fn drop(&mut self) {
        if self.from_us.is_some() {
            self.going_on.fetch_sub(1, Ordering::Release);
        }
    }
}

/// What became of the sale that had halted, and its fence.
fn of(said: &Said) -> (Outcome, Option<u64>) {
    match said {
        Said::WentOn { outcome, fence } => (*outcome, *fence),
        _ => (Outcome::Error, None),
    }
}

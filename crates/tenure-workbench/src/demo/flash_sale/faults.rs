//! Fault injection: a slow sale, a frozen copy or a killed copy, each in the middle of a sale.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::task::JoinSet;

use super::live::{CopyState, Live};
use super::messages::Halt;
use super::process::Copy;
use super::record::{FaultKind, FaultSeen, Outcome};
use tenure_cli::output::millis;
use tenure_cli::{Failure, Result};

/// The faults of one sale: pending ones, and active ones.
#[derive(Debug)]
pub(super) struct Faults {
    tasks: JoinSet<Result<()>>,
    active: Arc<AtomicUsize>,
    /// Faults start one at a time, because the set of serving copies must not change while a fault
    /// looks for another copy.
    turn: Arc<Mutex<()>>,
    times: Times,
    live: Live,
}

/// How long faults last.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// A slow sale.
    pub(super) slow: Duration,
    /// A pause, which is longer than a lease.
    pub(super) pause: Duration,
}

impl Faults {
    pub(super) fn new(times: Times, live: &Live) -> Self {
        Self {
            tasks: JoinSet::new(),
            active: Arc::default(),
            turn: Arc::default(),
            times,
            live: live.clone(),
        }
    }

    /// Schedules a fault for the next sale of a copy once `after` pieces are sold.
    ///
    /// Faults start in the order in which they are armed. A copy is frozen only while another one
    /// serves and can take over.
    pub(super) fn arm(&mut self, kind: FaultKind, copy: &Arc<Copy>, after: u64) {
        let (copy, live, times) = (Arc::clone(copy), self.live.clone(), self.times);
        let (active, turn) = (Arc::clone(&self.active), Arc::clone(&self.turn));
        self.tasks.spawn(async move {
            let turn = turn.lock_owned().await;
            if kind == FaultKind::Pause {
                live.until_another_serves(copy.settings.number).await;
            }
            let moment = Moment {
                active: &active,
                turn: Some(turn),
            };
            inflict(kind, &copy, after, times, &live, moment).await
        });
    }

    /// Waits for a fault that fails; for ever if none does.
    pub(super) async fn failed(&mut self) -> Failure {
        loop {
            match self.tasks.join_next().await {
                Some(Ok(Err(failure))) => return failure,
                Some(_) => {}
                None => std::future::pending().await,
            }
        }
    }

    /// Waits for the active faults; pending ones do not happen.
    pub(super) async fn finish(mut self) -> Result<()> {
        while self.active.load(Ordering::Acquire) > 0 {
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

/// Waits for the middle of a sale, injects the fault, and records the outcome of the sale.
async fn inflict(
    kind: FaultKind,
    copy: &Copy,
    after: u64,
    times: Times,
    live: &Live,
    mut moment: Moment<'_>,
) -> Result<()> {
    let mut process = copy.process.lock().await;
    let for_ms = millis(times.slow);
    let (halt, state) = match kind {
        FaultKind::Slow => (Halt::Slow { for_ms }, CopyState::Slow),
        FaultKind::Pause => (Halt::Still, CopyState::Frozen),
        FaultKind::Kill => (Halt::Still, CopyState::Serving),
    };
    process.halt(after, halt).await?;
    if kind == FaultKind::Pause {
        process.freeze().await?;
    }
    // The next fault is scheduled before a killed holder frees its lock. Otherwise the stock might be sold first.
    moment.begin();
    if kind == FaultKind::Kill {
        copy.replace(&mut process).await?;
    }
    live.copy(copy.settings.number, copy.pid(), state);
    let from_us = live.now_us();
    let mut to_us = None;
    let (outcome, fence) = match kind {
        FaultKind::Slow => process.outcome().await?,
        FaultKind::Pause => {
            tokio::time::sleep(times.pause).await;
            to_us = Some(live.now_us());
            process.resume()?;
            process.outcome().await?
        }
        FaultKind::Kill => (Outcome::Error, None),
    };
    live.copy(copy.settings.number, copy.pid(), CopyState::Serving);
    live.fault(FaultSeen {
        kind,
        copy: copy.settings.number,
        from_us,
        to_us: to_us.unwrap_or_else(|| live.now_us()),
        outcome,
        fence,
        taken_over: None,
    });
    Ok(())
}

/// Tracks whether a fault has started; it lasts until this is dropped.
#[derive(Debug)]
struct Moment<'a> {
    active: &'a AtomicUsize,
    /// Passed on to the next fault when this one has started.
    turn: Option<OwnedMutexGuard<()>>,
}

impl Moment<'_> {
    fn begin(&mut self) {
        self.active.fetch_add(1, Ordering::Release);
        self.turn = None;
    }
}

impl Drop for Moment<'_> {
    fn drop(&mut self) {
        if self.turn.is_none() {
            self.active.fetch_sub(1, Ordering::Release);
        }
    }
}

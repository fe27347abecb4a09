//! The running sale, as shown by the progress bar and the live page, and the commands to it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use tenure::{Client, Name};
use tokio::sync::watch;
use tokio::time::timeout;

use super::lock_kind::LockKind;
use super::record::{Counted, FaultSeen, Outcome, Record, Sale, TakeOver, Totals};
use super::view::View;
use crate::clock::micros;

/// The running sale, or the last one; clones share it.
#[derive(Debug, Clone)]
pub(super) struct Live {
    state: Arc<Mutex<State>>,
    /// Notified of every answered buyer.
    answered: Arc<watch::Sender<()>>,
}

#[derive(Debug)]
struct State {
    /// The number of the sale, from 1; 0 before the first.
    number: u64,
    phase: Phase,
    began: Instant,
    asked: u64,
    /// How many pieces were left according to the copy that sold last.
    left: u64,
    /// The fence of that sale, if the lock has fences.
    fence: Option<u64>,
    sold: u64,
    /// Everything that is known so far.
    record: Record,
    copies: Vec<CopyNow>,
    /// Where to find the holder and the waiters.
    queue: Option<(Client, Name)>,
}

/// The progress of a sale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Phase {
    /// No sale has started.
    Waiting,
    Running,
    /// The last buyer was answered; the copies are being stopped.
    Ending,
    Over,
}

/// The state of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CopyState {
    Serving,
    /// One of its sales takes long.
    Slow,
    Frozen,
    Ended,
}

/// A copy, as the page shows it.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct CopyNow {
    number: u32,
    pid: u32,
    state: CopyState,
    sold: u64,
}

/// A holder of the lock, or a waiter.
#[derive(Debug, Clone, Copy, Serialize)]
struct QueueEntry {
    /// Its copy, from 1; 0 if it is not one of ours.
    copy: u32,
    pid: u32,
    /// How long it has held or waited.
    for_ms: u64,
    /// The fence of the grant, if it holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    fence: Option<u64>,
}

/// Everything that the page shows, at one moment.
#[derive(Debug, Serialize)]
pub(super) struct Snapshot {
    number: u64,
    phase: Phase,
    lock: Option<String>,
    sale: Option<View>,
    copies: Vec<CopyNow>,
    holder: Option<QueueEntry>,
    waiters: Vec<QueueEntry>,
}

/// A command of the page to the sale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    /// Starts a sale with this lock; a running one is ended first.
    Start(LockKind),
    /// Freezes a copy in its next sale, for longer than its lease lasts.
    Pause(u32),
    /// Kills a copy in its next sale; another process takes its place.
    Kill(u32),
    /// Ends the running sale.
    Stop,
}

impl Live {
    /// Returns the state before the first sale.
    pub(super) fn new() -> Self {
        let state = State::new(0, Phase::Waiting, Record::default(), Vec::new(), None);
        Self {
            state: Arc::new(Mutex::new(state)),
            answered: Arc::default(),
        }
    }

    /// Discards the last sale, and starts another; `copies` are numbers and process ids.
    pub(super) fn begin(
        &self,
        record: Record,
        copies: impl Iterator<Item = (u32, u32)>,
        queue: Option<(Client, Name)>,
    ) {
        let copy = |(number, pid)| CopyNow {
            number,
            pid,
            state: CopyState::Serving,
            sold: 0,
        };
        let copies = copies.map(copy).collect();
        let mut state = self.state();
        *state = State::new(state.number + 1, Phase::Running, record, copies, queue);
    }

    /// Returns the microseconds since the start of the sale.
    pub(super) fn now_us(&self) -> u64 {
        let began = self.state().began;
        micros(began.elapsed())
    }

    /// Counts a buyer who has sent a request.
    pub(super) fn asked(&self) {
        self.state().asked += 1;
    }

    /// Counts an answered buyer.
    pub(super) fn answered(&self, sale: Sale) {
        let mut state = self.state();
        state.record.sales.push(sale);
        match sale.outcome {
            Outcome::Sold => {
                state.saw_left(sale.left, sale.fence);
                state.sold += 1;
                if let Some(copy) = state.copy(sale.copy) {
                    copy.sold += 1;
                }
            }
            Outcome::SoldOut => state.saw_left(0, sale.fence),
            Outcome::Stale | Outcome::Error => {}
        }
        self.answered.send_replace(());
    }

    /// Records the state of a copy, and its process.
    pub(super) fn copy(&self, number: u32, pid: u32, now: CopyState) {
        if let Some(copy) = self.state().copy(number) {
            (copy.pid, copy.state) = (pid, now);
        }
    }

    /// Records a fault that has ended.
    pub(super) fn fault(&self, mut fault: FaultSeen) {
        let record = &mut self.state().record;
        fault.taken_over = TakeOver::of(&fault, &record.sales);
        record.faults.push(fault);
    }

    /// Returns how many buyers have sent a request, and how many were answered.
    pub(super) fn progress(&self) -> (u64, u64) {
        let state = self.state();
        (state.asked, state.record.sales.len() as u64)
    }

    pub(super) fn is_running(&self) -> bool {
        self.state().phase == Phase::Running
    }

    /// Returns how many pieces are left, according to the copy that sold last, and how many were
    /// sold.
    pub(super) fn stock(&self) -> (u64, u64) {
        let state = self.state();
        (state.left, state.sold)
    }

    /// Waits until a copy other than this one serves.
    pub(super) async fn until_another_serves(&self, number: u32) {
        let serves = |copy: &CopyNow| copy.number != number && copy.state == CopyState::Serving;
        // A copy that serves again answers buyers, unless the sale is over.
        let mut answered = self.answered.subscribe();
        while !self.state().copies.iter().any(serves) {
            // The sender lives as long as `self`.
            let _ = answered.changed().await;
        }
    }

    /// Waits until no buyer has been answered for `patience`.
    pub(super) async fn until_stuck(&self, patience: Duration) {
        let mut answered = self.answered.subscribe();
        while timeout(patience, answered.changed()).await.is_ok() {}
    }

    /// Ends the sale; its record lacks what only the stock knows.
    pub(super) fn end(&self) -> Record {
        let mut state = self.state();
        state.update();
        state.phase = Phase::Ending;
        state.queue = None;
        for copy in &mut state.copies {
            copy.state = CopyState::Ended;
        }
        state.record.clone()
    }

    /// Shows the complete record of the sale that has ended.
    pub(super) fn finish(&self, record: &Record) {
        let mut state = self.state();
        state.phase = Phase::Over;
        state.record = record.clone();
    }

    /// Returns everything that the page shows; asks the store who holds the lock and who waits.
    pub(super) async fn snapshot(&self) -> Snapshot {
        let queue = self.state().queue.clone();
        let entries = match &queue {
            Some((client, name)) => client.list(Some(name)).await.unwrap_or_default(),
            None => Vec::new(),
        };
        let mut state = self.state();
        state.update();
        let begun = state.phase != Phase::Waiting;
        let holders = entries.iter().flat_map(|entry| &entry.holders);
        let waiters = entries.iter().flat_map(|entry| &entry.waiters);
        Snapshot {
            number: state.number,
            phase: state.phase,
            lock: begun.then(|| state.record.lock.clone()),
            sale: begun.then(|| View::of(&state.record, state.phase == Phase::Over)),
            copies: state.copies.clone(),
            holder: holders
                .map(|holder| state.queued(holder.about.pid, holder.held, Some(holder.fence.get())))
                .next(),
            waiters: waiters
                .map(|waiter| state.queued(waiter.about.pid, waiter.waited, None))
                .collect(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn new(
        number: u64,
        phase: Phase,
        record: Record,
        copies: Vec<CopyNow>,
        queue: Option<(Client, Name)>,
    ) -> Self {
        Self {
            number,
            phase,
            began: Instant::now(),
            asked: 0,
            left: record.stock,
            fence: None,
            sold: 0,
            record,
            copies,
            queue,
        }
    }

    /// Sums up what is known so far; the stock itself is counted at the end.
    fn update(&mut self) {
        if self.phase != Phase::Running {
            return;
        }
        let sales = &self.record.sales;
        let refused = sales.iter().filter(|sale| sale.outcome == Outcome::Stale);
        let counted = Counted {
            left: self.left,
            accepted: self.sold,
            refused: refused.count() as u64,
        };
        self.record.totals = Totals::of(sales, self.record.stock, counted);
        self.record.seconds = self.began.elapsed().as_secs_f64();
    }

    /// Records how many pieces a sale saw as left. Its answer may arrive after that of a later
    /// sale, which the fence reveals.
    fn saw_left(&mut self, left: u64, fence: Option<u64>) {
        let is_late = fence.is_some() && (self.fence, left) > (fence, self.left);
        if !is_late {
            (self.left, self.fence) = (left, fence);
        }
    }

    fn copy(&mut self, number: u32) -> Option<&mut CopyNow> {
        self.copies.iter_mut().find(|copy| copy.number == number)
    }

    fn queued(&self, pid: u32, time: Duration, fence: Option<u64>) -> QueueEntry {
        let copy = self.copies.iter().find(|copy| copy.pid == pid);
        QueueEntry {
            copy: copy.map_or(0, |copy| copy.number),
            pid,
            for_ms: tenure_cli::output::millis(time),
            fence,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::flash_sale::view::tests::record;

    #[tokio::test]
    async fn nothing_is_added_after_the_end_and_the_next_sale_begins_anew() {
        let live = Live::new();
        let shown = || async { serde_json::to_value(live.snapshot().await).unwrap() };
        assert_eq!(shown().await["phase"], "waiting");
        let whole = record("tenure", 7);
        let empty = Record {
            sales: Vec::new(),
            ..whole.clone()
        };
        live.begin(empty.clone(), [(1, 11), (2, 12)].into_iter(), None);
        for sale in &whole.sales {
            live.answered(*sale);
        }
        let now = shown().await;
        assert_eq!(
            (&now["phase"], &now["number"]),
            (&"running".into(), &1.into())
        );
        assert_eq!(now["sale"]["totals"]["sold"], 7);
        assert_eq!(now["copies"][0]["sold"], 4);
        let mut ended = live.end();
        assert_eq!(shown().await["sale"]["finished"], false);
        ended.totals.left = 3;
        live.finish(&ended);
        let (over, later) = (shown().await, shown().await);
        assert_eq!(over["sale"], later["sale"]);
        assert_eq!(over["sale"]["totals"]["left"], 3);
        live.begin(empty, [(1, 21)].into_iter(), None);
        let next = shown().await;
        assert_eq!(next["number"], 2);
        assert_eq!(next["sale"]["totals"]["sold"], 0);
    }

    #[test]
    fn an_answer_that_was_overtaken_does_not_raise_the_stock() {
        let live = Live::new();
        let whole = record("tenure", 7);
        let sold = |left, fence| Sale {
            left,
            fence,
            ..whole.sales[0]
        };
        live.begin(whole.clone(), [(1, 11)].into_iter(), None);
        // Includes another grant, and one lease that several sales of a copy share.
        for (left, fence, shown) in [(5, 2, 5), (6, 1, 5), (3, 3, 3), (4, 3, 3)] {
            live.answered(sold(left, Some(fence)));
            assert_eq!(live.stock().0, shown, "{left} with fence {fence}");
        }
        // Without fences the order is unknown, and a lost update raises the stock.
        live.begin(whole.clone(), [(1, 11)].into_iter(), None);
        for left in [5, 6] {
            live.answered(sold(left, None));
            assert_eq!(live.stock().0, left);
        }
    }

    #[tokio::test]
    async fn a_long_sale_is_shown_from_its_first_moment_to_its_last() {
        let live = Live::new();
        let whole = record("tenure", 5000);
        live.begin(whole.clone(), [(1, 11), (2, 12)].into_iter(), None);
        let shown = serde_json::to_value(live.snapshot().await).unwrap();
        let line = shown["sale"]["charts"]["really_left"].as_array().unwrap();
        assert!((300..=800).contains(&line.len()), "{}", line.len());
        assert_eq!(line[0][1], 5000.0);
        assert_eq!(line.last().unwrap()[1], 0.0);
    }
}

//! A sale while it goes on: what the progress bar and the live page look at, and how the page steers it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde::Serialize;
use tenure::{Client, Name};
use tokio::sync::{mpsc, watch};

use super::lock::LockKind;
use super::record::{FaultSeen, Outcome, Sale, TakeOver, Totals};

/// The sale that goes on now, or the last one; clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Live {
    state: Arc<Mutex<State>>,
    /// How many were sold, for those who wait for a number.
    sold: Arc<watch::Sender<u64>>,
}

#[derive(Debug)]
struct State {
    /// Which sale it is, from 1; 0 before the first.
    number: u64,
    lock: Option<LockKind>,
    running: bool,
    stock: u64,
    buyers: u64,
    began: Instant,
    asked: u64,
    left: u64,
    stale: u64,
    errors: u64,
    sales: Vec<Sale>,
    /// Sales of each copy in each second.
    seconds: Vec<Vec<u64>>,
    copies: Vec<CopyNow>,
    faults: Vec<FaultSeen>,
    totals: Option<Totals>,
    /// Where to look for the holder and the waiters.
    line: Option<(Client, Name)>,
}

/// What a copy does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CopyState {
    Serving,
    /// One of its sales takes long.
    Slow,
    Frozen,
    Ended,
}

/// A copy, as the page shows it.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct CopyNow {
    pub(crate) number: u32,
    pub(crate) pid: u32,
    pub(crate) state: CopyState,
    pub(crate) sold: u64,
}

/// Who holds the lock or waits for it.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct InLine {
    /// Its copy, from 1; 0 if it is none of ours.
    pub(crate) copy: u32,
    pub(crate) pid: u32,
    /// For how long it has held or waited.
    pub(crate) for_ms: u64,
    /// The number of the grant, if it holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fence: Option<u64>,
}

/// All that the page shows, at one moment.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Snapshot {
    /// Which sale it is, from 1; 0 before the first.
    pub(crate) number: u64,
    pub(crate) lock: Option<LockKind>,
    pub(crate) running: bool,
    pub(crate) stock: u64,
    pub(crate) buyers: u64,
    pub(crate) seconds: f64,
    /// Requests that were answered.
    pub(crate) requests: u64,
    pub(crate) sold: u64,
    pub(crate) left: u64,
    pub(crate) refused_stale_writes: u64,
    pub(crate) errors: u64,
    /// For each second since the sale began, the sales of each copy.
    pub(crate) per_second: Vec<Vec<u64>>,
    pub(crate) copies: Vec<CopyNow>,
    pub(crate) holder: Option<InLine>,
    pub(crate) waiters: Vec<InLine>,
    pub(crate) faults: Vec<FaultSeen>,
    /// The sums, once the sale is over.
    pub(crate) totals: Option<Totals>,
}

impl Live {
    /// A stage on which nothing has begun.
    pub(crate) fn new() -> Self {
        let state = State {
            number: 0,
            lock: None,
            running: false,
            stock: 0,
            buyers: 0,
            began: Instant::now(),
            asked: 0,
            left: 0,
            stale: 0,
            errors: 0,
            sales: Vec::new(),
            seconds: Vec::new(),
            copies: Vec::new(),
            faults: Vec::new(),
            totals: None,
            line: None,
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            sold: Arc::new(watch::Sender::new(0)),
        }
    }

    /// Forgets the last sale, and begins another.
    pub(super) fn begin(
        &self,
        lock: LockKind,
        stock: u64,
        buyers: u64,
        copies: &[(u32, u32)],
        line: Option<(Client, Name)>,
    ) {
        let copy = |&(number, pid): &(u32, u32)| CopyNow {
            number,
            pid,
            state: CopyState::Serving,
            sold: 0,
        };
        let mut state = self.state();
        *state = State {
            number: state.number + 1,
            lock: Some(lock),
            running: true,
            stock,
            buyers,
            began: Instant::now(),
            asked: 0,
            left: stock,
            stale: 0,
            errors: 0,
            sales: Vec::with_capacity(usize::try_from(buyers).unwrap_or(0)),
            seconds: Vec::new(),
            copies: copies.iter().map(copy).collect(),
            faults: Vec::new(),
            totals: None,
            line,
        };
        self.sold.send_replace(0);
    }

    /// Microseconds since the sale began.
    pub(super) fn now_us(&self) -> u64 {
        let began = self.state().began;
        u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// A buyer has come.
    pub(super) fn asked(&self) {
        self.state().asked += 1;
    }

    /// A buyer has been answered.
    pub(super) fn answered(&self, sale: Sale) {
        let mut state = self.state();
        state.sales.push(sale);
        match sale.outcome {
            Outcome::Sold => {
                state.sold_by(sale);
                self.sold.send_modify(|sold| *sold += 1);
            }
            Outcome::SoldOut => state.left = 0,
            Outcome::Stale => state.stale += 1,
            Outcome::Error => state.errors += 1,
        }
    }

    /// A copy does something else now.
    pub(super) fn copy(&self, number: u32, pid: u32, now: CopyState) {
        let mut state = self.state();
        let copy = state.copies.iter_mut().find(|copy| copy.number == number);
        if let Some(copy) = copy {
            (copy.pid, copy.state) = (pid, now);
        }
    }

    /// A fault is over.
    pub(super) fn fault(&self, mut fault: FaultSeen) {
        let mut state = self.state();
        fault.taken_over = TakeOver::of(&fault, &state.sales);
        state.faults.push(fault);
    }

    /// How many buyers have come, and how many were answered.
    pub(super) fn progress(&self) -> (u64, u64) {
        let state = self.state();
        (state.asked, state.sales.len() as u64)
    }

    /// How many are left, as the last copy saw it that sold one; and how many were sold.
    pub(super) fn stock(&self) -> (u64, u64) {
        (self.state().left, *self.sold.borrow())
    }

    /// Waits until so many were sold.
    pub(super) async fn until_sold(&self, number: u64) {
        // The sender lives as long as we do.
        let _ = self.sold.subscribe().wait_for(|sold| *sold >= number).await;
    }

    /// Waits until another copy than this one serves.
    pub(super) async fn until_another_serves(&self, number: u32) {
        let serves = |copy: &CopyNow| copy.number != number && copy.state == CopyState::Serving;
        // A copy that serves again sells, unless the sale is over.
        let mut sold = self.sold.subscribe();
        while !self.state().copies.iter().any(serves) {
            // The sender lives as long as we do.
            let _ = sold.changed().await;
        }
    }

    /// The sale is over; returns all requests and faults.
    pub(super) fn end(&self) -> (Vec<Sale>, Vec<FaultSeen>) {
        let mut state = self.state();
        state.running = false;
        state.line = None;
        for copy in &mut state.copies {
            copy.state = CopyState::Ended;
        }
        (std::mem::take(&mut state.sales), state.faults.clone())
    }

    /// The sums are known.
    pub(super) fn sum_up(&self, totals: Totals) {
        self.state().totals = Some(totals);
    }

    /// Returns all that the page shows; asks the store who holds the lock and who waits.
    pub(crate) async fn snapshot(&self) -> Snapshot {
        let line = self.state().line.clone();
        let entries = match &line {
            Some((client, name)) => client.list(Some(name)).await.unwrap_or_default(),
            None => Vec::new(),
        };
        let state = self.state();
        let entry = entries.first();
        let holder = entry.and_then(|entry| entry.holders.first());
        let waiters = entry
            .map(|entry| entry.waiters.iter())
            .into_iter()
            .flatten();
        Snapshot {
            number: state.number,
            lock: state.lock,
            running: state.running,
            stock: state.stock,
            buyers: state.buyers,
            seconds: state.began.elapsed().as_secs_f64(),
            requests: state.sales.len() as u64,
            sold: *self.sold.borrow(),
            left: state.left,
            refused_stale_writes: state.stale,
            errors: state.errors,
            per_second: state.seconds.clone(),
            copies: state.copies.clone(),
            holder: holder.map(|holder| {
                let fence = Some(holder.fence.get());
                state.in_line(holder.about.pid, holder.held, fence)
            }),
            waiters: waiters
                .map(|waiter| state.in_line(waiter.about.pid, waiter.waited, None))
                .collect(),
            faults: state.faults.clone(),
            totals: state.totals,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn sold_by(&mut self, sale: Sale) {
        self.left = sale.left;
        let copies = self.copies.len();
        let Some(place) = (sale.copy as usize)
            .checked_sub(1)
            .filter(|place| *place < copies)
        else {
            return;
        };
        self.copies[place].sold += 1;
        let second = usize::try_from(sale.at_us / 1_000_000).unwrap_or(0);
        if self.seconds.len() <= second {
            self.seconds.resize(second + 1, vec![0; copies]);
        }
        self.seconds[second][place] += 1;
    }

    fn in_line(&self, pid: u32, time: std::time::Duration, fence: Option<u64>) -> InLine {
        let copy = self.copies.iter().find(|copy| copy.pid == pid);
        InLine {
            copy: copy.map_or(0, |copy| copy.number),
            pid,
            for_ms: tenure_cli::output::millis(time),
            fence,
        }
    }
}

/// Steers the sale from elsewhere.
#[derive(Debug, Clone)]
pub(crate) struct Control(mpsc::UnboundedSender<Order>);

/// What the sale is told.
#[derive(Debug)]
pub(crate) struct Orders(mpsc::UnboundedReceiver<Order>);

/// One thing that the sale is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Start(LockKind),
    Pause(u32),
    Kill(u32),
    Stop,
}

impl Control {
    /// A handle, and the end that the sale listens to.
    pub(crate) fn new() -> (Self, Orders) {
        let (tell, orders) = mpsc::unbounded_channel();
        (Self(tell), Orders(orders))
    }

    /// Begins a sale with this lock; one that goes on is ended first.
    pub(crate) fn start(&self, lock: LockKind) {
        self.tell(Order::Start(lock));
    }

    /// Freezes a copy in its next sale, for longer than its lease lasts.
    pub(crate) fn pause(&self, copy: u32) {
        self.tell(Order::Pause(copy));
    }

    /// Kills a copy in its next sale; another takes its place.
    pub(crate) fn kill(&self, copy: u32) {
        self.tell(Order::Kill(copy));
    }

    /// Ends the sale that goes on.
    pub(crate) fn stop(&self) {
        self.tell(Order::Stop);
    }

    fn tell(&self, order: Order) {
        // Nobody listens once all is over.
        let _ = self.0.send(order);
    }
}

impl Orders {
    /// Waits for the next order; for ever if nobody is left to give one.
    pub(super) async fn next(&mut self) -> Order {
        match self.0.recv().await {
            Some(order) => order,
            None => std::future::pending().await,
        }
    }
}

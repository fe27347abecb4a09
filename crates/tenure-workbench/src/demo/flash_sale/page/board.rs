//! What the page shows, looked up a few times a second however many look at it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;

use super::super::live::{Live, Snapshot};
use super::super::lock::LockKind;

/// The last look at the sale; clones are the same.
#[derive(Debug, Clone)]
pub(super) struct Board(Arc<Mutex<State>>);

/// All that the page is told.
#[derive(Debug, Clone, Serialize)]
pub(super) struct State {
    /// Where the locks live, without a password.
    store: String,
    /// The locks that a sale can be started with.
    locks: Vec<Offer>,
    /// How the stock fell until now.
    history: Vec<Look>,
    #[serde(flatten)]
    now: Option<Snapshot>,
}

/// A lock that a sale can be started with.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Offer {
    pub(super) name: String,
    /// One sentence about it.
    pub(super) shows: String,
    /// Whether the store of this run is one that it works on.
    pub(super) works: bool,
    #[serde(skip)]
    pub(super) kind: LockKind,
}

/// The stock at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Look {
    seconds: f64,
    /// As the last copy saw it that sold one.
    left: u64,
    sold: u64,
}

impl Board {
    pub(super) fn new(store: String, locks: Vec<Offer>) -> Self {
        Self(Arc::new(Mutex::new(State {
            store,
            locks,
            history: Vec::new(),
            now: None,
        })))
    }

    /// Looks again and again; never ends.
    pub(super) async fn watch(&self, live: &Live) {
        let mut look = tokio::time::interval(EVERY);
        // Looks that a busy machine missed are gone.
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            look.tick().await;
            let now = live.snapshot().await;
            self.state().update(now);
        }
    }

    /// Returns what was seen last.
    pub(super) fn seen(&self) -> State {
        self.state().clone()
    }

    /// Returns whether a sale goes on.
    pub(super) fn is_running(&self) -> bool {
        self.state().now.as_ref().is_some_and(|now| now.running)
    }

    /// Returns whether there is a copy with this number.
    pub(super) fn has_copy(&self, number: u32) -> bool {
        let state = self.state();
        let mut copies = state.now.iter().flat_map(|now| &now.copies);
        copies.any(|copy| copy.number == number)
    }

    /// Returns whether a copy has another beside it.
    pub(super) fn has_several_copies(&self) -> bool {
        let state = self.state();
        state.now.as_ref().is_some_and(|now| now.copies.len() > 1)
    }

    /// Returns the lock of this name.
    pub(super) fn offer(&self, name: &str) -> Option<Offer> {
        let state = self.state();
        state.locks.iter().find(|lock| lock.name == name).cloned()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn update(&mut self, now: Snapshot) {
        let last = self.now.as_ref();
        let same = last.is_some_and(|last| last.number == now.number);
        if !same {
            self.history.clear();
        }
        // The last look of a sale is the first after its end.
        let goes_on = now.running || !same || last.is_some_and(|last| last.running);
        if goes_on && now.number > 0 {
            self.history.push(Look {
                seconds: now.seconds,
                left: now.left,
                sold: now.sold,
            });
        }
        if self.history.len() > MOST {
            halve(&mut self.history);
        }
        self.now = Some(now);
    }
}

/// Leaves out every second look, but not the first and the last.
fn halve(history: &mut Vec<Look>) {
    let last = history.len() - 1;
    let mut place = 0;
    history.retain(|_| {
        place += 1;
        (place - 1) % 2 == 0 || place - 1 == last
    });
}

/// How often to look.
const EVERY: Duration = Duration::from_millis(100);

/// How many looks are kept.
const MOST: usize = 600;

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(number: u64, running: bool, sold: u64) -> Snapshot {
        Snapshot {
            number,
            lock: None,
            running,
            stock: 5000,
            buyers: 5000,
            seconds: sold as f64,
            requests: sold,
            sold,
            left: 5000 - sold,
            refused_stale_writes: 0,
            errors: 0,
            per_second: Vec::new(),
            copies: Vec::new(),
            holder: None,
            waiters: Vec::new(),
            faults: Vec::new(),
            totals: None,
        }
    }

    fn state() -> State {
        State {
            store: "local:".to_owned(),
            locks: Vec::new(),
            history: Vec::new(),
            now: None,
        }
    }

    #[test]
    fn a_long_sale_is_remembered_from_its_first_look_to_its_last() {
        let mut state = state();
        for sold in 0..5000 {
            state.update(snapshot(1, true, sold));
        }
        assert!((MOST / 2..=MOST).contains(&state.history.len()));
        assert_eq!(state.history[0].sold, 0);
        assert_eq!(state.history.last().unwrap().sold, 4999);
        assert!(
            state
                .history
                .windows(2)
                .all(|two| two[0].sold < two[1].sold)
        );
    }

    #[test]
    fn nothing_is_added_after_the_end_and_the_next_sale_begins_anew() {
        let mut state = state();
        state.update(snapshot(0, false, 0));
        assert_eq!(state.history.len(), 0);
        state.update(snapshot(1, true, 0));
        for _ in 0..3 {
            state.update(snapshot(1, false, 7));
        }
        let sold: Vec<_> = state.history.iter().map(|look| look.sold).collect();
        assert_eq!(sold, [0, 7]);
        state.update(snapshot(2, true, 1));
        let sold: Vec<_> = state.history.iter().map(|look| look.sold).collect();
        assert_eq!(sold, [1]);
    }
}

//! What happened in a run: a history for the checker, and lines for people.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tenure_checker::{Event, History, What};
use tokio::time::Instant;

/// Records what happens, in the order in which it happens.
///
/// No two events have the same time. Events of one virtual instant are a microsecond apart, in the
/// order in which they were recorded, so that the checker sees no ties.
#[derive(Debug)]
pub(crate) struct Recorder {
    start: Instant,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    last_us: u64,
    history: History,
    claims: u64,
    lines: Option<Vec<Line>>,
    breaches: Vec<Breach>,
}

/// One line of a story.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The virtual time, in microseconds.
    pub at_us: u64,
    /// What happened.
    pub text: String,
}

/// A broken promise that was observed where the history cannot show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breach {
    /// The promise.
    pub promise: &'static str,
    /// What happened.
    pub sentence: String,
}

impl Recorder {
    pub(crate) fn new(with_lines: bool) -> Self {
        let inner = Inner {
            lines: with_lines.then(Vec::new),
            ..Inner::default()
        };
        Self {
            start: Instant::now(),
            inner: Mutex::new(inner),
        }
    }

    /// Returns the virtual time since the start, in microseconds.
    pub(crate) fn now_us(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Records an event; returns its time.
    pub(crate) fn note(&self, process: u32, what: What) -> u64 {
        let now = self.now_us();
        let mut inner = self.inner();
        let at_us = now.max(inner.last_us + 1);
        inner.last_us = at_us;
        inner.history.push(Event::new(at_us, process, what));
        at_us
    }

    /// Records a line for people.
    pub(crate) fn line(&self, text: impl FnOnce() -> String) {
        let at_us = self.now_us();
        let mut inner = self.inner();
        let at_us = at_us.max(inner.last_us);
        if let Some(lines) = &mut inner.lines {
            lines.push(Line {
                at_us,
                text: text(),
            });
        }
    }

    /// Records a broken promise.
    pub(crate) fn breach(&self, promise: &'static str, sentence: impl FnOnce() -> String) {
        if self.inner().breaches.len() >= ENOUGH {
            return;
        }
        let sentence = sentence();
        self.line(|| format!("BROKEN {promise}: {sentence}"));
        self.inner().breaches.push(Breach { promise, sentence });
    }

    pub(crate) fn next_claim(&self) -> u64 {
        let mut inner = self.inner();
        inner.claims += 1;
        inner.claims
    }

    /// Takes everything that was recorded.
    pub(crate) fn finish(&self) -> (History, Vec<Breach>, Vec<Line>) {
        let inner = std::mem::take(&mut *self.inner());
        (
            inner.history,
            inner.breaches,
            inner.lines.unwrap_or_default(),
        )
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// More breaches than this add nothing new.
const ENOUGH: usize = 20;

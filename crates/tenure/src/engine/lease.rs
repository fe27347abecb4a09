//! A granted claim, as its holder sees it: until when it is safe, and whether it is lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::{Tick, safe};
use crate::driver::{Claim, Loss, Release, Renewal};
use crate::name::Fence;

/// The state of a lock that was granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Health {
    /// The lease runs, and is renewed in time.
    Held,
    /// The lease runs, but its renewal is late: bring the work to a safe point.
    AtRisk,
    /// The lease is over, or will be before an answer could come; others may hold the lock.
    Lost(Loss),
}

/// A lease of this client: who it belongs to in the store, and how long it is good for.
#[derive(Debug)]
pub(crate) struct HeldLease {
    pub(crate) claim: Claim,
    pub(crate) fence: Fence,
    /// When the store granted it, or a little earlier.
    pub(crate) granted: Tick,
    /// When it ends for good, whatever is renewed.
    pub(crate) ends_by: Option<Tick>,
    /// Whether another client wants the name, as far as the store has told.
    called_back: AtomicBool,
    state: Mutex<State>,
    changed: Notify,
    /// Held while the depth in the store changes, so that changes reach it one after another.
    pub(crate) depth: tokio::sync::Mutex<u32>,
}

#[derive(Debug)]
struct State {
    /// Until when nobody else can have the name.
    until: Tick,
    renew_at: Tick,
    /// Whether the latest renewal failed.
    failing: bool,
    end: Option<End>,
}

#[derive(Debug, Clone, Copy)]
enum End {
    Lost(Loss),
    Released,
}

/// What the watchdog has to do about a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Care {
    /// Nothing before this moment.
    Wait(Tick),
    /// Renew it.
    Renew,
    /// Forget it: it is over.
    Forget,
}

impl HeldLease {
    /// Makes the lease of a claim whose ttl began at `start` at the earliest.
    pub(crate) fn new(claim: Claim, fence: Fence, start: Tick, max_hold: Option<Duration>) -> Self {
        let depth = tokio::sync::Mutex::new(claim.depth);
        let state = Mutex::new(State {
            until: start + safe(claim.ttl),
            renew_at: start + claim.ttl / 3,
            failing: false,
            end: None,
        });
        let ends_by = max_hold.map(|longest| start + longest);
        Self {
            claim,
            fence,
            granted: start,
            ends_by,
            called_back: AtomicBool::new(false),
            state,
            changed: Notify::new(),
            depth,
        }
    }

    /// Notes that another client wants the name.
    pub(crate) fn call_back(&self) {
        // Whoever relies on it has met the caller under the lock of the lines.
        self.called_back.store(true, Ordering::Relaxed);
    }

    /// Whether another client wants the name.
    pub(crate) fn is_called_back(&self) -> bool {
        self.called_back.load(Ordering::Relaxed)
    }

    /// Whether its owner has locked it just once, and neither enters nor leaves it right now.
    pub(crate) fn is_held_once(&self) -> bool {
        self.depth.try_lock().is_ok_and(|depth| *depth == 1)
    }

    pub(crate) fn health(&self, now: Tick) -> Health {
        let state = self.state();
        match state.end {
            Some(End::Lost(loss)) => Health::Lost(loss),
            Some(End::Released) => Health::Lost(Loss::Gone),
            None if now >= state.until => Health::Lost(self.why_over(&state)),
            None if now + self.claim.ttl / 2 >= state.until && self.ends_by.is_none() => {
                Health::AtRisk
            }
            None => Health::Held,
        }
    }

    /// Returns how long it takes until the lease is lost, if no renewal succeeds.
    pub(crate) fn time_left(&self, now: Tick) -> Duration {
        let state = self.state();
        match state.end {
            Some(_) => Duration::ZERO,
            None => state.until.since(now),
        }
    }

    /// Waits until the lease is lost.
    pub(crate) async fn lost(&self) -> Loss {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(End::Lost(loss)) = self.state().end {
                return loss;
            }
            changed.await;
        }
    }

    /// Returns why the lease is lost, if it is marked so.
    pub(crate) fn loss(&self) -> Option<Loss> {
        match self.state().end {
            Some(End::Lost(loss)) => Some(loss),
            _ => None,
        }
    }

    /// Marks the lease as lost, unless it is over already; returns whether this did it.
    pub(crate) fn lose(&self, loss: Loss) -> bool {
        let news = self.end(End::Lost(loss));
        if news {
            self.changed.notify_waiters();
        }
        news
    }

    /// Marks the lease as given back: nothing renews it from now on.
    ///
    /// Returns why it was lost if it was so before.
    pub(crate) fn retire(&self, now: Tick) -> Option<Loss> {
        match self.health(now) {
            Health::Lost(loss) => {
                self.lose(loss);
                Some(loss)
            }
            Health::Held | Health::AtRisk => {
                self.end(End::Released);
                None
            }
        }
    }

    /// Counts a renewal whose request was sent at `sent`.
    pub(crate) fn renewed(&self, sent: Tick, ttl: Duration) {
        let mut state = self.state();
        state.until = state.until.max(sent + safe(ttl));
        state.renew_at = sent + ttl / 3;
        state.failing = false;
    }

    /// Counts a renewal that got no answer; the next one follows soon.
    pub(crate) fn not_renewed(&self, now: Tick) {
        let mut state = self.state();
        state.failing = true;
        let pause = (self.claim.ttl / 20).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        state.renew_at = now + pause;
    }

    /// Makes the lease due for renewal at once.
    pub(crate) fn hurry(&self) {
        let mut state = self.state();
        // One that is being renewed at this moment stays so.
        if state.renew_at != Tick::NEVER {
            state.renew_at = Tick::default();
        }
    }

    /// Says what the watchdog has to do, and takes note that it will renew.
    pub(crate) fn care(&self, now: Tick) -> Care {
        let mut state = self.state();
        match state.end {
            Some(End::Lost(_)) => return Care::Forget,
            // Whoever releases it takes it out.
            Some(End::Released) => return Care::Wait(Tick::NEVER),
            None => {}
        }
        if now >= state.until {
            let loss = self.why_over(&state);
            drop(state);
            self.lose(loss);
            return Care::Forget;
        }
        let renewable = self
            .ends_by
            .is_none_or(|end| now + self.claim.ttl / 3 < end);
        // Leases that are due about the same time go out together; a retry waits out its pause.
        let soon = if state.failing {
            now
        } else {
            now + self.claim.ttl / 30
        };
        if renewable && soon >= state.renew_at {
            state.renew_at = Tick::NEVER;
            return Care::Renew;
        }
        let renew_at = if renewable {
            state.renew_at
        } else {
            Tick::NEVER
        };
        Care::Wait(renew_at.min(state.until))
    }

    /// What to send to renew the lease at `now`.
    pub(crate) fn renewal(&self, now: Tick) -> Renewal {
        let left = self.ends_by.map_or(Duration::MAX, |end| end.since(now));
        Renewal {
            name: self.claim.name.clone(),
            owner: self.claim.owner.clone(),
            fence: Some(self.fence),
            life: self.claim.life,
            ttl: self.claim.ttl.min(left),
        }
    }

    /// What to send to lower the lease to `depth`, or to free it.
    pub(crate) fn release(&self, depth: u32, stays_taken: Duration) -> Release {
        Release {
            name: self.claim.name.clone(),
            owner: self.claim.owner.clone(),
            fence: Some(self.fence),
            life: self.claim.life,
            depth,
            stays_taken,
        }
    }

    fn why_over(&self, state: &State) -> Loss {
        if self
            .ends_by
            .is_some_and(|end| end - self.claim.ttl / 50 <= state.until)
        {
            Loss::MaxHold
        } else if state.failing {
            Loss::Unreachable
        } else {
            Loss::Expired
        }
    }

    fn end(&self, end: End) -> bool {
        let mut state = self.state();
        let first = state.end.is_none();
        state.end.get_or_insert(end);
        first
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the state is half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

//! A granted claim as its holder sees it: until when it is safe, and whether it is lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::{Tick, safe};
use crate::driver::{Claim, Loss, Release, Renewal};
use crate::engine::ticket::Granted;
use crate::guard::{Health, RenewalFailure};
use crate::name::Fence;
use crate::sync::{Mutex, until};

/// A lease of this client: its claim, and how long it is valid.
#[derive(Debug)]
pub(crate) struct HeldLease {
    pub(crate) claim: Claim,
    pub(crate) fence: Fence,
    /// For how long the store first granted it, which sets the pace of renewals.
    pace: Duration,
    /// How many fences are reserved for this grant, including its own.
    pub(crate) fences: u32,
    /// When the store granted it, or a little earlier.
    pub(crate) granted: Tick,
    /// When it ends for good, despite renewals.
    pub(crate) ends_by: Option<Tick>,
    /// Whether the store has reported that another client wants the name.
    called_back: AtomicBool,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    /// Until when nobody else can have the name.
    until: Tick,
    /// For how long the store last granted or renewed it.
    valid: Duration,
    /// When to renew it next, or [`Tick::NEVER`] while a renewal is in flight.
    renew_at: Tick,
    /// When the latest renewal was sent.
    asked: Tick,
    /// Why the latest renewal failed, if it did.
    failing: Option<Failing>,
    end: Option<End>,
}

/// Renewals that got no answer.
#[derive(Debug)]
struct Failing {
    /// When the first of them was sent.
    since: Tick,
    /// Why the last of them failed.
    why: String,
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
    /// Renew it, and look again at this moment, when it may be over.
    Renew(Tick),
    /// It is over, for this reason.
    Over(Loss),
}

impl HeldLease {
    /// Makes the lease of a claim that was granted.
    pub(crate) fn new(claim: Claim, granted: Granted, max_hold: Option<Duration>) -> Self {
        let Granted { grant, start } = granted;
        let state = Mutex::new(State {
            until: start + safe(grant.valid),
            valid: grant.valid,
            renew_at: start + grant.valid / 3,
            asked: start,
            failing: None,
            end: None,
        });
        Self {
            claim,
            fence: grant.fence,
            pace: grant.valid,
            fences: grant.fences,
            granted: start,
            ends_by: max_hold.map(|longest| start + longest),
            called_back: AtomicBool::new(false),
            state,
            changed: Notify::new(),
        }
    }

    /// Records that another client wants the name.
    pub(crate) fn call_back(&self) {
        // Code that relies on the flag synchronizes with the caller through the lock of the lines.
        self.called_back.store(true, Ordering::Relaxed);
    }

    /// Returns whether another client wants the name.
    pub(crate) fn is_called_back(&self) -> bool {
        self.called_back.load(Ordering::Relaxed)
    }

    pub(crate) fn health(&self, now: Tick) -> Health {
        let state = self.state.lock();
        match state.end {
            Some(End::Lost(loss)) => Health::Lost(loss),
            Some(End::Released) => Health::Lost(Loss::Gone),
            None if now >= state.until => Health::Lost(self.why_over(&state)),
            None if state.failing.is_some() => Health::AtRisk,
            None if now + state.valid / 2 >= state.until && self.ends_by.is_none() => {
                Health::AtRisk
            }
            None => Health::Held,
        }
    }

    /// Returns how long it takes until the lease is lost, if no renewal succeeds.
    pub(crate) fn time_left(&self, now: Tick) -> Duration {
        let state = self.state.lock();
        match state.end {
            Some(_) => Duration::ZERO,
            None => state.until.since(now),
        }
    }

    /// Returns why its renewals fail, and for how long, if the latest failed or is late.
    pub(crate) fn renewal_failure(&self, now: Tick) -> Option<RenewalFailure> {
        let state = self.state.lock();
        let is_late = now + state.valid / 2 >= state.until;
        let (reason, since) = match &state.failing {
            Some(failing) => (failing.why.clone(), failing.since),
            None if state.renew_at == Tick::NEVER && is_late => {
                ("the store has not answered".to_owned(), state.asked)
            }
            None => return None,
        };
        let lasts = now.since(since);
        Some(RenewalFailure { reason, lasts })
    }

    /// Waits until the lease is lost.
    pub(crate) async fn lost(&self) -> Loss {
        until(&self.changed, || self.loss()).await
    }

    /// Returns why the lease is lost, if it is marked as lost.
    pub(crate) fn loss(&self) -> Option<Loss> {
        match self.state.lock().end {
            Some(End::Lost(loss)) => Some(loss),
            _ => None,
        }
    }

    /// Marks the lease as lost, unless it is over already; returns whether this call marked it.
    pub(crate) fn lose(&self, loss: Loss) -> bool {
        let news = self.end(End::Lost(loss));
        if news {
            self.changed.notify_waiters();
        }
        news
    }

    /// Marks the lease as released, unless it is lost: nothing renews it from now on.
    pub(crate) fn retire(&self) {
        self.end(End::Released);
    }

    /// Records a renewal whose request was sent at `sent`, unless its answer came too late.
    ///
    /// # Errors
    ///
    /// The reason why the lease is over. Its holder may have been told already.
    pub(crate) fn renewed(&self, sent: Tick, valid: Duration, now: Tick) -> Result<(), Loss> {
        let mut state = self.state.lock();
        if now >= state.until {
            return Err(self.why_over(&state));
        }
        state.until = state.until.max(sent + safe(valid));
        state.valid = valid;
        state.renew_at = sent + valid / 3;
        state.failing = None;
        Ok(())
    }

    /// Records that a renewal that was sent at `sent` got no answer; the next one follows soon.
    pub(crate) fn not_renewed(&self, sent: Tick, now: Tick, why: String) {
        let mut state = self.state.lock();
        let since = state.failing.as_ref().map_or(sent, |first| first.since);
        state.failing = Some(Failing { since, why });
        let pause = (state.valid / 20).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        state.renew_at = now + pause;
    }

    /// Makes the lease due for renewal at once.
    pub(crate) fn hurry(&self) {
        let mut state = self.state.lock();
        // A renewal that is in flight is left alone.
        if state.renew_at != Tick::NEVER {
            state.renew_at = Tick::default();
        }
    }

    /// Returns when the watchdog has to look at it for the first time.
    pub(crate) fn first_look(&self) -> Tick {
        self.granted + self.pace / 3
    }

    /// Returns what the watchdog has to do, and records that it will renew.
    pub(crate) fn care(&self, now: Tick) -> Care {
        let mut state = self.state.lock();
        // The code that ended the lease also removes it.
        if state.end.is_some() {
            return Care::Wait(Tick::NEVER);
        }
        if now >= state.until {
            return Care::Over(self.why_over(&state));
        }
        let renewable = self.ends_by.is_none_or(|end| now + self.pace / 3 < end);
        // Leases that are due at about the same time are renewed together; a retry waits for its pause.
        let soon = if state.failing.is_some() {
            now
        } else {
            now + self.pace / 30
        };
        if renewable && soon >= state.renew_at {
            state.renew_at = Tick::NEVER;
            state.asked = now;
            return Care::Renew(state.until.min(now + self.pace / 10));
        }
        let renew_at = if renewable {
            state.renew_at
        } else {
            Tick::NEVER
        };
        Care::Wait(renew_at.min(state.until))
    }

    /// Returns the request that renews the lease at `now`.
    pub(crate) fn renewal(&self, now: Tick) -> Renewal {
        let left = self.ends_by.map_or(Duration::MAX, |end| end.since(now));
        let mut renewal = Renewal::of(&self.claim).with_fence(self.fence);
        renewal.ttl = renewal.ttl.min(left);
        renewal
    }

    /// Returns the request that frees the lease.
    pub(crate) fn release(&self, stays_taken: Duration) -> Release {
        let release = Release::of(&self.claim).with_fence(self.fence);
        release.with_stays_taken(stays_taken)
    }

    fn why_over(&self, state: &State) -> Loss {
        // The lease was renewed up to its end, less the safety margin.
        let margin = state.valid.saturating_sub(safe(state.valid));
        if self.ends_by.is_some_and(|end| state.until + margin >= end) {
            Loss::MaxHold
        } else if state.failing.is_some() || state.renew_at == Tick::NEVER {
            // A renewal failed, or is still in flight.
            Loss::Unreachable
        } else {
            Loss::Expired
        }
    }

    fn end(&self, end: End) -> bool {
        let mut state = self.state.lock();
        let first = state.end.is_none();
        state.end.get_or_insert(end);
        first
    }
}

const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

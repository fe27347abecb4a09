//! Remembers news about a lease that arrives before the answer that grants it.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::clock::Tick;
use crate::driver::Loss;
use crate::engine::Engine;
use crate::engine::lease::HeldLease;
use crate::name::{ClaimId, Fence};
use crate::sync::Mutex;

/// The latest news about leases that the engine does not know; most of them were just released.
#[derive(Debug, Default)]
pub(super) struct EarlyNews(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    calls: VecDeque<(ClaimId, Fence)>,
    losses: VecDeque<(ClaimId, Fence, Loss)>,
    /// When calls may last have been missed, if ever.
    missed: Option<Tick>,
}

impl Engine {
    /// Checks whether a lease that was just granted is already lost or called back.
    pub(super) fn hear_early_news(self: &Arc<Self>, lease: &Arc<HeldLease>) {
        if let Some(loss) = self.early.loss_of(lease) {
            self.lose(lease, loss);
        }
        if lease.claim.tell_if_wanted && self.early.is_called_for(lease) {
            self.called(lease);
        }
    }
}

impl EarlyNews {
    /// Records that another client wants the name of a lease.
    pub(super) fn note_call(&self, claim: &ClaimId, fence: Fence) {
        push(&mut self.0.lock().calls, (claim.clone(), fence));
    }

    /// Records that a lease is over.
    pub(super) fn note_loss(&self, claim: &ClaimId, fence: Fence, loss: Loss) {
        push(&mut self.0.lock().losses, (claim.clone(), fence, loss));
    }

    pub(super) fn calls_may_be_missed(&self, now: Tick) {
        self.0.lock().missed = Some(now);
    }

    /// Returns whether another client called for this lease, or may have.
    pub(super) fn is_called_for(&self, lease: &HeldLease) -> bool {
        let mut early = self.0.lock();
        let this =
            |(claim, fence): &(ClaimId, Fence)| *fence == lease.fence && *claim == lease.claim.id;
        let called = early.calls.iter().position(this);
        if let Some(called) = called {
            early.calls.remove(called);
        }
        called.is_some() || early.missed.is_some_and(|missed| lease.granted <= missed)
    }

    fn loss_of(&self, lease: &HeldLease) -> Option<Loss> {
        let early = self.0.lock();
        let mut losses = early.losses.iter();
        let this =
            losses.find(|(claim, fence, _)| *fence == lease.fence && *claim == lease.claim.id);
        this.map(|(_, _, loss)| *loss)
    }
}

fn push<T>(latest: &mut VecDeque<T>, news: T) {
    if latest.len() == MOST {
        latest.pop_front();
    }
    latest.push_back(news);
}

/// How much of each kind is remembered; older news is dropped.
const MOST: usize = 64;

//! A lock that a client believes it holds, and how long it believed so.

use std::time::Duration;

use tenure::{Client, Guard, Health, Lease, Outcome};
use tenure_checker::What;
use tokio::time::{sleep, timeout};

use crate::clock::{micros, now_us};
use crate::history;
use crate::torture::messages::Message;

use super::choices::End;
use super::notes::Notes;

/// A lock with the time of the last check that found it held.
///
/// A belief is the result of a check, at the time of the check. A loss is recorded at the moment
/// after the last check that found the lock held, not at the time of the next check: in between,
/// the process may have been stopped or starved, and then it believed nothing.
#[derive(Debug)]
pub(super) struct Held {
    claim: u64,
    fence: u64,
    hold: Hold,
    seen_us: u64,
    /// Until when the lock is held if the process hears nothing more, as last reported.
    told_until_us: u64,
    is_lost: bool,
    notes: Notes,
}

/// What is held.
#[derive(Debug)]
pub(super) enum Hold {
    Guard(Guard),
    ByHand(ByHand),
}

/// A lease by hand, which only this process renews.
#[derive(Debug)]
pub(super) struct ByHand {
    pub(super) client: Client,
    pub(super) lease: Lease,
    /// Counted from before the last request that the store granted.
    until_us: u64,
}

impl ByHand {
    /// Returns a lease whose remaining time is not known yet.
    pub(super) fn new(client: &Client, lease: Lease) -> Self {
        Self {
            client: client.clone(),
            lease,
            until_us: 0,
        }
    }

    /// Renews the lease; returns its fence, or `None` if it has ended.
    pub(super) async fn renew(&mut self) -> tenure::Result<Option<u64>> {
        // With a margin for clock drift, as guards have.
        let until_us = now_us() + micros(self.lease.ttl * 9 / 10);
        let renewed = self.client.renew(&self.lease).await?;
        Ok(renewed.fence().map(|fence| {
            self.until_us = until_us;
            fence.get()
        }))
    }

    async fn release(&self) -> tenure::Result<Outcome> {
        self.client.release(&self.lease).await
    }

    fn time_left(&self) -> Duration {
        Duration::from_micros(self.until_us.saturating_sub(now_us()))
    }
}

impl Hold {
    /// Returns why the lock is lost, if it is.
    fn loss(&self) -> Option<String> {
        match self {
            Self::Guard(guard) => match guard.health() {
                Health::Lost(loss) => Some(loss.to_string()),
                _ => None,
            },
            Self::ByHand(by_hand) => {
                let is_over = by_hand.time_left().is_zero();
                is_over.then(|| "a lease by hand ran out".to_owned())
            }
        }
    }

    fn time_left(&self) -> Duration {
        match self {
            Self::Guard(guard) => guard.time_left(),
            Self::ByHand(by_hand) => by_hand.time_left(),
        }
    }

    async fn release(self) -> tenure::Result<Outcome> {
        match self {
            Self::Guard(guard) => guard.release().await,
            Self::ByHand(by_hand) => by_hand.release().await,
        }
    }
}

impl Held {
    /// Records the grant if the first check finds the lock held; otherwise the client never
    /// believed that it held it.
    pub(super) fn begin(claim: u64, fence: u64, hold: Hold, notes: &Notes) -> Option<Self> {
        let seen_us = now_us();
        if let Some(loss) = hold.loss() {
            let error = format!("lost before the first look: {loss}");
            notes.note(What::Unknown { claim, error });
            return None;
        }
        let told = Some(fence);
        notes.note_at(seen_us, What::Granted { claim, fence: told });
        let mut held = Self {
            claim,
            fence,
            hold,
            seen_us,
            told_until_us: 0,
            is_lost: false,
            notes: notes.clone(),
        };
        held.tell_until();
        Some(held)
    }

    pub(super) fn fence(&self) -> u64 {
        self.fence
    }

    /// Checks whether the lock is still held.
    pub(super) fn look(&mut self) -> bool {
        if self.is_lost {
            return false;
        }
        // Taken before the check: if the check finds the lock held, it was held at this time.
        let now_us = now_us();
        if self.hold.loss().is_some() {
            self.is_lost = true;
            let claim = self.claim;
            self.notes.note_at(self.seen_us + 1, What::Lost { claim });
            return false;
        }
        self.seen_us = now_us;
        self.tell_until();
        true
    }

    /// Reports until when the lock is held, if that has changed, because a killed process cannot be
    /// asked.
    fn tell_until(&mut self) {
        let until_us = now_us() + micros(self.hold.time_left());
        if until_us > self.told_until_us + STEP_US {
            self.told_until_us = until_us;
            let claim = self.claim;
            self.notes.send(&Message::Believes { claim, until_us });
        }
    }

    /// Waits until the lock reports its loss.
    pub(super) async fn lost(&self) {
        match &self.hold {
            Hold::Guard(guard) => drop(guard.lost().await),
            Hold::ByHand(by_hand) => sleep(by_hand.time_left()).await,
        }
    }

    /// Renews a lease by hand if less than half of it is left.
    pub(super) async fn renew(&mut self) {
        if let Hold::ByHand(by_hand) = &mut self.hold
            && !self.is_lost
            && by_hand.time_left() < by_hand.lease.ttl / 2
        {
            // The remaining time shows whether it succeeded.
            let _ = by_hand.renew().await;
        }
    }

    /// Gives the lock back; returns a lease by hand that is left for others.
    pub(super) async fn end(mut self, end: End) -> Option<Lease> {
        // The belief ends with the last check, for the same reason as above.
        let ends_us = match self.look() {
            true => self.seen_us,
            false => now_us(),
        };
        let claim = self.claim;
        let notes = self.notes;
        notes.note_at(ends_us, What::Releasing { claim });
        let told = |released| {
            let freed = history::freed(&released);
            notes.note(What::Released { claim, freed });
        };
        match (end, self.hold) {
            (End::Drop, Hold::ByHand(by_hand)) => return Some(by_hand.lease),
            (End::Drop, Hold::Guard(_)) => {}
            (End::Repeat, Hold::ByHand(by_hand)) => {
                told(by_hand.release().await);
                notes.note(What::Releasing { claim });
                told(by_hand.release().await);
            }
            (End::Release | End::Repeat, hold) => told(hold.release().await),
            (End::Cut(time), hold) => {
                if let Ok(released) = timeout(time, hold.release()).await {
                    told(released);
                }
            }
        }
        None
    }
}

/// Smaller changes result from reading the clock twice.
const STEP_US: u64 = 1000;

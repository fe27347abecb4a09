//! A lock that a client believes it holds, and until when it believed so.

use std::time::Duration;

use tenure::{Client, Guard, Health, Lease, Outcome};
use tenure_checker::What;
use tokio::time::{sleep, timeout};

use crate::clock::{micros, now_us};
use crate::history;
use crate::torture::messages::Message;

use super::choices::End;
use super::notes::Notes;

/// A lock with the time of the last look that found it held.
///
/// A belief is what a look at the lock says, at the time of the look. A loss is noted for the moment after the last look
/// that found the lock held, and not for the moment at which this process got round to the next look: it may have been
/// stopped, or starved, in between, and believed nothing meanwhile.
#[derive(Debug)]
pub(super) struct Held {
    claim: u64,
    fence: u64,
    hold: Hold,
    seen_us: u64,
    /// Until when the lock is held if nothing is heard any more, as it was last told.
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

/// A lease by hand, which nobody renews but this process.
#[derive(Debug)]
pub(super) struct ByHand {
    pub(super) client: Client,
    pub(super) lease: Lease,
    /// Counted from before the last request that the store granted.
    until_us: u64,
}

impl ByHand {
    /// A lease of which nobody knows yet how long it lasts.
    pub(super) fn new(client: &Client, lease: Lease) -> Self {
        Self {
            client: client.clone(),
            lease,
            until_us: 0,
        }
    }

    /// Renews it; returns its fence, or `None` if it is over.
    pub(super) async fn renew(&mut self) -> tenure::Result<Option<u64>> {
        // With a margin for drift, as guards have one.
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
    /// Notes the grant if the first look finds the lock held; otherwise nobody ever believed it held it.
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

    /// Looks whether the lock is still held.
    pub(super) fn look(&mut self) -> bool {
        if self.is_lost {
            return false;
        }
        // Before the look: what it finds held then was held now.
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

    /// Reports until when the lock is held, if that has changed: a killed process cannot be asked.
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

    /// Renews a lease by hand of which less than half is left.
    pub(super) async fn renew(&mut self) {
        if let Hold::ByHand(by_hand) = &mut self.hold
            && !self.is_lost
            && by_hand.time_left() < by_hand.lease.ttl / 2
        {
            // The time that is left shows whether it succeeded.
            let _ = by_hand.renew().await;
        }
    }

    /// Lets go; returns a lease by hand that is left to others.
    pub(super) async fn end(mut self, end: End) -> Option<Lease> {
        // The belief ends with the last look, for the same reason as above.
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

/// Smaller changes come from the clock being asked twice.
const STEP_US: u64 = 1000;

//! A lock that a client believes to hold, and when it believed so.

use tenure::{Guard, Health, Outcome};
use tenure_checker::{Freed, What};

use crate::torture::clock::{micros, now_us};
use crate::torture::wire::Said;

use super::lots::End;
use super::notes::Notes;

/// A guard with the time of the last look that found it held.
///
/// A belief is what a look at the guard's health says, at the time of the look. A loss is noted for the moment after the last look
/// that found the lock held, and not for the moment at which this process got round to the next look: it may have been
/// stopped, or starved, in between, and believed nothing meanwhile.
#[derive(Debug)]
pub(super) struct Held {
    claim: u64,
    guard: Guard,
    seen_us: u64,
    /// Until when the lock is held if nothing is heard any more, as it was last told.
    told_until_us: u64,
    is_lost: bool,
    notes: Notes,
}

impl Held {
    /// Notes the grant if the first look finds the lock held; otherwise nobody ever believed to hold it.
    pub(super) fn begin(claim: u64, guard: Guard, notes: &Notes) -> Option<Self> {
        let seen_us = now_us();
        if let Health::Lost(loss) = guard.health() {
            let error = format!("lost before the first look: {loss}");
            notes.note(What::Unknown { claim, error });
            return None;
        }
        let fence = Some(guard.fence().get());
        notes.note_at(seen_us, What::Granted { claim, fence });
        let mut held = Self {
            claim,
            guard,
            seen_us,
            told_until_us: 0,
            is_lost: false,
            notes: notes.clone(),
        };
        held.tell_until();
        Some(held)
    }

    pub(super) fn fence(&self) -> u64 {
        self.guard.fence().get()
    }

    /// Looks whether the lock is still held.
    pub(super) fn look(&mut self) -> bool {
        if self.is_lost {
            return false;
        }
        // Before the look: what it finds held then was held now.
        let now_us = now_us();
        if matches!(self.guard.health(), Health::Lost(_)) {
            self.is_lost = true;
            let claim = self.claim;
            self.notes.note_at(self.seen_us + 1, What::Lost { claim });
            return false;
        }
        self.seen_us = now_us;
        self.tell_until();
        true
    }

    /// Says until when the lock is held, if that has changed: nobody can ask a process that was killed.
    fn tell_until(&mut self) {
        let until_us = now_us() + micros(self.guard.time_left());
        if until_us > self.told_until_us + STEP_US {
            self.told_until_us = until_us;
            let claim = self.claim;
            self.notes.say(&Said::Believes { claim, until_us });
        }
    }

    /// Waits until the guard tells of a loss by itself.
    pub(super) async fn lost(&self) {
        self.guard.lost().await;
    }

    /// Lets go.
    pub(super) async fn end(mut self, end: End) {
        // The belief ends with the last look, for the same reason as above.
        let ends_us = match self.look() {
            true => self.seen_us,
            false => now_us(),
        };
        let claim = self.claim;
        self.notes.note_at(ends_us, What::Releasing { claim });
        if end == End::Drop {
            return;
        }
        let freed = match self.guard.release().await {
            Ok(Outcome::Released) => Freed::Freed,
            Ok(Outcome::Lowered { .. }) => Freed::Lowered,
            Ok(Outcome::NotHeld(_)) => Freed::NotHeld,
            Ok(_) | Err(_) => Freed::Unknown,
        };
        self.notes.note(What::Released { claim, freed });
    }
}

/// Smaller changes come from the clock being asked twice.
const STEP_US: u64 = 1000;

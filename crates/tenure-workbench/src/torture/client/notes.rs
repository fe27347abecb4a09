//! The events of a client, sent at once so that a killed process loses none.

use std::cell::Cell;
use std::rc::Rc;

use tenure_checker::{Event, What};
use tenure_testkit::Parent;

use crate::clock::now_us;
use crate::torture::messages::Message;

/// Sends the events of one process; its tasks share it.
#[derive(Debug, Clone)]
pub(super) struct Notes {
    process: u32,
    claims: Rc<Cell<u32>>,
}

impl Notes {
    pub(super) fn new(process: u32) -> Self {
        Self {
            process,
            claims: Rc::default(),
        }
    }

    /// Returns a number for a claim that is unique in the run.
    pub(super) fn claim(&self) -> u64 {
        let number = self.claims.get() + 1;
        self.claims.set(number);
        u64::from(self.process) << 32 | u64::from(number)
    }

    /// Records an event now.
    pub(super) fn note(&self, what: What) {
        self.note_at(now_us(), what);
    }

    /// Records an event at an earlier time.
    pub(super) fn note_at(&self, at_us: u64, what: What) {
        self.send(&Message::Noted(Event {
            at_us,
            process: self.process,
            what,
        }));
    }

    /// Sends a message.
    #[expect(
        clippy::expect_used,
        reason = "a client that cannot note what it does must not go on doing it"
    )]
    pub(super) fn send(&self, message: &Message) {
        Parent::send(message).expect("whoever started this process reads its messages");
    }
}

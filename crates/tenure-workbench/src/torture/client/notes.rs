//! What a client notes, sent at once: a process that is killed loses nothing.

use std::cell::Cell;
use std::rc::Rc;

use tenure_checker::{Event, What};
use tenure_testkit::Parent;

use crate::clock::now_us;
use crate::torture::messages::Message;

/// The notes of one process, shared by its tasks.
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

    /// Returns a number for a claim that no other claim of the run has.
    pub(super) fn claim(&self) -> u64 {
        let number = self.claims.get() + 1;
        self.claims.set(number);
        u64::from(self.process) << 32 | u64::from(number)
    }

    /// Notes what happens now.
    pub(super) fn note(&self, what: What) {
        self.note_at(now_us(), what);
    }

    /// Notes what happened at a time that is over.
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

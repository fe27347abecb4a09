//! What a client notes, told at once: a process that is killed loses none of it.

use std::cell::Cell;
use std::io::Write;
use std::rc::Rc;

use tenure_checker::{Event, What};

use crate::torture::clock::now_us;
use crate::torture::wire::Said;

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
        self.say(&Said::Noted(Event {
            at_us,
            process: self.process,
            what,
        }));
    }

    /// Says a line, in one write, so that a kill leaves no half of it.
    #[expect(
        clippy::expect_used,
        reason = "a client that cannot note what it does must not go on doing it"
    )]
    pub(super) fn say(&self, said: &Said) {
        let mut text = serde_json::to_string(said).expect("these values have a JSON form");
        text.push('\n');
        let mut out = std::io::stdout().lock();
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        written.expect("whoever started this process reads what it says");
    }
}

//! Reads a history once, from its first event to its last, and records contradictions.

mod claim;
mod process;

use std::collections::HashMap;

use crate::claims::{Contradictions, Name, View};
use crate::history::{Event, What};
use crate::holders::Holders;
use crate::verdict::Expect;

/// Indexes a history for the rules.
pub(crate) fn gather<'a>(events: &'a [Event], expect: &'a Expect) -> View<'a> {
    let mut reader = Reader::new(events, expect);
    for (place, event) in events.iter().enumerate() {
        reader.read(place, event);
    }
    reader.finish()
}

/// What is known so far.
struct Reader<'a> {
    view: View<'a>,
    numbers: HashMap<u64, usize>,
    names: HashMap<&'a str, usize>,
    owners: HashMap<&'a str, usize>,
    holders: Vec<Holders>,
    /// The claims of an owner that hold a name. Claims that no longer do are removed when they are
    /// at the end and the list is read.
    held: HashMap<(usize, usize), Vec<usize>>,
    /// The first claim of an owner on a name.
    first: HashMap<(usize, usize), usize>,
    processes: HashMap<u32, Process>,
    now_us: u64,
}

/// What is known about a process so far.
#[derive(Default)]
struct Process {
    life: Life,
    /// The claims of its current life.
    claims: Vec<usize>,
}

/// The state of a process.
#[derive(Default, Clone, Copy)]
enum Life {
    #[default]
    Unseen,
    Alive,
    /// Killed by this event; what it recorded later must have been in flight.
    Killed(usize, Option<usize>),
    Ended(usize),
}

impl<'a> Reader<'a> {
    fn new(events: &'a [Event], expect: &'a Expect) -> Self {
        Self {
            view: View {
                events,
                expect,
                claims: Vec::new(),
                names: Vec::new(),
                pauses: HashMap::new(),
                ends: Vec::new(),
                faults: Vec::new(),
                healed: None,
                left: Vec::new(),
                noted: HashMap::new(),
                contradictions: Contradictions::default(),
            },
            numbers: HashMap::new(),
            names: HashMap::new(),
            owners: HashMap::new(),
            holders: Vec::new(),
            held: HashMap::new(),
            first: HashMap::new(),
            processes: HashMap::new(),
            now_us: 0,
        }
    }

    fn read(&mut self, place: usize, event: &'a Event) {
        if event.at_us < self.now_us {
            let (at, before) = (event.at_us, self.now_us);
            self.contradict(|| format!("{at} µs comes after {before} µs"));
        }
        self.now_us = event.at_us;
        match &event.what {
            What::Started => self.started(event.process),
            What::Ended { crashed } => self.ended(place, event.process, *crashed),
            What::Fault { kind, target } => self.fault(place, kind, *target),
            What::Over { kind, target } => self.over(place, kind, *target),
            What::Healed => self.view.healed = Some(place),
            What::Left { .. } => self.view.left.push(place),
            What::Asked { .. } => self.asked(place, event.process, &event.what),
            What::Wrote { .. } => self.wrote(place, &event.what),
            What::Queued { claim }
            | What::Granted { claim, .. }
            | What::Refused { claim }
            | What::Unknown { claim, .. }
            | What::Lost { claim }
            | What::Excused { claim, .. }
            | What::Releasing { claim }
            | What::Released { claim, .. } => self.claim(place, event, *claim),
        }
    }

    fn finish(mut self) -> View<'a> {
        let mut late: Vec<_> = self.processes.iter().collect();
        late.sort_unstable_by_key(|(number, _)| **number);
        for (number, process) in late {
            if let Life::Killed(_, Some(_)) = process.life {
                self.view
                    .contradictions
                    .note(|| format!("process {number} went on after it was killed"));
            }
        }
        self.view
    }

    fn name(&mut self, text: &'a str) -> usize {
        *self.names.entry(text).or_insert_with(|| {
            self.holders.push(Holders::default());
            self.view.names.push(Name {
                text,
                claims: Vec::new(),
                grants: Vec::new(),
                writes: Vec::new(),
            });
            self.view.names.len() - 1
        })
    }

    fn contradict(&mut self, tell: impl FnOnce() -> String) {
        self.view.contradictions.note(tell);
    }
}

//! Reads the events of processes: they start, are paused and end, and their claims end with them.

use super::{Life, Reader};
use crate::claims::{End, Pause};

/// The fault that ends a process.
const KILL: &str = "kill";
/// The fault that stops a process until it is over.
const PAUSE: &str = "pause";

impl Reader<'_> {
    pub(super) fn started(&mut self, number: u32) {
        let process = self.processes.entry(number).or_default();
        let life = std::mem::replace(&mut process.life, Life::Alive);
        process.claims.clear();
        match life {
            Life::Unseen | Life::Ended(_) | Life::Killed(_, None) => {}
            Life::Alive => self.contradict(|| format!("process {number} began twice")),
            Life::Killed(_, Some(_)) => {
                self.contradict(|| format!("process {number} went on after it was killed"));
            }
        }
    }

    pub(super) fn ended(&mut self, place: usize, number: u32, crashed: bool) {
        let life = self.processes.entry(number).or_default().life;
        let killed = matches!(life, Life::Killed(..));
        if matches!(life, Life::Ended(_)) {
            self.contradict(|| format!("process {number} ended twice"));
        }
        let waiting = self.end_of(place, number, Life::Ended(place));
        self.view.ends.push(End {
            event: place,
            process: number,
            crashed: crashed && !killed,
            waiting,
        });
    }

    /// Ends a life and all its beliefs; returns a claim that was not answered yet.
    fn end_of(&mut self, place: usize, number: u32, life: Life) -> Option<usize> {
        let process = self.processes.entry(number).or_default();
        process.life = life;
        // The end of a process also ends its pause.
        self.over(place, PAUSE, Some(number));
        let process = self.processes.entry(number).or_default();
        let mut waiting = None;
        for claim in std::mem::take(&mut process.claims) {
            self.view.claims[claim].died = Some(place);
            self.believes_no_more(place, claim);
            if self.view.claims[claim].answered().is_none() {
                waiting.get_or_insert(claim);
            }
        }
        waiting
    }

    pub(super) fn fault(&mut self, place: usize, kind: &str, target: Option<u32>) {
        self.view.faults.push(place);
        let Some(number) = target else {
            return;
        };
        match kind {
            KILL => {
                let life = self.processes.entry(number).or_default().life;
                if !matches!(life, Life::Ended(_) | Life::Killed(..)) {
                    self.end_of(place, number, Life::Killed(place, None));
                }
            }
            PAUSE => {
                let pauses = self.view.pauses.entry(number).or_default();
                if pauses.last().is_none_or(|last| last.over.is_some()) {
                    pauses.push(Pause {
                        from: place,
                        over: None,
                    });
                }
            }
            _ => {}
        }
    }

    pub(super) fn over(&mut self, place: usize, kind: &str, target: Option<u32>) {
        let pauses = target.and_then(|number| self.view.pauses.get_mut(&number));
        if kind != PAUSE {
            return;
        }
        if let Some(last) = pauses.and_then(|pauses| pauses.last_mut()) {
            last.over.get_or_insert(place);
        }
    }

    /// Checks that a process records events only while it lives, or in the very microsecond of its
    /// end.
    pub(super) fn noted_by(&mut self, place: usize, number: u32) {
        let process = self.processes.entry(number).or_default();
        let now_us = self.now_us;
        let past = |end: usize| self.view.events[end].at_us < now_us;
        match process.life {
            Life::Unseen => process.life = Life::Alive,
            Life::Killed(end, _) if past(end) => process.life = Life::Killed(end, Some(place)),
            Life::Ended(end) if past(end) => {
                self.contradict(|| format!("process {number} went on after its end"));
            }
            Life::Alive | Life::Killed(..) | Life::Ended(_) => {}
        }
    }
}

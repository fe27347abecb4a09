//! Collects all events of a run.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tenure_checker::{Event, History, What};

/// The events so far, and the state that results from them.
#[derive(Debug, Default)]
pub(super) struct Recorder(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    events: History,
    /// All owners that have asked. If an owner has several claims, it is unknown which of them is
    /// seen in line.
    owners: HashSet<String>,
    /// The claims that wait for an answer, by owner.
    open: HashMap<String, u64>,
    /// The claims that a client believes it holds.
    held: HashMap<u64, Belief>,
    /// The periods in which the store answered nobody.
    standstills: Vec<(u64, u64)>,
    counts: Counts,
    /// Why the run cannot continue.
    failed: Option<String>,
}

/// Which process believes that it holds a claim, and until when at most.
#[derive(Debug)]
struct Belief {
    process: u32,
    until_us: Option<u64>,
}

/// The progress of a run.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) grants: usize,
    pub(super) faults: usize,
}

impl Recorder {
    /// Records an event.
    pub(super) fn note(&self, event: Event) {
        let mut state = self.state();
        match &event.what {
            What::Asked { claim, owner, .. } => {
                match state.owners.insert(owner.clone()) {
                    true => state.open.insert(owner.clone(), *claim),
                    false => state.open.remove(owner),
                };
            }
            What::Granted { claim, .. } => {
                state.counts.grants += 1;
                state.answered(*claim);
                let belief = Belief {
                    process: event.process,
                    until_us: None,
                };
                state.held.insert(*claim, belief);
            }
            What::Lost { claim } => {
                state.held.remove(claim);
            }
            What::Releasing { claim } => {
                state.held.remove(claim);
                // It may have been dropped while it waited.
                state.answered(*claim);
            }
            What::Refused { claim } | What::Unknown { claim, .. } => state.answered(*claim),
            What::Fault { .. } => state.counts.faults += 1,
            _ => {}
        }
        state.events.push(event);
    }

    /// Records until when a claim is believed to be held.
    pub(super) fn believes(&self, claim: u64, until_us: u64) {
        if let Some(belief) = self.state().held.get_mut(&claim) {
            belief.until_us = Some(until_us);
        }
    }

    /// Records the losses that a killed process would have noticed before its end, had it been
    /// running.
    pub(super) fn killed(&self, process: u32, at_us: u64) {
        let mut state = self.state();
        let gone = state.held.extract_if(|_, belief| belief.process == process);
        let lost = gone.filter_map(|(claim, belief)| Some((claim, belief.until_us?)));
        let lost = lost.filter(|(_, until_us)| *until_us < at_us);
        let lost: Vec<_> = lost.collect();
        for (claim, at_us) in lost {
            state.events.push(Event {
                at_us,
                process,
                what: What::Lost { claim },
            });
        }
    }

    /// Records that the store answered nobody for so long that leases may have expired unnoticed,
    /// including those of waiters whose turn came.
    pub(super) fn stood_still(&self, from_us: u64, until_us: u64) {
        self.state().standstills.push((from_us, until_us));
    }

    /// Returns the claim of this owner that waits for an answer, but only on the first call.
    pub(super) fn seen_in_line(&self, owner: &str) -> Option<u64> {
        self.state().open.remove(owner)
    }

    /// Returns the processes that hold something, as far as is known; some of them may have ended.
    pub(super) fn holders(&self) -> Vec<u32> {
        let state = self.state();
        let mut holders: Vec<_> = state.held.values().map(|belief| belief.process).collect();
        holders.sort_unstable();
        holders.dedup();
        holders
    }

    pub(super) fn counts(&self) -> Counts {
        self.state().counts
    }

    /// Records that the run cannot continue; the first reason counts.
    pub(super) fn fail(&self, sentence: String) {
        self.state().failed.get_or_insert(sentence);
    }

    /// Returns why the run cannot continue.
    pub(super) fn failed(&self) -> Option<String> {
        self.state().failed.clone()
    }

    /// Takes all events, ordered by time.
    pub(super) fn history(&self) -> History {
        let mut state = self.state();
        let events = std::mem::take(&mut state.events);
        state.in_order(events)
    }

    /// Copies the events so far, ordered by time.
    pub(super) fn so_far(&self) -> History {
        let state = self.state();
        state.in_order(state.events.clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn in_order(&self, mut events: History) -> History {
        // A stable sort: events with the same time stay in the order in which they were recorded.
        events.sort_by_key(|event| event.at_us);
        let mut ends = HashMap::new();
        for event in &events {
            if let What::Granted { claim, .. }
            | What::Refused { claim }
            | What::Unknown { claim, .. }
            | What::Releasing { claim } = event.what
            {
                ends.entry(claim).or_insert(event.at_us);
            }
        }
        // The line was listed a moment before it was recorded, and a claim may have left it in
        // between.
        let is_late = |claim: &u64, at_us| ends.get(claim).is_some_and(|end| *end <= at_us);
        // A claim that waits through a standstill also loses the right to its place.
        let is_over = |claim: &u64, at_us| {
            let end = ends.get(claim).copied().unwrap_or(u64::MAX);
            let mut standstills = self.standstills.iter();
            standstills.any(|(from_us, until_us)| *from_us < end && at_us < *until_us)
        };
        events.retain(|event| match &event.what {
            What::Queued { claim } => !is_late(claim, event.at_us) && !is_over(claim, event.at_us),
            _ => true,
        });
        events
    }

    fn answered(&mut self, claim: u64) {
        self.open.retain(|_, open| *open != claim);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(recorder: &Recorder, at_us: u64, what: What) {
        recorder.note(Event {
            at_us,
            process: 1,
            what,
        });
    }

    fn asked(claim: u64, owner: &str) -> What {
        What::Asked {
            claim,
            name: "a".to_owned(),
            mode: tenure_checker::Mode::Exclusive,
            owner: owner.to_owned(),
        }
    }

    #[test]
    fn a_waiter_is_seen_once_and_not_after_its_answer() {
        let recorder = Recorder::default();
        note(&recorder, 1, asked(1, "ann"));
        note(&recorder, 2, asked(2, "bob"));
        assert_eq!(recorder.seen_in_line("ann"), Some(1));
        assert_eq!(recorder.seen_in_line("ann"), None);
        note(&recorder, 3, What::Refused { claim: 2 });
        assert_eq!(recorder.seen_in_line("bob"), None);
    }

    #[test]
    fn of_an_owner_with_two_claims_nobody_knows_which_is_seen() {
        let recorder = Recorder::default();
        note(&recorder, 1, asked(1, "ann"));
        note(&recorder, 2, What::Releasing { claim: 1 });
        note(&recorder, 3, asked(2, "ann"));
        assert_eq!(recorder.seen_in_line("ann"), None);
    }

    #[test]
    fn who_holds_something_is_known_until_it_lets_go() {
        let recorder = Recorder::default();
        let fence = None;
        note(&recorder, 1, What::Granted { claim: 1, fence });
        assert_eq!(recorder.holders(), [1]);
        note(&recorder, 2, What::Releasing { claim: 1 });
        assert!(recorder.holders().is_empty());
    }

    #[test]
    fn the_belief_of_a_killed_process_ends_with_its_lease() {
        let recorder = Recorder::default();
        for claim in [1, 2] {
            let fence = None;
            note(&recorder, claim, What::Granted { claim, fence });
            recorder.believes(claim, 10 * claim);
        }
        recorder.killed(1, 15);
        let history = recorder.history();
        let lost: Vec<_> = history.iter().skip(2).collect();
        assert_eq!(lost.len(), 1, "{lost:?}");
        assert_eq!(
            (lost[0].at_us, &lost[0].what),
            (10, &What::Lost { claim: 1 })
        );
    }

    #[test]
    fn who_waits_through_a_standstill_was_not_seen_in_line() {
        let recorder = Recorder::default();
        for (claim, answered_us) in [(1, 15), (2, 25), (3, 50)] {
            note(&recorder, 10 * claim, What::Queued { claim });
            note(
                &recorder,
                answered_us.max(10 * claim + 1),
                What::Refused { claim },
            );
        }
        recorder.stood_still(16, 28);
        let history = recorder.history();
        let queued = history.iter().filter_map(|event| match event.what {
            What::Queued { claim } => Some(claim),
            _ => None,
        });
        assert_eq!(queued.collect::<Vec<_>>(), [1, 3]);
    }

    #[test]
    fn a_history_is_in_the_order_of_its_times_without_those_seen_in_line_too_late() {
        let recorder = Recorder::default();
        note(&recorder, 4, What::Queued { claim: 1 });
        note(&recorder, 3, What::Refused { claim: 1 });
        note(&recorder, 2, What::Queued { claim: 1 });
        note(&recorder, 1, asked(1, "ann"));
        let times: Vec<_> = recorder.history().iter().map(|event| event.at_us).collect();
        assert_eq!(times, [1, 2, 3]);
    }
}

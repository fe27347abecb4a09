//! The promises, one file each. A rule reads the whole history, and reports the first breach and
//! how many there were.

mod exclusion;
mod fences;
mod honest;
mod left;
mod liveness;
mod order;
mod owner;
mod updates;
mod writes;

use crate::claims::View;
use crate::verdict::{Finding, Promise};

/// Finds the breaches of one promise.
type Rule = fn(&View<'_>) -> Breaches;

/// All rules, in the order in which findings are reported.
const RULES: [(Promise, Rule); 9] = [
    (Promise::Exclusion, exclusion::rule),
    (Promise::NoLostUpdate, updates::rule),
    (Promise::FencedWrites, writes::rule),
    (Promise::GrowingFences, fences::rule),
    (Promise::OwnerOnly, owner::rule),
    (Promise::Order, order::rule),
    (Promise::Liveness, liveness::rule),
    (Promise::NothingLeft, left::rule),
    (Promise::HonestErrors, honest::rule),
];

/// Judges each requested promise.
pub(crate) fn judge(view: &View<'_>) -> Vec<Finding> {
    let asked = RULES
        .iter()
        .filter(|(promise, _)| view.expect.asks_for(*promise));
    let judged = asked.filter_map(|(promise, rule)| rule(view).finding(*promise, view));
    judged.collect()
}

/// The breaches of one promise: the earliest in full, the others counted.
#[derive(Debug, Default)]
struct Breaches {
    first: Option<Breach>,
    count: usize,
}

/// One breach.
#[derive(Debug)]
struct Breach {
    /// The event that completed it.
    at: usize,
    sentence: String,
    events: Vec<usize>,
}

impl Breaches {
    /// Records a breach that the event `at` completed; `tell` returns the sentence and the events
    /// that prove it.
    fn note(&mut self, at: usize, tell: impl FnOnce() -> (String, Vec<usize>)) {
        self.count += 1;
        if self.first.as_ref().is_none_or(|first| at < first.at) {
            let (sentence, events) = tell();
            self.first = Some(Breach {
                at,
                sentence,
                events,
            });
        }
    }

    fn finding(self, promise: Promise, view: &View<'_>) -> Option<Finding> {
        let Breach {
            sentence,
            mut events,
            ..
        } = self.first?;
        events.sort_unstable();
        events.dedup();
        let events = events.into_iter().map(|event| view.events[event].clone());
        Some(Finding {
            promise,
            sentence,
            events: events.collect(),
            count: self.count,
        })
    }
}

impl View<'_> {
    /// Describes a claim in a sentence.
    fn called(&self, claim: usize) -> String {
        let claim = &self.claims[claim];
        format!("claim {} of process {}", claim.number, claim.process)
    }

    /// Returns the name of a claim, for a sentence.
    fn name_of(&self, claim: usize) -> &str {
        self.names[self.claims[claim].name].text
    }

    /// Returns the event of a grant, for a proof.
    fn grant_of(&self, claim: usize) -> Option<usize> {
        self.claims[claim].granted.map(|grant| grant.event)
    }
}

//! What must be true in every state, and what must happen in some.

use stateright::Property;

use crate::state::{Attempt, Phase, State};
use crate::variant::Redlock;

/// A rule that a variant is checked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// No two reported grants have the same fence.
    Unique,
    /// A grant has a larger fence than all grants that were reported before its attempt started.
    Growing,
    /// At most one client believes that it holds the lock.
    Exclusive,
    /// The interesting events do happen, so the other rules are not kept merely because they are
    /// absent.
    Reach,
}

/// Returns the properties for the checker.
pub(crate) fn properties(rules: &[Rule]) -> Vec<Property<Redlock>> {
    let of = |rule: &Rule| match rule {
        Rule::Unique => vec![Property::always("fences are unique", fences_are_unique)],
        Rule::Growing => vec![Property::always("fences grow", fences_grow)],
        Rule::Exclusive => vec![Property::always("one client believes", one_believes)],
        Rule::Reach => reachable(),
    };
    rules.iter().flat_map(of).collect()
}

fn fences_are_unique(_: &Redlock, state: &State) -> bool {
    let mut reported: Vec<_> = state.attempts.iter().map(Attempt::reported).collect();
    reported.retain(|&fence| fence > 0);
    reported.sort_unstable();
    reported.is_sorted_by(|one, next| one < next)
}

fn fences_grow(_: &Redlock, state: &State) -> bool {
    let grew = |attempt: &Attempt| {
        let fence = attempt.reported();
        fence == 0 || fence > attempt.floor
    };
    state.attempts.iter().all(grew)
}

fn one_believes(_: &Redlock, state: &State) -> bool {
    let believes = |attempt: &&Attempt| matches!(attempt.phase, Phase::Held(_));
    state.attempts.iter().filter(believes).count() <= 1
}

fn reachable() -> Vec<Property<Redlock>> {
    type Seen = fn(&Redlock, &State) -> bool;
    let reached: [(&'static str, Seen); 8] = [
        ("a vote is lost", |_, s| s.seen.lost_vote),
        ("a repeat is heard", |_, s| s.seen.repeat),
        ("a lease given back counts", |_, s| s.seen.vote_given_back),
        ("a grant without sealing", |_, s| s.seen.fast_grant),
        ("a grant by sealing", |_, s| s.seen.sealed_grant),
        ("a grant after a crash", |_, s| s.seen.grant_after_crash),
        (
            "a grant after an expiry while another client believes",
            |_, s| s.seen.grant_despite_belief,
        ),
        (
            "a grant by the vote of a node that had lost its memory",
            |model, s| s.seen.grant_by_forgetful_node || !model.clock.runs(),
        ),
    ];
    let sometimes = reached.into_iter();
    sometimes
        .map(|(name, seen)| Property::sometimes(name, seen))
        .collect()
}

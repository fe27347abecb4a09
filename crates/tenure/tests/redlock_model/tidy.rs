//! Shortcuts: states that differ only in what no longer matters are made the same.
//!
//! Without them the same variants have ten times as many states. A test runs a small variant
//! both ways.

use crate::state::{ATTEMPTS, Fence, NODES, Node, Phase, State, Tick, Vote};
use crate::variant::{Amnesia, Mistake, Redlock};

impl Redlock {
    pub(crate) fn tidy(&self, state: &mut State) {
        for node in 0..state.nodes.len() {
            self.tidy_node(state, node);
        }
        for number in 0..self.attempts {
            self.tidy_attempt(state, number);
        }
        self.sort(state);
    }

    fn tidy_node(&self, state: &mut State, node: usize) {
        let node = &mut state.nodes[node];
        if node.last < self.clock.fence_at(state.now + node.ahead) {
            node.last = 0;
        }
        let Some(lease) = &mut node.lease else {
            return;
        };
        // No answer about it counts; and where `Seal` is refused for the lease's fence, `last` is
        // larger too, and would not change.
        let done = state.attempts[lease.attempt].is_done();
        if done || (lease.young && self.mistake.is_none()) {
            lease.fence = 0;
        }
        if done {
            lease.young = false;
        }
    }

    fn tidy_attempt(&self, state: &mut State, number: usize) {
        let mut attempt = state.attempts[number];
        if self.is_outrun(attempt.proposal, &state.nodes, state.now) {
            attempt.proposal = 0;
        }
        if attempt.is_done() && self.is_below_all(attempt.seal, &state.nodes, state.now) {
            attempt.seal = 0;
        }
        let reported = attempt.reported();
        if reported > attempt.floor || attempt.phase == Phase::Over(0) {
            attempt.floor = 0;
        }
        state.attempts[number] = attempt;
    }

    /// Returns whether all nodes give out the same fences without the proposal, now and later.
    fn is_outrun(&self, proposal: Fence, nodes: &[Node], now: Tick) -> bool {
        if self.has(Mistake::IgnoresLast) {
            return false;
        }
        let remembers = self.amnesia == Amnesia::Never;
        nodes.iter().all(|node| {
            let next = if remembers { node.last + 1 } else { 1 };
            proposal <= next.max(self.clock.fence_at(now + node.ahead))
        })
    }

    /// Returns whether all nodes give out only larger fences, now and later.
    fn is_below_all(&self, fence: Fence, nodes: &[Node], now: Tick) -> bool {
        let remembers = self.amnesia == Amnesia::Never;
        nodes.iter().all(|node| {
            let clock = self.clock.fence_at(now + node.ahead);
            fence < clock || (remembers && fence <= node.last)
        })
    }

    /// Sorts attempts and nodes: they have no names, only places in the state.
    fn sort(&self, state: &mut State) {
        if !self.has(Mistake::CountsOlderAttempt) {
            let mut order = [0, 1, 2];
            order[..self.attempts].sort_by(|&one, &other| {
                let by_attempt = state.attempts[one].cmp(&state.attempts[other]);
                by_attempt.then_with(|| heard(state, one).cmp(&heard(state, other)))
            });
            if !order.is_sorted() {
                rearrange(state, order);
            }
        }
        state.nodes.sort_unstable();
    }
}

fn heard(state: &State, attempt: usize) -> [Option<Vote>; NODES] {
    state.nodes.map(|node| node.votes[attempt])
}

/// Moves attempt `order[n]` to place `n`.
fn rearrange(state: &mut State, order: [usize; ATTEMPTS]) {
    state.attempts = order.map(|number| state.attempts[number]);
    for node in &mut state.nodes {
        node.votes = order.map(|number| node.votes[number]);
        if let Some(lease) = &mut node.lease {
            let place = order.iter().position(|&number| number == lease.attempt);
            lease.attempt = place.unwrap_or(lease.attempt);
        }
    }
}

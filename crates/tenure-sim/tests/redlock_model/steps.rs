//! The possible steps in a state.

use stateright::{Model, Property};

use crate::rules;
use crate::state::{ATTEMPTS, Attempt, Fence, NODES, Node, Phase, Seen, State, Tick};
use crate::variant::{Amnesia, Expiry, Redlock, Repeats, Shortcuts};

/// One step of a client, a node, the network or the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The next attempt starts: `Ask` is in flight to all nodes.
    Begin { proposal: Fence },
    /// `Ask` reaches a node, for the first time or again.
    Ask {
        attempt: usize,
        node: usize,
        /// Irrelevant if the node has no lease.
        repeats: Repeats,
        answer: Answer,
    },
    /// `Seal` reaches a node, for the first time or again.
    Seal {
        attempt: usize,
        node: usize,
        answer: Answer,
    },
    /// The client gives up or releases: `Withdraw` is in flight to all nodes.
    Withdraw { attempt: usize },
    /// `Withdraw` reaches a node, for the first time or again.
    Drop { attempt: usize, node: usize },
    /// A lease ends at its node.
    Expire { node: usize },
    /// A node crashes and restarts with its memory.
    Restart { node: usize },
    /// A node crashes and restarts without its memory.
    Forget { node: usize },
    /// The time advances.
    Tick,
}

/// What happens to a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Heard,
    Lost,
}

impl Model for Redlock {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![start([0, 0, self.clock.skew])]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        if self.is_over(state) {
            return;
        }
        self.begins(state, steps);
        for attempt in 0..self.attempts {
            if state.attempts[attempt].phase != Phase::Waiting {
                self.messages(attempt, state, steps);
                self.withdrawals(attempt, state, steps);
            }
        }
        for node in 0..NODES {
            self.faults(node, state, steps);
        }
        if state.now < self.clock.end {
            steps.push(Step::Tick);
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        self.take(&mut next, step);
        if next == *state {
            return None;
        }
        if self.shortcuts == Shortcuts::Taken {
            self.tidy(&mut next);
        }
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        rules::properties(self.rules)
    }
}

impl Redlock {
    fn begins(&self, state: &State, steps: &mut Vec<Step>) {
        let waits = |attempt: &Attempt| attempt.phase == Phase::Waiting;
        if state.attempts[..self.attempts].iter().any(waits) {
            let proposals = self.proposals(state.now).into_iter();
            steps.extend(proposals.map(|proposal| Step::Begin { proposal }));
        }
    }

    /// Adds the arrival of each request that the attempt has sent: each may arrive late, again, or
    /// never. Requests that the node will refuse are left out.
    fn messages(&self, attempt: usize, state: &State, steps: &mut Vec<Step>) {
        let sent = &state.attempts[attempt];
        for (node, at) in state.nodes.iter().enumerate() {
            let own = at.is_held_by(attempt);
            if !own && at.lease.is_some() {
                continue;
            }
            let kinds = if own { self.repeats.len() } else { 1 };
            for &answer in answers(sent) {
                for &repeats in &self.repeats[..kinds] {
                    steps.push(Step::Ask {
                        attempt,
                        node,
                        repeats,
                        answer,
                    });
                }
                if sent.seal > 0 {
                    steps.push(Step::Seal {
                        attempt,
                        node,
                        answer,
                    });
                }
            }
        }
    }

    /// Adds withdrawals. Where leases end at any time, `Withdraw` is left out: for a node it is an
    /// expiry, and a client that has given up is one that receives no more replies.
    fn withdrawals(&self, attempt: usize, state: &State, steps: &mut Vec<Step>) {
        if self.expiry == Expiry::AnyTime && self.shortcuts == Shortcuts::Taken {
            return;
        }
        if !matches!(state.attempts[attempt].phase, Phase::Over(_)) {
            steps.push(Step::Withdraw { attempt });
            return;
        }
        for (node, at) in state.nodes.iter().enumerate() {
            if at.is_held_by(attempt) {
                steps.push(Step::Drop { attempt, node });
            }
        }
    }

    fn faults(&self, node: usize, state: &State, steps: &mut Vec<Step>) {
        if self.expiry == Expiry::AnyTime && state.nodes[node].lease.is_some() {
            steps.push(Step::Expire { node });
        }
        if self.can_forget(state) {
            steps.push(Step::Forget { node });
        }
        // This only changes the record of events: messages that a crash loses may be lost anyway.
        if self.records() {
            steps.push(Step::Restart { node });
        }
    }

    /// Returns whether a node that loses its memory now still has time until it is no longer young.
    pub(crate) fn has_time_to_forget(&self, now: Tick) -> bool {
        self.amnesia != Amnesia::Never && now + self.clock.restart_delay <= self.clock.end
    }

    /// Returns whether a node may lose its memory. A node that would be young until the end is left
    /// out, because it is equivalent to a silent one.
    fn can_forget(&self, state: &State) -> bool {
        let grows_up = self.has_time_to_forget(state.now);
        let young = state.nodes.iter().any(|node| node.is_young(state.now));
        match self.amnesia {
            Amnesia::Never => false,
            Amnesia::OneByOne => grows_up && !young,
            Amnesia::AnyNode => grows_up,
        }
    }
}

fn start(ahead: [Tick; NODES]) -> State {
    let node = |ahead| Node {
        ahead,
        ..Node::default()
    };
    State {
        now: 0,
        nodes: ahead.map(node),
        attempts: [Attempt::default(); ATTEMPTS],
        seen: Seen::default(),
    }
}

fn answers(attempt: &Attempt) -> &'static [Answer] {
    if attempt.is_done() {
        &[Answer::Lost]
    } else {
        &[Answer::Heard, Answer::Lost]
    }
}

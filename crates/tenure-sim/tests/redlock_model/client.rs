//! The effect of a step, mainly on the client.

use crate::node::Message;
use crate::state::{Attempt, Fence, MAJORITY, Phase, State};
use crate::steps::{Answer, Step};
use crate::variant::{Expiry, Mistake, Redlock, Repeats};

impl Redlock {
    /// Takes one step.
    pub(crate) fn take(&self, state: &mut State, step: Step) {
        let now = state.now;
        match step {
            Step::Begin { proposal } => self.begin(state, proposal),
            Step::Ask {
                attempt,
                node,
                repeats,
                answer,
            } => self.asked(state, attempt, node, repeats, answer),
            Step::Seal {
                attempt,
                node,
                answer,
            } => self.sealed(state, attempt, node, answer),
            Step::Withdraw { attempt } => self.withdraw(state, attempt),
            Step::Drop { attempt, node } => Self::withdrawn(&mut state.nodes[node], attempt),
            Step::Expire { node } => {
                state.nodes[node].lease = None;
                state.seen.expiry |= self.records();
            }
            Step::Restart { .. } => state.seen.crash = true,
            Step::Forget { node } => self.forget(&mut state.nodes[node], now),
            Step::Tick => self.tick(state),
        }
    }

    /// Returns whether the attempt's leases may have ended, as far as its client can know.
    pub(crate) fn is_too_late(&self, attempt: &Attempt, state: &State) -> bool {
        match self.expiry {
            Expiry::OnTime { ttl } => state.now >= attempt.began + ttl,
            Expiry::Never | Expiry::AnyTime => false,
        }
    }

    fn begin(&self, state: &mut State, proposal: Fence) {
        let waits = |attempt: &Attempt| attempt.phase == Phase::Waiting;
        let waiting = state.attempts[..self.attempts].iter().position(waits);
        let Some(number) = waiting else {
            return;
        };
        state.attempts[number] = Attempt {
            phase: Phase::Asking,
            proposal,
            seal: 0,
            floor: self.floor(state),
            began: state.now,
        };
        if self.has(Mistake::CountsOlderAttempt) && number > 1 {
            take_over_votes(state, number);
        }
    }

    /// Returns the fence that an attempt that starts now must exceed, or 0 if any fence by the
    /// clocks will.
    fn floor(&self, state: &State) -> Fence {
        let largest = state.largest_reported();
        if largest < self.clock.fence_at(state.now) {
            return 0;
        }
        largest
    }

    fn asked(
        &self,
        state: &mut State,
        number: usize,
        node: usize,
        repeats: Repeats,
        answer: Answer,
    ) {
        let attempt = state.attempts[number];
        let is_repeat = state.nodes[node].is_held_by(number);
        let asked = Message {
            number,
            attempt: &attempt,
            now: state.now,
        };
        let vote = self.ask(&mut state.nodes[node], &asked, repeats);
        let waits = attempt.phase == Phase::Asking && !self.is_too_late(&attempt, state);
        if vote.is_none() || !waits {
            return;
        }
        if answer == Answer::Lost {
            state.seen.lost_vote |= self.records();
            return;
        }
        state.seen.repeat |= self.records() && is_repeat;
        state.nodes[node].votes[number] = vote;
        self.choose(state, number);
    }

    /// With a majority of grants, reports their fence or starts to seal the largest.
    fn choose(&self, state: &mut State, number: usize) {
        let fences = state.granted(number);
        let largest = fences.iter().copied().max().unwrap_or(0);
        if fences.len() < MAJORITY {
            return;
        }
        let equal = fences.iter().all(|&fence| fence == largest);
        if equal || self.has(Mistake::NeverSeals) {
            state.seen.fast_grant |= self.records();
            self.report(state, number, largest);
            return;
        }
        state.clear_votes(number);
        state.attempts[number].phase = Phase::Sealing;
        state.attempts[number].seal = largest;
    }

    fn sealed(&self, state: &mut State, number: usize, node: usize, answer: Answer) {
        let attempt = state.attempts[number];
        let is_given_back = state.nodes[node].lease.is_none();
        let sealed = Message {
            number,
            attempt: &attempt,
            now: state.now,
        };
        let vote = self.seal(&mut state.nodes[node], &sealed);
        let waits = attempt.phase == Phase::Sealing && !self.is_too_late(&attempt, state);
        if vote.is_none() || answer == Answer::Lost || !waits {
            return;
        }
        state.seen.vote_given_back |= self.records() && is_given_back;
        state.nodes[node].votes[number] = vote;
        let needed = if self.has(Mistake::SealsAtOne) {
            1
        } else {
            MAJORITY
        };
        if state.sealed(number) >= needed {
            state.seen.sealed_grant |= self.records();
            self.report(state, number, attempt.seal);
        }
    }

    /// Reports to the caller, who believes from now on.
    fn report(&self, state: &mut State, number: usize, fence: Fence) {
        if self.records() {
            record_grant(state, number);
        }
        state.clear_votes(number);
        state.attempts[number].phase = Phase::Held(fence);
    }

    fn withdraw(&self, state: &mut State, number: usize) {
        let reported = state.attempts[number].reported();
        state.attempts[number].phase = Phase::Over(reported);
        if !self.has(Mistake::CountsOlderAttempt) {
            state.clear_votes(number);
        }
    }

    /// Advances the time; a client that is too late has given up.
    fn tick(&self, state: &mut State) {
        state.now += 1;
        for node in &mut state.nodes {
            self.look_at_the_clock(node, state.now);
        }
        for number in 0..self.attempts {
            let attempt = state.attempts[number];
            if attempt.phase != Phase::Waiting && self.is_too_late(&attempt, state) {
                self.withdraw(state, number);
            }
        }
    }
}

fn record_grant(state: &mut State, number: usize) {
    let believes = |attempt: &Attempt| matches!(attempt.phase, Phase::Held(_));
    let forgetful = state
        .nodes
        .iter()
        .any(|node| node.forgot && node.votes[number].is_some());
    let seen = &mut state.seen;
    seen.grant_after_crash |= seen.crash;
    seen.grant_despite_belief |= seen.expiry && state.attempts.iter().any(believes);
    seen.grant_by_forgetful_node |= forgetful;
}

/// Makes the client of the first attempt, which gave up, start this one and confuse the replies.
fn take_over_votes(state: &mut State, number: usize) {
    if state.attempts[0].phase != Phase::Over(0) {
        return;
    }
    for node in &mut state.nodes {
        node.votes[number] = node.votes[0];
    }
}

//! Shortcuts: states that differ only in what no longer matters are made equal.
//!
//! Without them the same variants have more than ten times as many states. The reason is given
//! beside each of them: what is left out either does not affect any future reply, or can be undone
//! at once by a step that is always possible. A test runs small variants without shortcuts.

use crate::state::{
    ATTEMPTS, Attempt, Fence, Lease, MAJORITY, NODES, Node, Phase, State, Tick, Vote,
};
use crate::variant::{Amnesia, Expiry, Mistake, Redlock, Repeats, Shortcuts};

impl Redlock {
    pub(crate) fn tidy(&self, state: &mut State) {
        for number in 0..self.attempts {
            self.tidy_attempt(state, number);
        }
        if self.is_over(state) {
            state.now = self.clock.end;
            state.nodes = [Node::default(); NODES];
        }
        for node in 0..NODES {
            self.tidy_node(state, node);
        }
        self.sort(state);
    }

    /// Returns whether nothing will be reported any more, so that no rule can be broken.
    pub(crate) fn is_over(&self, state: &State) -> bool {
        let mut attempts = state.attempts[..self.attempts].iter();
        self.shortcuts == Shortcuts::Taken && attempts.all(Attempt::is_done)
    }

    fn tidy_attempt(&self, state: &mut State, number: usize) {
        if self.is_doomed(state, number) {
            state.attempts[number].phase = Phase::Over(0);
            state.clear_votes(number);
        }
        let mut attempt = state.attempts[number];
        if attempt.proposal > 0 && self.is_outrun(attempt.proposal, state) {
            attempt.proposal = 0;
        }
        // At a node that has only granted smaller fences, `Seal` grants a lease that nobody learns
        // of. It may as well be lost.
        if attempt.seal > 0 && attempt.is_done() && self.is_below_all(attempt.seal, state) {
            attempt.seal = 0;
        }
        let reported = attempt.reported();
        if reported > attempt.floor || attempt.phase == Phase::Over(0) {
            attempt.floor = 0;
        }
        if attempt.began > 0 {
            attempt.began = self.began_that_matters(&attempt, state);
        }
        state.attempts[number] = attempt;
    }

    /// Returns whether too few nodes can still vote for the attempt: for all others, it is one that
    /// has given up.
    fn is_doomed(&self, state: &State, number: usize) -> bool {
        use Mistake::{CountsGivenBack, CountsGrantsOfYouth, CountsYoung};
        let attempt = &state.attempts[number];
        let known = [CountsGivenBack, CountsGrantsOfYouth, CountsYoung];
        if attempt.is_done() || self.mistake.is_some_and(|own| !known.contains(&own)) {
            return false;
        }
        let can_vote = |node: &&Node| {
            node.votes[number].is_some()
                || if attempt.phase == Phase::Sealing {
                    self.can_seal(node, number, attempt, state.now)
                } else {
                    self.can_grant(node, number)
                }
        };
        state.nodes.iter().filter(can_vote).count() < MAJORITY
    }

    /// Returns whether the bounds permit the node a grant to the attempt, now or later.
    fn can_grant(&self, node: &Node, number: usize) -> bool {
        let bound = !self.clock.runs() && self.amnesia == Amnesia::Never;
        let answers = self.repeats.contains(&Repeats::Answered) && node.is_held_by(number);
        !bound || node.last < self.highest || answers
    }

    /// Returns whether the node has a lease to seal, or may give it back, or may grant one to `Ask`
    /// that is not too large, now or later.
    fn can_seal(&self, node: &Node, number: usize, attempt: &Attempt, now: Tick) -> bool {
        let fits = |lease: &&Lease| lease.attempt == number && lease.fence <= attempt.seal;
        let has = node.lease.as_ref().filter(fits);
        let is_new = node.last < attempt.seal;
        let gives = (is_new || self.has_time_to_forget(now))
            && self.clock.fence_at(now + node.ahead) <= attempt.seal;
        if self.mistake.is_some() {
            return has.is_some() || is_new || gives;
        }
        has.is_some_and(|lease| lease.counts)
            || (is_new && node.young_until <= attempt.began)
            || gives
    }

    /// Returns whether all nodes grant the same fences without the proposal, now and later.
    fn is_outrun(&self, proposal: Fence, state: &State) -> bool {
        if self.has(Mistake::IgnoresLast) {
            return false;
        }
        let remembers = self.amnesia == Amnesia::Never;
        state.nodes.iter().all(|node| {
            let next = if remembers { node.last + 1 } else { 1 };
            proposal <= next.max(self.clock.fence_at(state.now + node.ahead))
        })
    }

    /// Returns whether all nodes grant only larger fences to `Ask`, now and later.
    fn is_below_all(&self, fence: Fence, state: &State) -> bool {
        let remembers = self.amnesia == Amnesia::Never;
        state.nodes.iter().all(|node| {
            let clock = self.clock.fence_at(state.now + node.ahead);
            fence < clock || (remembers && fence <= node.last)
        })
    }

    /// Returns the earliest equivalent start: it is only compared with nodes that were young, and
    /// with clocks where leases end on time.
    fn began_that_matters(&self, attempt: &Attempt, state: &State) -> Tick {
        if matches!(self.expiry, Expiry::OnTime { .. }) {
            return attempt.began;
        }
        if attempt.is_done() {
            return 0;
        }
        let grown = state.nodes.iter().map(|node| node.young_until);
        let before = grown.filter(|&tick| tick <= attempt.began);
        before.max().unwrap_or(0)
    }

    fn tidy_node(&self, state: &mut State, place: usize) {
        let mut node = state.nodes[place];
        if node.last > 0 && node.last < self.clock.fence_at(state.now) {
            node.last = self.last_that_matters(state, node.last);
        }
        if node.young_until > 0 && node.young_until <= first_began(state) {
            node.young_until = 0;
        }
        self.tidy_lease(state, &mut node);
        state.nodes[place] = node;
    }

    /// Returns the smallest equivalent `last` for a node that is behind all clocks.
    ///
    /// It only decides whether a `Seal` finds a fence that the node has not granted yet: a `Seal`
    /// that was sent, or that may be sent because of a reply that was read, or that a repeat may
    /// read. Future ones are larger.
    fn last_that_matters(&self, state: &State, last: Fence) -> Fence {
        let mut matters = 0;
        let mut look = |fence: Fence| {
            if fence <= last {
                matters = fence.max(matters);
            }
        };
        for attempt in &state.attempts {
            look(attempt.seal);
        }
        for node in &state.nodes {
            if let Some(lease) = node.lease {
                look(lease.fence);
            }
            for vote in node.votes {
                if let Some(Vote::Granted(fence)) = vote {
                    look(fence);
                }
            }
        }
        matters
    }

    /// Simplifies an idle lease.
    ///
    /// A lease is idle if no reply about it counts before it is granted again. Its fence decides
    /// nothing: where the fence refuses a `Seal`, `last` is as large, and would not change. If it
    /// can end at any moment, it is left out: a node without it does the same for its attempt, and
    /// for others what it does for them after that end.
    fn tidy_lease(&self, state: &State, node: &mut Node) {
        let Some(lease) = &mut node.lease else {
            return;
        };
        let attempt = &state.attempts[lease.attempt];
        let marked = self.knows_by_the_mark();
        if attempt.phase == Phase::Sealing && marked {
            lease.counts &= lease.fence <= attempt.seal;
            lease.fence = 0;
        }
        if attempt.is_done() || (!lease.counts && marked) {
            lease.fence = 0;
            lease.counts = false;
            if self.expiry == Expiry::AnyTime || matches!(attempt.phase, Phase::Over(_)) {
                node.lease = None;
            }
        }
    }

    /// Returns whether no lease counts, or is sealed with less than its fence, against its mark.
    fn knows_by_the_mark(&self) -> bool {
        use Mistake::{CountsGrantsOfYouth, CountsYoung, SealLowers};
        let against = [CountsGrantsOfYouth, CountsYoung, SealLowers];
        self.mistake.is_none_or(|own| !against.contains(&own))
    }

    /// Sorts attempts and nodes: they have no names, only positions in the state.
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

/// Returns when the first attempt started to which replies still matter, or now if there is none.
fn first_began(state: &State) -> Tick {
    let asks = |attempt: &&Attempt| matches!(attempt.phase, Phase::Asking | Phase::Sealing);
    let began = state.attempts.iter().filter(asks).map(|one| one.began);
    began.min().unwrap_or(state.now)
}

fn heard(state: &State, attempt: usize) -> [Option<Vote>; NODES] {
    state.nodes.map(|node| node.votes[attempt])
}

/// Moves attempt `order[n]` to position `n`.
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

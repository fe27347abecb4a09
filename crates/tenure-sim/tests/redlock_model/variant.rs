//! The differences between variants: faults, bounds, mistakes.

use crate::rules::Rule;
use crate::state::{Fence, Tick};

/// One variant of the protocol, with its faults and bounds.
#[derive(Clone, Debug)]
pub(crate) struct Redlock {
    /// At most [`ATTEMPTS`](crate::state::ATTEMPTS).
    pub(crate) attempts: usize,
    /// The largest fence that is granted.
    pub(crate) highest: Fence,
    /// The possible outcomes of each repeat.
    pub(crate) repeats: &'static [Repeats],
    pub(crate) expiry: Expiry,
    pub(crate) amnesia: Amnesia,
    pub(crate) clock: Clock,
    pub(crate) mistake: Option<Mistake>,
    pub(crate) shortcuts: Shortcuts,
    pub(crate) rules: &'static [Rule],
}

/// What happens to an `Ask` whose attempt already has the lease of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeats {
    /// The reply is the fence of the lease, as real nodes do if it belongs to no client.
    Answered,
    /// The lease gets a new fence, as real nodes do if it belongs to a client.
    Numbered,
}

/// When a lease ends at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiry {
    Never,
    /// At any moment or never, whatever its holder believes.
    AnyTime,
    /// After `ttl` ticks; the client stops to believe `ttl` ticks after it started to ask.
    OnTime {
        ttl: Tick,
    },
}

/// Which nodes lose their memory, any number of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Amnesia {
    Never,
    /// Any node, while no other is young.
    OneByOne,
    /// Any node, at any moment.
    AnyNode,
}

/// How time passes, and how nodes use it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// The last tick; with 0 the time stands still, and fences do not follow it.
    pub(crate) end: Tick,
    /// How far one clock is ahead of the others.
    pub(crate) skew: Tick,
    /// How far ahead of its clock a node permits a proposal to be.
    pub(crate) lead: Tick,
    /// How long a node is young after it has lost its memory.
    pub(crate) restart_delay: Tick,
}

/// What makes a protocol wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// A lease that `Seal` gave back counts once the node is no longer young.
    CountsGivenBack,
    /// A lease that a node granted when it was young counts once the node is no longer young.
    CountsGrantsOfYouth,
    /// A client counts replies to its previous attempt.
    CountsOlderAttempt,
    /// The votes of young nodes count.
    CountsYoung,
    /// `Seal` gives back a lease with a fence that the node has already granted.
    GivesBackAnyTime,
    /// A node grants the proposed fence, whatever it granted before.
    IgnoresLast,
    /// Different fences are not sealed; the largest is reported.
    NeverSeals,
    /// `Seal` lowers the fence of a lease that has a larger one.
    SealLowers,
    /// One sealed node is enough.
    SealsAtOne,
    /// A node accepts a proposal that is far ahead of its clock.
    TrustsProposals,
}

/// Whether states that behave alike are treated as one; see [`tidy`](mod@crate::tidy).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortcuts {
    Taken,
    Avoided,
}

impl Redlock {
    /// Returns the largest fence that is granted at this time.
    ///
    /// By the clock, no fence is ahead of the fastest clock by more than the lead: nodes grant
    /// fences more slowly than real clocks count.
    pub(crate) fn highest_fence(&self, now: Tick) -> Fence {
        if !self.clock.runs() || self.has(Mistake::TrustsProposals) {
            return self.highest;
        }
        self.clock.fence_at(now + self.clock.skew + self.clock.lead)
    }

    /// Returns the possible proposals of a client.
    ///
    /// Any fence where time stands still, otherwise the two extremes.
    pub(crate) fn proposals(&self, now: Tick) -> Vec<Fence> {
        if !self.clock.runs() {
            return (0..=self.highest).collect();
        }
        if self.clock.lead == 0 && !self.has(Mistake::TrustsProposals) {
            return vec![0];
        }
        vec![0, self.highest_fence(now)]
    }

    pub(crate) fn has(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    pub(crate) fn records(&self) -> bool {
        self.rules.contains(&Rule::Reach)
    }
}

impl Clock {
    /// The time stands still.
    pub(crate) const STOPPED: Self = Self {
        end: 0,
        skew: 0,
        lead: 0,
        restart_delay: 0,
    };

    pub(crate) fn runs(&self) -> bool {
        self.end > 0
    }

    /// Returns the smallest fence that a node grants when its clock shows `tick`.
    pub(crate) fn fence_at(&self, tick: Tick) -> Fence {
        if self.runs() { tick + 1 } else { 0 }
    }

    /// Returns whether a node accepts a proposal when its clock would grant `least`.
    pub(crate) fn allows(&self, proposal: Fence, least: Fence) -> bool {
        !self.runs() || proposal <= least + self.lead
    }
}

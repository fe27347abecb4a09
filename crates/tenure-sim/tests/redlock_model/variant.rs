//! What can be different from one variant to another: faults, bounds, mistakes.

use crate::rules::Rule;
use crate::state::{Fence, Tick};

/// One variant of the protocol, with its faults and bounds.
#[derive(Clone, Debug)]
pub(crate) struct Redlock {
    /// Up to [`ATTEMPTS`](crate::state::ATTEMPTS).
    pub(crate) attempts: usize,
    /// No larger fences are given out.
    pub(crate) highest: Fence,
    /// Each repeat is one of these.
    pub(crate) repeats: &'static [Repeats],
    pub(crate) expiry: Expiry,
    pub(crate) amnesia: Amnesia,
    pub(crate) clock: Clock,
    pub(crate) mistake: Option<Mistake>,
    pub(crate) shortcuts: Shortcuts,
    pub(crate) rules: &'static [Rule],
}

/// What becomes of an `Ask` whose attempt has the lease of the node already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeats {
    /// It is answered with the fence of the lease, as nodes do if this belongs to no client.
    Answered,
    /// The lease gets a new fence, as nodes do if it belongs to a client.
    Numbered,
}

/// When a lease ends at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiry {
    Never,
    /// At any moment or never, whatever its holder believes.
    AnyTime,
    /// After `ttl` ticks; and the client stops to believe `ttl` ticks after it began to ask.
    OnTime {
        ttl: Tick,
    },
}

/// Which nodes lose their memory, and any number of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Amnesia {
    Never,
    /// Any node, while no other is young.
    OneByOne,
    /// Any node, at any moment.
    AnyNode,
}

/// How time passes, and what nodes make of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// The last tick; with 0 the time stands still, and fences do not follow it.
    pub(crate) end: Tick,
    /// How far one clock is ahead of the others.
    pub(crate) skew: Tick,
    /// How far ahead of its clock a node lets a proposal be.
    pub(crate) lead: Tick,
    /// How long a node is young after it has lost its memory.
    pub(crate) restart_delay: Tick,
}

/// What makes a protocol wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// A lease that `Seal` gave back counts once the node is no longer young.
    CountsGivenBack,
    /// A lease that a node gave when it was young counts once the node is no longer young.
    CountsGrantsOfYouth,
    /// A client counts what was answered to its attempt before.
    CountsOlderAttempt,
    /// The votes of young nodes count.
    CountsYoung,
    /// `Seal` gives back a lease under a fence that the node has given out already.
    GivesBackAnyTime,
    /// A node gives out the fence that was proposed, whatever it gave out before.
    IgnoresLast,
    /// Different fences are not sealed; the largest is reported.
    NeverSeals,
    /// `Seal` lowers the fence of a lease that has a larger one.
    SealLowers,
    /// One sealed node is enough.
    SealsAtOne,
    /// A node takes a proposal that is far ahead of its clock.
    TrustsProposals,
}

/// Whether states that behave alike are taken for one; see [`tidy`](mod@crate::tidy).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortcuts {
    Taken,
    Avoided,
}

impl Redlock {
    /// Returns the largest fence that is given out at this time.
    ///
    /// By the clock, no fence is ahead of the fastest one by more than the lead: fences are given
    /// out more slowly than real clocks count.
    pub(crate) fn highest_fence(&self, now: Tick) -> Fence {
        if !self.clock.runs() || self.has(Mistake::TrustsProposals) {
            return self.highest;
        }
        self.clock.fence_at(now + self.clock.skew + self.clock.lead)
    }

    /// Returns what a client may propose.
    ///
    /// Anything at all where time stands still, else the two extremes.
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

    /// Returns the least fence that a node gives out when its clock shows `tick`.
    pub(crate) fn fence_at(&self, tick: Tick) -> Fence {
        if self.runs() { tick + 1 } else { 0 }
    }

    /// Returns whether a node takes a proposal when its clock gives out `least`.
    pub(crate) fn allows(&self, proposal: Fence, least: Fence) -> bool {
        !self.runs() || proposal <= least + self.lead
    }
}

//! The state at one moment: nodes, attempts, and the time.

/// The number of nodes.
pub(crate) const NODES: usize = 3;

/// The number of votes that an attempt needs.
pub(crate) const MAJORITY: usize = 2;

/// The most attempts that a variant can have.
pub(crate) const ATTEMPTS: usize = 3;

/// The number of a grant; 0 means none.
pub(crate) type Fence = u8;

/// A time, as the slowest clock shows it.
pub(crate) type Tick = u8;

/// Everything that is known at one moment, including the messages that may still arrive.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) now: Tick,
    pub(crate) nodes: [Node; NODES],
    pub(crate) attempts: [Attempt; ATTEMPTS],
    pub(crate) seen: Seen,
}

/// What a node knows, and what each attempt has learned from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Node {
    pub(crate) lease: Option<Lease>,
    /// The last fence that the node granted or sealed.
    pub(crate) last: Fence,
    /// How far its clock is ahead of the slowest one.
    pub(crate) ahead: Tick,
    /// Until when it is or was young, or 0.
    pub(crate) young_until: Tick,
    /// The reply that each attempt has read.
    pub(crate) votes: [Option<Vote>; ATTEMPTS],
    /// Whether it has ever lost its memory; kept like [`Seen`].
    pub(crate) forgot: bool,
}

/// A grant as its node remembers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Lease {
    /// The attempt that it was given to.
    pub(crate) attempt: usize,
    pub(crate) fence: Fence,
    /// Whether it counts: not if the node was young when it granted or last numbered the lease, nor
    /// if `Seal` gave it back.
    pub(crate) counts: bool,
    /// When it ends, if leases end on time; otherwise 0.
    pub(crate) until: Tick,
}

/// A node's reply that counts for an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Vote {
    Granted(Fence),
    Sealed,
}

/// One request of a client for the lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Attempt {
    pub(crate) phase: Phase,
    pub(crate) proposal: Fence,
    /// The fence of the `Seal` that was sent, or 0.
    pub(crate) seal: Fence,
    /// The largest fence that had been reported when the attempt started.
    pub(crate) floor: Fence,
    /// When it started.
    pub(crate) began: Tick,
}

/// The progress of an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Phase {
    #[default]
    Waiting,
    Asking,
    Sealing,
    /// The grant was reported to the caller, who believes in it.
    Held(Fence),
    /// `Withdraw` was sent; the fence is that of the grant that had been reported, or 0.
    Over(Fence),
}

/// What has happened so far; recorded only for [`Rule::Reach`](crate::rules::Rule::Reach).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Seen {
    pub(crate) crash: bool,
    pub(crate) expiry: bool,
    pub(crate) lost_vote: bool,
    pub(crate) repeat: bool,
    pub(crate) vote_given_back: bool,
    pub(crate) fast_grant: bool,
    pub(crate) sealed_grant: bool,
    pub(crate) grant_after_crash: bool,
    pub(crate) grant_despite_belief: bool,
    pub(crate) grant_by_forgetful_node: bool,
}

impl State {
    /// Returns the largest fence that has been reported, or 0.
    pub(crate) fn largest_reported(&self) -> Fence {
        let reported = self.attempts.iter().map(Attempt::reported);
        reported.max().unwrap_or(0)
    }

    /// Returns the fences of the grants that `attempt` knows of.
    pub(crate) fn granted(&self, attempt: usize) -> Vec<Fence> {
        let granted = |node: &Node| match node.votes[attempt] {
            Some(Vote::Granted(fence)) => Some(fence),
            Some(Vote::Sealed) | None => None,
        };
        self.nodes.iter().filter_map(granted).collect()
    }

    /// Returns how many nodes have sealed the fence of `attempt`, as far as it knows.
    pub(crate) fn sealed(&self, attempt: usize) -> usize {
        let sealed = |node: &&Node| node.votes[attempt] == Some(Vote::Sealed);
        self.nodes.iter().filter(sealed).count()
    }

    /// Discards the replies that `attempt` has read.
    pub(crate) fn clear_votes(&mut self, attempt: usize) {
        for node in &mut self.nodes {
            node.votes[attempt] = None;
        }
    }
}

impl Node {
    /// Returns whether the node has recently lost its memory.
    pub(crate) fn is_young(&self, now: Tick) -> bool {
        self.young_until > now
    }

    /// Returns whether `attempt` has the lease here.
    pub(crate) fn is_held_by(&self, attempt: usize) -> bool {
        self.lease.is_some_and(|lease| lease.attempt == attempt)
    }
}

impl Attempt {
    /// Returns whether replies no longer matter to the attempt.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self.phase, Phase::Held(_) | Phase::Over(_))
    }

    /// Returns the fence that was reported to the caller, or 0.
    pub(crate) fn reported(&self) -> Fence {
        match self.phase {
            Phase::Held(fence) | Phase::Over(fence) => fence,
            Phase::Waiting | Phase::Asking | Phase::Sealing => 0,
        }
    }
}

//! What a store says: answers to requests, and news of its own accord.

use std::time::Duration;

use crate::name::{ClaimId, Fence, Name};

/// What the store says to a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// Somebody else holds the name or stands in line for it; nothing was changed, except that
    /// holders who asked for it are told ([`News::Wanted`]).
    Busy,
    /// The claim is granted; the engine counts from before this answer's request.
    Granted(Grant),
    /// The claim stands in line, and news will follow.
    Queued {
        /// When to ask again if no news came: the next time at which a lease may end by itself.
        /// `None` if the store is certain to send news.
        ask_again: Option<Duration>,
    },
}

/// What a store granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grant {
    /// The number of the grant.
    pub fence: Fence,
    /// How many fences are set aside for it, its own included: the engine may use as many.
    pub fences: u32,
    /// For how long nobody else can have the name, unless the lease is renewed.
    pub valid: Duration,
}

impl Grant {
    /// Describes a grant with one fence.
    pub fn new(fence: Fence, valid: Duration) -> Self {
        Self {
            fence,
            fences: 1,
            valid,
        }
    }

    /// The same grant with so many fences.
    pub fn with_fences(self, fences: u32) -> Self {
        Self { fences, ..self }
    }
}

/// What became of one renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Renewed {
    /// The lease goes on; the engine counts from before this answer's request.
    Extended {
        /// The number of its grant.
        fence: Fence,
        /// For how long nobody else can have the name, unless the lease is renewed again.
        valid: Duration,
    },
    /// The claim holds the name no longer; nothing was changed.
    Lost(Loss),
    /// This one got no answer where others did: a part of the store is away.
    Unknown,
}

/// What became of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Released {
    /// The lease is freed.
    Freed {
        /// How many claims of the same owner still hold the name.
        left: u32,
    },
    /// The claim did not hold the name any more, and nothing was changed.
    NotHeld(Loss),
}

/// Why a lease is over that was not released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Loss {
    /// An operator took it away.
    #[error("the lock was evicted by an operator")]
    Evicted,
    /// It was not renewed in time.
    #[error("the lease expired before it was renewed")]
    Expired,
    /// It is not in the store: it ended, or it never was.
    #[error("the lease is not in the store any more")]
    Gone,
    /// It reached the longest time that its holder allowed itself.
    #[error("the lock was held for as long as max_hold allows")]
    MaxHold,
    /// Another claim has it.
    #[error("another claim holds the lock")]
    TakenOver,
    /// The store could not be reached until the lease was over.
    #[error("the store could not be reached until the lease was over")]
    Unreachable,
}

/// What a store tells a client of its own accord.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum News {
    /// Something changed, or news may have been missed: ask again for this name, or for all.
    AskAgain(Option<Name>),
    /// A claim that stood in line is granted.
    ///
    /// May come once more after the claim was asked for again and answered.
    Granted {
        /// The claim's name.
        name: Name,
        /// The claim.
        claim: ClaimId,
        /// What was granted.
        grant: Grant,
        /// How long after it took the claim into the line the store granted it, by the store's
        /// clock. The engine counts the lease from the first request plus this, and never from
        /// later than it heard of the grant.
        after: Duration,
    },
    /// A lease is over.
    Lost {
        /// The lease's name.
        name: Name,
        /// The claim that was granted.
        claim: ClaimId,
        /// The lease's grant.
        fence: Fence,
        /// Why.
        loss: Loss,
    },
    /// All leases of this client are over at once, and all its places in line: the session that
    /// carried them has ended. The engine asks again for every claim that waits.
    SessionLost(Loss),
    /// Another client asks for a name whose lease this client said it could give back
    /// ([`Claim::tell_if_wanted`](super::Claim::tell_if_wanted)).
    ///
    /// Told once for each grant: at the first claim of another client that is refused or put in
    /// line while the lease runs; or right after the grant, if the claim of another client stands
    /// in line at that moment. It is no order: the lease runs on until it is released.
    ///
    /// May overtake the answer that grants the lease. May be lost, as a message can be that its
    /// sender did not live to send; so the engine gives such leases back after a while even if
    /// nobody calls. After a gap in the news the driver says [`AskAgain`](Self::AskAgain) for all
    /// names, which the engine takes for a call.
    Wanted {
        /// The lease's name.
        name: Name,
        /// The claim that was granted.
        claim: ClaimId,
        /// The lease's grant.
        fence: Fence,
    },
}

//! What a store sends: answers to requests, and news on its own initiative.

use std::time::Duration;

use crate::name::{ClaimId, Fence, Name};

/// The store's answer to a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// Somebody else holds the name or waits in line for it. Nothing was changed, except that
    /// holders who asked for it are told ([`News::Wanted`]).
    Busy,
    /// The claim is granted. The engine counts the lease from before it sent this request.
    Granted(Grant),
    /// The claim waits in line, and news will follow.
    Queued {
        /// When to ask again if no news came: the next time at which a lease may expire. `None` if
        /// the store is certain to send news.
        ask_again: Option<Duration>,
    },
}

/// What a store granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grant {
    /// The number of the grant.
    pub fence: Fence,
    /// How many fences are reserved for it, including its own: the engine may use that many.
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

    /// Returns the same grant with this many fences.
    pub fn with_fences(self, fences: u32) -> Self {
        Self { fences, ..self }
    }
}

/// The result of one renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Renewed {
    /// The lease continues. The engine counts it from before it sent this request.
    Extended {
        /// The number of its grant.
        fence: Fence,
        /// For how long nobody else can have the name, unless the lease is renewed again.
        valid: Duration,
    },
    /// The claim no longer holds the name; nothing was changed.
    Lost(Loss),
    /// This renewal got no answer although others did: a part of the store is unavailable.
    Unknown,
}

/// The result of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Released {
    /// The lease is freed.
    Freed {
        /// How many claims of the same owner still hold the name.
        left: u32,
    },
    /// The claim no longer held the name; nothing was changed.
    NotHeld(Loss),
}

/// Why a lease ended without a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Loss {
    /// An operator evicted it.
    #[error("the lock was evicted by an operator")]
    Evicted,
    /// It was not renewed in time.
    #[error("the lease expired before it was renewed")]
    Expired,
    /// It is not in the store: it ended, or it never existed.
    #[error("the lease is not in the store any more")]
    Gone,
    /// It reached the longest time that its holder set.
    #[error("the lock was held for as long as max_hold allows")]
    MaxHold,
    /// Another claim holds the lock.
    #[error("another claim holds the lock")]
    TakenOver,
    /// The store could not be reached until the lease was over.
    #[error("the store could not be reached until the lease was over")]
    Unreachable,
}

/// What a store tells a client on its own initiative.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum News {
    /// Something changed, or news may have been missed: ask again for this name, or for all.
    AskAgain(Option<Name>),
    /// A claim that waited in line is granted.
    ///
    /// May arrive again after the claim was asked for again and answered.
    Granted {
        /// The claim's name.
        name: Name,
        /// The claim.
        claim: ClaimId,
        /// What was granted.
        grant: Grant,
        /// The time from when the store queued the claim until it granted it, by the store's clock.
        /// The engine counts the lease from the first request plus this time, and never from later
        /// than it received the news.
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
    /// All leases and all places in line of this client are lost at once: the session that carried
    /// them has ended. The engine asks again for every waiting claim.
    SessionLost(Loss),
    /// Another client asks for a name whose lease this client offered to give back
    /// ([`Claim::tell_if_wanted`](super::Claim::tell_if_wanted)).
    ///
    /// Sent once per grant: at the first claim of another client that is refused or queued while
    /// the lease runs, or right after the grant if a claim of another client is in line at that
    /// moment. It is a request, not an order: the lease continues until it is released.
    ///
    /// May overtake the answer that grants the lease. May be lost, for example if its sender
    /// crashed before it was sent; so the engine gives such leases back after a while even if
    /// nobody calls. After a gap in the news the driver sends [`AskAgain`](Self::AskAgain) for all
    /// names, which the engine treats as a call.
    Wanted {
        /// The lease's name.
        name: Name,
        /// The claim that was granted.
        claim: ClaimId,
        /// The lease's grant.
        fence: Fence,
    },
}

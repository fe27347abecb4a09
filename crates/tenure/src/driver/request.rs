//! What an engine requests from a store: claims, renewals and releases.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::name::{ClaimId, Fence, Name, Owner};

/// How a name is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Mode {
    /// Held by one owner alone.
    Exclusive,
    /// Together with other shared holders.
    Shared,
    /// With `take` of `of` permits; if claims differ in `of`, the smallest applies.
    Permits {
        /// How many this claim takes, at least 1.
        take: u32,
        /// How many there are in total.
        of: u32,
    },
}

impl Mode {
    /// Returns whether an owner that holds a name in this mode may also hold it in the other.
    pub(crate) fn covers(self, asked: Self) -> bool {
        self == asked || (self == Self::Exclusive && asked == Self::Shared)
    }
}

/// What ends a lease besides its release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Life {
    /// Its ttl, or the end of the client that asked for it if the store detects that.
    Client,
    /// Only its ttl: it belongs to no client, and anyone who knows its owner or its claim id may continue it.
    Ttl,
}

/// Whether a claim that cannot be granted at once waits in line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Wait {
    /// It does not wait: the answer is [`Answer::Busy`](super::Answer::Busy), and no lease or line changes.
    No,
    /// It waits: the answer is [`Answer::Queued`](super::Answer::Queued), and the grant arrives as
    /// [`News::Granted`](super::News::Granted).
    InLine,
}

/// One request for a name.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Claim {
    /// The name.
    pub name: Name,
    /// The id that every request about this claim names; never used for another claim. It is chosen before the
    /// first request is sent, so that the engine can clean up after a lost answer.
    pub id: ClaimId,
    /// The owner, whose other claims hold the name together with this one. A claim without an owner shares with no
    /// other.
    pub owner: Option<Owner>,
    /// The mode.
    pub mode: Mode,
    /// How long the lease lasts unless renewed.
    pub ttl: Duration,
    /// Whether to wait in line.
    pub wait: Wait,
    /// What ends the lease.
    pub life: Life,
    /// How many fences to reserve for this grant, at least 1.
    pub fences: u32,
    /// Whether to be told by [`News::Wanted`](super::News::Wanted) when another client asks for the name while
    /// this lease runs. Not for [`Life::Ttl`], which has no client to tell.
    pub tell_if_wanted: bool,
    /// For people who inspect the lock.
    pub about: About,
}

impl Claim {
    /// Makes a claim with a new id that is exclusive, without an owner, waits in line, and is bound to its client.
    pub fn new(name: Name, ttl: Duration) -> Self {
        Self {
            name,
            id: ClaimId::unique(),
            owner: None,
            mode: Mode::Exclusive,
            ttl,
            wait: Wait::InLine,
            life: Life::Client,
            fences: 1,
            tell_if_wanted: false,
            about: About::this_process(None),
        }
    }

    /// Sets the id of the claim.
    pub fn with_id(self, id: ClaimId) -> Self {
        Self { id, ..self }
    }

    /// Sets the owner.
    pub fn with_owner(self, owner: impl Into<Option<Owner>>) -> Self {
        let owner = owner.into();
        Self { owner, ..self }
    }

    /// Sets the mode.
    pub fn with_mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// Sets the ttl.
    pub fn with_ttl(self, ttl: Duration) -> Self {
        Self { ttl, ..self }
    }

    /// Sets whether to wait in line.
    pub fn with_wait(self, wait: Wait) -> Self {
        Self { wait, ..self }
    }

    /// Sets what ends the lease.
    pub fn with_life(self, life: Life) -> Self {
        Self { life, ..self }
    }

    /// Asks to be told by [`News::Wanted`](super::News::Wanted).
    pub fn told_if_wanted(self) -> Self {
        let tell_if_wanted = true;
        Self {
            tell_if_wanted,
            ..self
        }
    }

    /// Sets how many fences to reserve.
    pub fn with_fences(self, fences: u32) -> Self {
        Self { fences, ..self }
    }

    /// Sets who asks and why.
    pub fn with_about(self, about: About) -> Self {
        Self { about, ..self }
    }

    /// Returns the owner as people see it; for a claim without an owner that is its id.
    pub fn owner_text(&self) -> &str {
        match &self.owner {
            Some(owner) => owner.as_str(),
            None => self.id.as_str(),
        }
    }
}

/// Who asks and why, for people who inspect the lock.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct About {
    /// Why the lock is wanted.
    pub reason: Option<Arc<str>>,
    /// The machine that asks.
    pub host: Arc<str>,
    /// The process that asks.
    pub pid: u32,
}

impl About {
    /// Describes a process, without a reason.
    pub fn new(host: &str, pid: u32) -> Self {
        Self {
            reason: None,
            host: host.into(),
            pid,
        }
    }

    /// Sets the reason.
    pub fn with_reason(self, reason: &str) -> Self {
        Self {
            reason: Some(reason.into()),
            ..self
        }
    }

    /// Describes this process, with a reason.
    pub fn this_process(reason: Option<&Arc<str>>) -> Self {
        static THIS: OnceLock<About> = OnceLock::new();
        let this = THIS.get_or_init(|| {
            let host = rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned();
            Self::new(&host, std::process::id())
        });
        Self {
            reason: reason.cloned(),
            ..this.clone()
        }
    }
}

/// Which lease to renew, and for how long.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Renewal {
    /// The name that is held.
    pub name: Name,
    /// The claim that was granted.
    pub claim: ClaimId,
    /// The number of its grant, if the lease must have exactly this one.
    pub fence: Option<Fence>,
    /// What ends the lease.
    pub life: Life,
    /// How long it lasts from now on.
    pub ttl: Duration,
}

impl Renewal {
    /// Makes a renewal of a claim's lease, whatever its fence.
    pub fn new(name: Name, claim: ClaimId, life: Life, ttl: Duration) -> Self {
        Self {
            name,
            claim,
            fence: None,
            life,
            ttl,
        }
    }

    /// Makes a renewal of a claim's lease for the ttl that the claim asked for.
    pub fn of(claim: &Claim) -> Self {
        Self::new(claim.name.clone(), claim.id.clone(), claim.life, claim.ttl)
    }

    /// Sets the fence that the lease must have.
    pub fn with_fence(self, fence: impl Into<Option<Fence>>) -> Self {
        let fence = fence.into();
        Self { fence, ..self }
    }
}

/// Which lease to release.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Release {
    /// The name that is held.
    pub name: Name,
    /// The claim that was granted.
    pub claim: ClaimId,
    /// The number of its grant, if the lease must have exactly this one.
    pub fence: Option<Fence>,
    /// What ends the lease.
    pub life: Life,
    /// How long the name stays taken by nobody after its release.
    pub stays_taken: Duration,
}

impl Release {
    /// Makes an immediate release of a claim's lease, whatever its fence.
    pub fn new(name: Name, claim: ClaimId, life: Life) -> Self {
        Self {
            name,
            claim,
            fence: None,
            life,
            stays_taken: Duration::ZERO,
        }
    }

    /// Makes an immediate release of a claim's lease.
    pub fn of(claim: &Claim) -> Self {
        Self::new(claim.name.clone(), claim.id.clone(), claim.life)
    }

    /// Sets the fence that the lease must have.
    pub fn with_fence(self, fence: impl Into<Option<Fence>>) -> Self {
        let fence = fence.into();
        Self { fence, ..self }
    }

    /// Sets how long the name stays taken by nobody.
    pub fn with_stays_taken(self, stays_taken: Duration) -> Self {
        Self {
            stays_taken,
            ..self
        }
    }
}

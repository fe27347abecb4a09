//! What an engine asks of a store: claims, renewals and releases.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::name::{ClaimId, Fence, Name, Owner};

/// How a name is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Mode {
    /// Alone.
    Exclusive,
    /// Together with other shared holders.
    Shared,
    /// With `take` of `of` permits; claims with different `of` all keep to the smallest.
    Permits {
        /// How many this claim takes, at least 1.
        take: u32,
        /// How many there are.
        of: u32,
    },
}

impl Mode {
    /// Whether an owner that holds a name in this mode may also hold it in the other.
    pub(crate) fn covers(self, asked: Self) -> bool {
        self == asked || (self == Self::Exclusive && asked == Self::Shared)
    }
}

/// What ends a lease besides its release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Life {
    /// Its ttl, or the end of the client that asked for it, where the store sees that.
    Client,
    /// Its ttl alone: it belongs to no client, and anyone who knows the owner may go on with it.
    Ttl,
}

/// Whether a claim that cannot be granted at once stands in line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Wait {
    /// It does not: the answer is [`Answer::Busy`](super::Answer::Busy), and no lease or line changes.
    No,
    /// It does: the answer is [`Answer::Queued`](super::Answer::Queued), and the grant comes as [`News::Granted`](super::News::Granted).
    InLine,
}

/// One request for a name.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Claim {
    /// What is asked for.
    pub name: Name,
    /// What every request about this claim names; chosen before the first request goes out, so
    /// that a lost answer can be cleaned up, and never used for another claim.
    pub id: ClaimId,
    /// Whose claims hold together with this one; without an owner it shares with no other claim.
    pub owner: Option<Owner>,
    /// How it is asked for.
    pub mode: Mode,
    /// How long the lease lasts unless renewed.
    pub ttl: Duration,
    /// Whether to stand in line.
    pub wait: Wait,
    /// What ends the lease.
    pub life: Life,
    /// How many fences to set aside for this grant, at least 1.
    pub fences: u32,
    /// Whether to be told by [`News::Wanted`](super::News::Wanted) when somebody else asks for the name while this
    /// lease runs; not for [`Life::Ttl`], which has no client to tell.
    pub tell_if_wanted: bool,
    /// For people who look at the lock.
    pub about: About,
}

impl Claim {
    /// Makes a claim with a new id: exclusive, without an owner, in line, and bound to its client.
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

    /// Names the id of the claim.
    pub fn with_id(self, id: ClaimId) -> Self {
        Self { id, ..self }
    }

    /// Names whose claims hold together with this one.
    pub fn with_owner(self, owner: impl Into<Option<Owner>>) -> Self {
        let owner = owner.into();
        Self { owner, ..self }
    }

    /// Asks in another mode.
    pub fn with_mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// Asks for another ttl.
    pub fn with_ttl(self, ttl: Duration) -> Self {
        Self { ttl, ..self }
    }

    /// Says whether to stand in line.
    pub fn with_wait(self, wait: Wait) -> Self {
        Self { wait, ..self }
    }

    /// Says what ends the lease.
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

    /// Asks for so many fences.
    pub fn with_fences(self, fences: u32) -> Self {
        Self { fences, ..self }
    }

    /// Says who asks and why.
    pub fn with_about(self, about: About) -> Self {
        Self { about, ..self }
    }

    /// Returns the owner as people see it: the id of a claim that has none.
    pub fn owner_text(&self) -> &str {
        match &self.owner {
            Some(owner) => owner.as_str(),
            None => self.id.as_str(),
        }
    }
}

/// Who asks and why, for people who look at the lock.
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

    /// Says why it asks.
    pub fn with_reason(self, reason: &str) -> Self {
        Self {
            reason: Some(reason.into()),
            ..self
        }
    }

    /// Returns who this process is, and why it asks.
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
    /// What is held.
    pub name: Name,
    /// The claim that was granted.
    pub claim: ClaimId,
    /// The number of its grant, if the lease must have just this one.
    pub fence: Option<Fence>,
    /// What ends the lease.
    pub life: Life,
    /// How long it lasts from now.
    pub ttl: Duration,
}

impl Renewal {
    /// Renews the lease of a claim, whatever its fence.
    pub fn new(name: Name, claim: ClaimId, life: Life, ttl: Duration) -> Self {
        Self {
            name,
            claim,
            fence: None,
            life,
            ttl,
        }
    }

    /// Renews the lease of a claim for the ttl that the claim asked for.
    pub fn of(claim: &Claim) -> Self {
        Self::new(claim.name.clone(), claim.id.clone(), claim.life, claim.ttl)
    }

    /// Names the fence that the lease must have.
    pub fn with_fence(self, fence: impl Into<Option<Fence>>) -> Self {
        let fence = fence.into();
        Self { fence, ..self }
    }
}

/// Which lease to let go.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Release {
    /// What is held.
    pub name: Name,
    /// The claim that was granted.
    pub claim: ClaimId,
    /// The number of its grant, if the lease must have just this one.
    pub fence: Option<Fence>,
    /// What ends the lease.
    pub life: Life,
    /// How long the name stays taken all the same, by nobody, after it was freed.
    pub stays_taken: Duration,
}

impl Release {
    /// Frees the lease of a claim at once, whatever its fence.
    pub fn new(name: Name, claim: ClaimId, life: Life) -> Self {
        Self {
            name,
            claim,
            fence: None,
            life,
            stays_taken: Duration::ZERO,
        }
    }

    /// Frees the lease of a claim.
    pub fn of(claim: &Claim) -> Self {
        Self::new(claim.name.clone(), claim.id.clone(), claim.life)
    }

    /// Names the fence that the lease must have.
    pub fn with_fence(self, fence: impl Into<Option<Fence>>) -> Self {
        let fence = fence.into();
        Self { fence, ..self }
    }

    /// Lets the name stay taken for so long, by nobody.
    pub fn with_stays_taken(self, stays_taken: Duration) -> Self {
        Self {
            stays_taken,
            ..self
        }
    }
}

//! Who holds a name and who waits for it, for people who inspect locks.

use std::time::Duration;

use super::{About, Life, Mode};
use crate::name::{ClaimId, Fence, Name, Owner};

/// Who holds a name and who waits for it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The name.
    pub name: Name,
    /// Its holders, oldest first.
    pub holders: Vec<Holder>,
    /// Its line, first to last.
    pub waiters: Vec<Waiter>,
}

impl Entry {
    /// Describes a name that nobody holds or waits for.
    pub fn new(name: Name) -> Self {
        Self {
            name,
            holders: Vec::new(),
            waiters: Vec::new(),
        }
    }

    /// Returns whether nobody holds the name or waits for it.
    pub fn is_empty(&self) -> bool {
        self.holders.is_empty() && self.waiters.is_empty()
    }
}

/// One claim that holds a name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The claim that was granted.
    pub claim: ClaimId,
    /// The holder: the claim's owner, or the claim itself if it has none.
    pub owner: Owner,
    /// How it holds the name.
    pub mode: Mode,
    /// The number of the grant.
    pub fence: Fence,
    /// How many claims of this owner hold the name, including this one; 0 while the name stays
    /// taken by nobody after its [release](super::Release::stays_taken).
    pub depth: u32,
    /// What ends the lease.
    pub life: Life,
    /// The process that holds it, for people.
    pub about: About,
    /// How long it has held the name.
    pub held: Duration,
    /// How long until the lease expires, unless renewed.
    pub expires_in: Duration,
}

impl Holder {
    /// Describes a claim that starts to hold a name now, exclusively and without an owner.
    pub fn new(claim: ClaimId, fence: Fence, about: About, expires_in: Duration) -> Self {
        Self {
            owner: Owner::shown(claim.as_str()),
            claim,
            mode: Mode::Exclusive,
            fence,
            depth: 1,
            life: Life::Client,
            about,
            held: Duration::ZERO,
            expires_in,
        }
    }
}

/// One claim that waits for a name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiter {
    /// The claim.
    pub claim: ClaimId,
    /// The waiter: the claim's owner, or the claim itself if it has none.
    pub owner: Owner,
    /// The mode that it asks for.
    pub mode: Mode,
    /// The process that waits, for people.
    pub about: About,
    /// How long it has waited.
    pub waited: Duration,
}

impl Waiter {
    /// Describes a claim that starts to wait for a name now, for exclusive use and without an
    /// owner.
    pub fn new(claim: ClaimId, about: About) -> Self {
        Self {
            owner: Owner::shown(claim.as_str()),
            claim,
            mode: Mode::Exclusive,
            about,
            waited: Duration::ZERO,
        }
    }
}

//! Who holds a name and who waits for it, for people who look at locks.

use std::time::Duration;

use super::{About, Life, Mode};
use crate::name::{ClaimId, Fence, Name, Owner};

/// Who holds a name and who waits for it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// What is held.
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
    /// Who holds it: the claim's owner, or the claim itself if it has none.
    pub owner: Owner,
    /// How.
    pub mode: Mode,
    /// The number of the grant.
    pub fence: Fence,
    /// How many claims of this owner hold the name, this one included; 0 while the name stays taken
    /// by nobody after its [release](super::Release::stays_taken).
    pub depth: u32,
    /// What ends the lease.
    pub life: Life,
    /// Who that is, for people.
    pub about: About,
    /// Since when.
    pub held: Duration,
    /// Until when, unless renewed.
    pub expires_in: Duration,
}

impl Holder {
    /// Describes a claim that holds a name alone, without an owner, since now.
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
    /// Who waits: the claim's owner, or the claim itself if it has none.
    pub owner: Owner,
    /// For what.
    pub mode: Mode,
    /// Who that is, for people.
    pub about: About,
    /// Since when.
    pub waited: Duration,
}

impl Waiter {
    /// Describes a claim that waits to hold a name alone, without an owner, since now.
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

//! The resource that the lock protects: a number that is read and written one higher.

use tenure_checker::{What, Written};

/// A versioned register, kept by the lab itself and not by the store under test.
#[derive(Debug)]
pub(super) struct Register {
    checks: Checks,
    version: u64,
    /// The largest fence that came with a write.
    fence: u64,
}

/// Whether the resource refuses fences that are smaller than one it has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Checks {
    Fences,
    Nothing,
}

impl Register {
    pub(super) fn new(checks: Checks) -> Self {
        Self {
            checks,
            version: 0,
            fence: 0,
        }
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Writes, and returns what is to be noted.
    pub(super) fn write(&mut self, claim: u64, name: &str, fence: Option<u64>, read: u64) -> What {
        let version = read + 1;
        let stale = self.checks == Checks::Fences && fence.is_none_or(|fence| fence < self.fence);
        let outcome = match stale {
            true => Written::Stale,
            false => Written::Accepted,
        };
        if !stale {
            self.version = version;
            self.fence = self.fence.max(fence.unwrap_or(0));
        }
        What::Wrote {
            claim,
            name: name.to_owned(),
            fence,
            read,
            version,
            outcome,
        }
    }
}

//! The resource that a lock protects: a number that a holder reads, increments and writes back.
//!
//! It is kept outside the store under test.

use tenure_checker::{What, Written};

/// A versioned register.
#[derive(Debug)]
pub(crate) struct Register {
    checks: Checks,
    version: u64,
    /// The largest fence seen so far.
    fence: u64,
}

/// Whether the register refuses fences that are smaller than the largest one seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Checks {
    Fences,
    Nothing,
}

impl Register {
    pub(crate) fn new(checks: Checks) -> Self {
        Self {
            checks,
            version: 0,
            fence: 0,
        }
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Returns whether a fence is large enough, and remembers it.
    pub(crate) fn admits(&mut self, fence: Option<u64>) -> bool {
        let is_stale = fence.is_none_or(|fence| fence < self.fence);
        self.fence = self.fence.max(fence.unwrap_or(0));
        self.checks == Checks::Nothing || !is_stale
    }

    /// Writes the successor of the version that was read, unless the fence is too small; returns
    /// the event to record.
    pub(crate) fn write(&mut self, claim: u64, name: &str, fence: Option<u64>, read: u64) -> What {
        let version = read + 1;
        let outcome = match self.admits(fence) {
            true => Written::Accepted,
            false => Written::Stale,
        };
        if outcome == Written::Accepted {
            self.version = version;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(register: &mut Register, fence: Option<u64>, read: u64) -> Written {
        match register.write(1, "stock", fence, read) {
            What::Wrote { outcome, .. } => outcome,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_smaller_fence_is_refused_where_fences_are_checked() {
        let mut register = Register::new(Checks::Fences);
        assert_eq!(outcome(&mut register, Some(7), 0), Written::Accepted);
        assert_eq!(outcome(&mut register, Some(7), 1), Written::Accepted);
        assert_eq!(outcome(&mut register, Some(6), 2), Written::Stale);
        assert_eq!(outcome(&mut register, None, 2), Written::Stale);
        assert_eq!(register.version(), 2);
    }

    #[test]
    fn everything_is_accepted_where_nothing_is_checked() {
        let mut register = Register::new(Checks::Nothing);
        assert_eq!(outcome(&mut register, Some(7), 0), Written::Accepted);
        assert_eq!(outcome(&mut register, Some(6), 0), Written::Accepted);
        assert_eq!(register.version(), 1);
    }
}

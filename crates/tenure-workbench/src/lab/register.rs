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

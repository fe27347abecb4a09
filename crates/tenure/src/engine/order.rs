//! What a caller orders, before it becomes a claim on a store.

use std::time::Duration;

use crate::driver::{About, Claim, Life, Mode, Wait};
use crate::error::{Error, Result};
use crate::name::{Name, Owner};

/// A lock as its caller wants it.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    pub(crate) name: Name,
    /// `None` for a new owner each time, which no other call can share.
    pub(crate) owner: Option<Owner>,
    pub(crate) mode: Mode,
    pub(crate) ttl: Duration,
    pub(crate) life: Life,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) at_least: Duration,
    pub(crate) about: About,
}

impl Order {
    /// Checks the options once, before anything is sent.
    pub(crate) fn check(&self) -> Result<()> {
        check_ttl(self.ttl)?;
        if let Some(max_hold) = self.max_hold {
            within("max_hold", max_hold)?;
        }
        if self.at_least > LONGEST {
            return Err(invalid(
                "at_least",
                format!("it is longer than {LONGEST:?}"),
            ));
        }
        if let Mode::Permits { take, of } = self.mode
            && (take == 0 || take > of)
        {
            return Err(invalid(
                "permits",
                format!("{take} of {of} cannot be taken"),
            ));
        }
        let reason = self.about.reason.as_deref().unwrap_or_default();
        if reason.len() > LONGEST_REASON || reason.chars().any(char::is_control) {
            let rule = format!("it may have {LONGEST_REASON} bytes and no control characters");
            return Err(invalid("reason", rule));
        }
        Ok(())
    }

    /// Makes a claim of it, with an owner of its own unless the order names one.
    pub(crate) fn claim(&self, wait: Wait) -> Claim {
        Claim {
            name: self.name.clone(),
            owner: self.owner.clone().unwrap_or_else(Owner::unique),
            mode: self.mode,
            ttl: self
                .max_hold
                .map_or(self.ttl, |longest| longest.min(self.ttl)),
            depth: 1,
            wait,
            life: self.life,
            fences: if self.is_plain() { 1 + MOST_PASSES } else { 1 },
            tell_if_wanted: false,
            about: self.about.clone(),
        }
    }

    /// Whether a lease granted for `other` serves this order as well.
    ///
    /// So it is for locks without an owner of their own that differ in nothing: the store need
    /// not know which of a process's callers has them.
    pub(crate) fn is_served_by(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
            || (self.is_plain()
                && other.is_plain()
                && self.ttl == other.ttl
                && self.about.reason == other.about.reason)
    }

    /// Whether the lease may be passed on inside the process.
    pub(crate) fn is_plain(&self) -> bool {
        self.owner.is_none()
            && self.mode == Mode::Exclusive
            && self.life == Life::Client
            && self.max_hold.is_none()
            && self.at_least.is_zero()
    }
}

/// How often a lease may be passed on inside a process before other processes get their turn.
pub(crate) const MOST_PASSES: u32 = 63;

/// How long after its grant a lease may be passed on inside a process.
pub(crate) const PASS_WINDOW: Duration = Duration::from_millis(5);

/// Refuses a ttl that no store can keep.
pub(crate) fn check_ttl(ttl: Duration) -> Result<()> {
    within("ttl", ttl)
}

const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);
const LONGEST_REASON: usize = 1000;

fn within(option: &'static str, duration: Duration) -> Result<()> {
    if duration < SHORTEST {
        Err(invalid(
            option,
            format!("{duration:?} is shorter than {SHORTEST:?}"),
        ))
    } else if duration > LONGEST {
        Err(invalid(option, "it is longer than a year".to_owned()))
    } else {
        Ok(())
    }
}

fn invalid(option: &'static str, reason: String) -> Error {
    Error::InvalidOption { option, reason }
}

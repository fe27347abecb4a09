//! What a caller asks for, before it becomes a claim.

use std::time::Duration;

use crate::driver::{About, Capabilities, Claim, Life, Mode, Wait};
use crate::error::{Error, Result};
use crate::name::{ClaimId, Name, Owner};

/// A lock as its caller wants it.
#[derive(Debug, Clone)]
pub(crate) struct LockRequest {
    pub(crate) name: Name,
    /// The owner that shares the lock with other calls and clients; sent to the store.
    pub(crate) owner: Option<Owner>,
    /// The task or thread that may re-enter inside this client; not sent to the store.
    pub(crate) caller: Option<Owner>,
    pub(crate) mode: Mode,
    pub(crate) ttl: Duration,
    pub(crate) life: Life,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) at_least: Duration,
    /// For how long the process keeps the lease after its release, if nobody else wants it.
    pub(crate) keep: Duration,
    pub(crate) about: About,
}

impl LockRequest {
    /// Checks the options once, before anything is sent.
    pub(crate) fn check(&self, store: &'static str, can: &Capabilities) -> Result<()> {
        self.check_capabilities(store, can)?;
        check_ttl(self.ttl, can)?;
        if let Some(owner) = &self.owner {
            Owner::named(owner.as_str())?;
        }
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
        if !self.keep.is_zero() {
            within("keep", self.keep)?;
            if !self.is_plain() {
                let rule = "only an exclusive lock without owner, max_hold and at_least is kept, \
                            and no lease by hand";
                return Err(invalid("keep", rule.to_owned()));
            }
        }
        let reason = self.about.reason.as_deref().unwrap_or_default();
        if reason.len() > LONGEST_REASON || reason.chars().any(char::is_control) {
            let rule = format!("it may have {LONGEST_REASON} bytes and no control characters");
            return Err(invalid("reason", rule));
        }
        Ok(())
    }

    /// Refuses options that the store does not support.
    fn check_capabilities(&self, driver: &'static str, can: &Capabilities) -> Result<()> {
        let missing = match self.mode {
            Mode::Shared if !can.shared => Some("shared locks: use a mutex"),
            Mode::Permits { .. } if !can.permits => {
                Some("permits: use a mutex, or a store of one server for a semaphore")
            }
            _ if self.life == Life::Ttl && !can.by_hand => {
                Some("leases by hand: a lock there ends with the client that took it")
            }
            _ if self.owner.is_some() && !can.shared_owners => Some(
                "owners that several clients share: use a re-entrant lock to lock again in one task",
            ),
            _ if !self.keep.is_zero() && !can.calls => {
                Some("calls for leases that are kept: leave keep out")
            }
            _ if !self.at_least.is_zero() && !can.stays_taken => {
                Some("names that stay taken after their release: leave at_least out")
            }
            _ => None,
        };
        match missing {
            Some(what) => Err(Error::Unsupported { driver, what }),
            None => Ok(()),
        }
    }

    /// Returns who may re-enter the lock in this client.
    pub(crate) fn reenters_as(&self) -> Option<ReentrantOwner> {
        match (self.life, &self.owner, &self.caller) {
            // A lease by hand belongs to nobody in this process.
            (Life::Ttl, _, _) | (_, None, None) => None,
            (_, Some(owner), _) => Some(ReentrantOwner::Named(owner.clone())),
            (_, None, Some(caller)) => Some(ReentrantOwner::Caller(caller.clone())),
        }
    }

    /// Makes a claim from the request.
    pub(crate) fn claim(&self, id: ClaimId, wait: Wait, fences: u32) -> Claim {
        Claim {
            name: self.name.clone(),
            id,
            owner: self.owner.clone(),
            mode: self.mode,
            ttl: self
                .max_hold
                .map_or(self.ttl, |longest| longest.min(self.ttl)),
            wait,
            life: self.life,
            fences,
            tell_if_wanted: !self.keep.is_zero(),
            about: self.about.clone(),
        }
    }

    /// Returns whether a lease granted for `other` serves this request as well.
    ///
    /// This is the case for equal requests without an owner: the store need not know which caller of a
    /// process has the lock.
    pub(crate) fn is_served_by(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
            || (self.is_plain()
                && other.is_plain()
                && self.ttl == other.ttl
                && self.about.reason == other.about.reason)
    }

    /// Returns whether the lease may be passed on inside the process.
    pub(crate) fn is_plain(&self) -> bool {
        self.owner.is_none()
            && self.mode == Mode::Exclusive
            && self.life == Life::Client
            && self.max_hold.is_none()
            && self.at_least.is_zero()
    }
}

/// Who may re-enter a lock: a named owner, or the calling task or thread.
///
/// No named owner can impersonate a task or thread.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum ReentrantOwner {
    Named(Owner),
    Caller(Owner),
}

/// How many fences a plain lock asks for if nobody here waits behind it: one for its grant, and some to
/// pass the lease on to callers that arrive while it is requested or held.
///
/// Few, because stores that derive fences from a clock in microseconds run ahead of it if they reserve
/// more fences than microseconds pass between two grants of a name.
pub(crate) const FEW_FENCES: u32 = 8;

/// How many fences a plain lock asks for if others here wait behind it: one for its grant, and one for
/// each time that the lease may be passed on before other processes get their turn.
pub(crate) const SOME_FENCES: u32 = 64;

/// How many fences a lock that is kept asks for: one for each use until the store is asked again.
///
/// Enough that asking again costs little per use. Not more, because stores that derive fences from a
/// clock in microseconds run ahead of it by as many microseconds, 16 ms.
pub(crate) const MANY_FENCES: u32 = 16_384;

/// How long after its grant a lease may be passed on inside a process.
pub(crate) const PASS_WINDOW: Duration = Duration::from_millis(5);

/// Refuses a ttl outside the general limits or those of the store.
pub(crate) fn check_ttl(ttl: Duration, can: &Capabilities) -> Result<()> {
    let (shortest, longest) = (can.shortest_ttl, can.longest_ttl);
    within("ttl", ttl)?;
    if (shortest..=longest).contains(&ttl) {
        return Ok(());
    }
    let rule = format!("this store keeps leases for {shortest:?} to {longest:?}");
    Err(invalid("ttl", rule))
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

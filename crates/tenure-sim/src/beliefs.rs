//! Who waits, who believes that it holds a lock, and what excuses a belief that the store does not
//! share.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tenure::driver::{Entry, TimeSource};
use tenure::{Guard, Health, Name};
use tenure_checker::{Freed, Mode, What};

use crate::clock::SimClock;
use crate::plan::LockSpec;
use crate::store::Store;
use crate::world::World;

/// What is known about the claims of a run.
#[derive(Debug, Default)]
pub(crate) struct Beliefs {
    /// Claims that are not answered yet.
    pub(crate) pending: BTreeMap<u64, Pending>,
    /// Claims that were granted and not released.
    pub(crate) held: BTreeMap<u64, Belief>,
    excuses: Vec<Excuse>,
    stays: Vec<Stay>,
    /// When processes were suspended, in microseconds.
    suspended: BTreeMap<u32, u64>,
}

/// A claim that is not answered yet.
#[derive(Debug, Clone)]
pub(crate) struct Pending {
    pub(crate) process: u32,
    pub(crate) name: Name,
    pub(crate) since_us: u64,
    /// Whether it waits in line.
    pub(crate) waits: bool,
}

/// A granted claim.
#[derive(Debug)]
pub(crate) struct Belief {
    pub(crate) process: u32,
    pub(crate) name: Name,
    pub(crate) evidence: Evidence,
    fence: u64,
    granted_us: u64,
    at_least: Duration,
    ttl: Duration,
    /// Until when it is excused that the store has ended the lease.
    excused_us: u64,
}

/// How a claim knows whether it still holds its lock.
#[derive(Debug)]
pub(crate) enum Evidence {
    /// Its guard reports it.
    Guard {
        guard: Weak<Guard>,
        clock: Arc<SimClock>,
        /// When it must have ended by its own clock.
        ends_by: Option<Duration>,
    },
    /// It counts on its own clock: a lease by hand.
    Count {
        clock: Arc<SimClock>,
        until: Duration,
        owner: String,
    },
    /// It is notified and cannot check: a result that is computed once.
    Told,
}

/// Leases that a fault or an operator has ended, whatever their holders believe.
#[derive(Debug, Clone)]
struct Excuse {
    /// Those of one name, or of all names.
    name: Option<Name>,
    /// Those with smaller fences.
    below: u64,
    until_us: u64,
}

/// A name that stays taken after its release.
#[derive(Debug)]
struct Stay {
    claim: u64,
    name: Name,
    process: u32,
    until_us: u64,
}

/// A claim that is about to be sent.
#[derive(Debug)]
pub(crate) struct Asks<'a> {
    pub(crate) process: u32,
    pub(crate) lock: &'a LockSpec,
    pub(crate) mode: Mode,
    /// `None` if the claim is its own owner.
    pub(crate) owner: Option<String>,
    pub(crate) waits: bool,
}

impl World {
    /// Records that a claim is about to be sent; returns its number and its owner.
    pub(crate) fn ask(&self, asks: Asks<'_>) -> (u64, String) {
        let claim = self.recorder.next_claim();
        let owner = asks.owner.unwrap_or_else(|| format!("claim-{claim}"));
        let name = self.names[asks.lock.name].clone();
        let what = What::Asked {
            claim,
            name: name.as_str().to_owned(),
            mode: asks.mode,
            owner: owner.clone(),
        };
        let since_us = self.recorder.note(asks.process, what);
        let pending = Pending {
            process: asks.process,
            name,
            since_us,
            waits: asks.waits,
        };
        self.beliefs().pending.insert(claim, pending);
        (claim, owner)
    }

    /// Records that a claim was refused or dropped, or that its outcome is unknown.
    pub(crate) fn answered(&self, process: u32, claim: u64, what: What) {
        self.beliefs().pending.remove(&claim);
        self.recorder.note(process, what);
    }

    /// Records that a claim ended without a belief, if it is not answered yet.
    pub(crate) fn given_up(&self, process: u32, claim: u64) {
        if self.beliefs().pending.remove(&claim).is_some() {
            self.recorder.note(process, What::Releasing { claim });
        }
    }

    /// Records that a claim was granted.
    pub(crate) fn granted(
        &self,
        process: u32,
        claim: u64,
        lock: &LockSpec,
        fence: u64,
        evidence: Evidence,
    ) {
        self.sample();
        let name = self.names[lock.name].clone();
        let mut beliefs = self.beliefs();
        let excused_us = beliefs.excused_us(&name, fence, self.recorder.now_us());
        let by_hand = matches!(evidence, Evidence::Count { .. });
        let excused_us = match excused_us {
            Some(_) if by_hand => self.recorder.now_us() + 2 * self.longest_us(),
            Some(until_us) => until_us,
            None if matches!(evidence, Evidence::Told) => {
                beliefs.untold_us(process, self.recorder.now_us())
            }
            None => 0,
        };
        if excused_us > 0 {
            let until_us = excused_us;
            self.recorder
                .note(process, What::Excused { claim, until_us });
        }
        let what = What::Granted {
            claim,
            fence: Some(fence),
        };
        let granted_us = self.recorder.note(process, what);
        beliefs.pending.remove(&claim);
        let mut stays = beliefs.stays.iter();
        let broken = stays.find(|stay| stay.name == name && stay.until_us > granted_us);
        if let Some(stay) = broken {
            let (first, early_us) = (stay.claim, stay.until_us - granted_us);
            self.recorder.breach("at-least", || {
                format!("claim {claim} was granted \"{name}\" {early_us} µs before the at_least of claim {first} was over")
            });
        }
        beliefs.held.insert(
            claim,
            Belief {
                process,
                name,
                evidence,
                fence,
                granted_us,
                at_least: Duration::from_millis(lock.at_least_ms),
                ttl: Duration::from_millis(lock.ttl_ms),
                excused_us,
            },
        );
        drop(beliefs);
        self.compare();
    }

    /// Records that a holder has noticed its loss.
    pub(crate) fn lost(&self, claim: u64) {
        let lost = self.beliefs().held.remove(&claim);
        if let Some(belief) = lost {
            self.recorder.note(belief.process, What::Lost { claim });
        }
    }

    /// Records that a claim starts to release; returns its belief if it still had one.
    pub(crate) fn releasing(&self, process: u32, claim: u64) -> Option<Belief> {
        self.sample();
        self.compare();
        let belief = self.beliefs().held.remove(&claim);
        self.recorder.note(process, What::Releasing { claim });
        belief
    }

    /// Records the outcome of a release.
    pub(crate) fn released(&self, process: u32, claim: u64, freed: Freed) {
        self.recorder.note(process, What::Released { claim, freed });
    }

    /// Records that a name stays taken for as long as a released claim has asked for.
    pub(crate) fn stays(&self, claim: u64, belief: &Belief) {
        // This time counts from the grant in the store, which is close to that of the client only
        // if nothing goes wrong. If the lease is shorter than a slow message takes, it may expire
        // before the release arrives.
        if belief.at_least.is_zero()
            || belief.excused_us > 0
            || !self.plan.is_calm()
            || belief.ttl <= Duration::from_millis(self.plan.slowest_way_ms(3))
        {
            return;
        }
        let mut excuses = self.beliefs().excuses.clone().into_iter();
        if excuses.any(|excuse| excuse.is_for(&belief.name, belief.fence)) {
            return;
        }
        // Minus the difference between clocks, and minus the time that the grant took to arrive.
        let promised = belief.at_least.mul_f64(0.99).as_micros();
        let way_us = 1000 * self.plan.slowest_way_ms(2) + 3000;
        let until_us =
            (belief.granted_us + u64::try_from(promised).unwrap_or(0)).saturating_sub(way_us);
        self.beliefs().stays.push(Stay {
            claim,
            name: belief.name.clone(),
            process: belief.process,
            until_us,
        });
    }

    /// Checks every guard once, and records the losses that it knows of.
    pub(crate) fn sample(&self) {
        let mut lost = Vec::new();
        for (claim, belief) in &self.beliefs().held {
            match &belief.evidence {
                Evidence::Guard {
                    guard,
                    clock,
                    ends_by,
                } => {
                    let Some(guard) = guard.upgrade() else {
                        continue;
                    };
                    if matches!(guard.health(), Health::Lost(_)) {
                        lost.push(*claim);
                    } else if ends_by.is_some_and(|ends_by| clock.now() > ends_by) {
                        let name = &belief.name;
                        self.recorder.breach("max-hold", || {
                            format!("claim {claim} holds \"{name}\" longer than its max_hold")
                        });
                    }
                }
                Evidence::Count { clock, until, .. } => {
                    if clock.now() >= *until {
                        lost.push(*claim);
                    }
                }
                Evidence::Told => {}
            }
        }
        for claim in lost {
            self.lost(claim);
        }
    }

    /// Checks whether the store knows everybody who believes that it holds something.
    pub(crate) fn compare(&self) {
        let is_down = !self.plan.is_redlock() && self.stores[0].is_down();
        // A node that has forgotten a lease does not count for others until the lease is over.
        if is_down || (self.plan.is_redlock() && self.stores.iter().any(Store::has_forgotten)) {
            return;
        }
        let now_us = self.recorder.now_us();
        let entries: Vec<_> = self.stores.iter().map(|store| store.look(None)).collect();
        for (claim, belief) in &self.beliefs().held {
            let Some(owner) = belief.store_owner() else {
                continue;
            };
            let is_known = |entry: &Entry| {
                entry.name == belief.name
                    && entry.holders.iter().any(|holder| {
                        holder.depth > 0
                            && holder.owner.as_str() == owner
                            && (holder.fence.get() <= belief.fence || self.plan.is_redlock())
                    })
            };
            let known = entries
                .iter()
                .filter(|entries| entries.iter().any(is_known));
            if known.count() >= self.majority() || belief.excused_us > now_us {
                continue;
            }
            let (name, fence) = (&belief.name, belief.fence);
            self.recorder.breach("belief", || {
                format!("claim {claim} believes to hold \"{name}\" with fence {fence}, and the store knows nothing of it")
            });
        }
    }

    /// Excuses all leases that the store has granted so far: it may have ended them early.
    pub(crate) fn excuse_all(&self) {
        let lasts = Duration::from_micros(self.longest_us());
        // Includes the next one: a client of a database may have decided it already, by the earlier
        // time, and not written it yet.
        self.excuse(None, lasts, self.watermark() + 1);
    }

    /// Excuses the holders of an evicted name until they are notified.
    pub(crate) fn evicted(&self, name: &Name) {
        let told = if self.plan.is_in_order() {
            Duration::from_millis(self.plan.setting.slowest_ms + 2)
        } else {
            Duration::from_micros(self.longest_us())
        };
        self.excuse(Some(name), told, self.watermark());
    }

    /// Excuses holders with smaller fences than this one, which learn of the eviction at their next
    /// renewal.
    pub(crate) fn evicted_below(&self, name: &Name, below: u64) {
        self.excuse(Some(name), Duration::from_micros(self.longest_us()), below);
    }

    /// Ends all beliefs and waiting claims of a process.
    pub(crate) fn forget_process(&self, process: u32) {
        let mut beliefs = self.beliefs();
        beliefs.held.retain(|_, belief| belief.process != process);
        beliefs
            .pending
            .retain(|_, pending| pending.process != process);
        beliefs.stays.retain(|stay| stay.process != process);
    }

    /// Records that a process was suspended: its timers are late for a while.
    pub(crate) fn suspended(&self, process: u32) {
        let now_us = self.recorder.now_us();
        self.beliefs().suspended.insert(process, now_us);
        self.lose_told(process);
    }

    /// Ends the beliefs of a process that cannot check the clock before it acts.
    pub(crate) fn lose_told(&self, process: u32) {
        let beliefs = self.beliefs();
        let told = beliefs.held.iter().filter(|(_, belief)| {
            belief.process == process && matches!(belief.evidence, Evidence::Told)
        });
        let told: Vec<_> = told.map(|(claim, _)| *claim).collect();
        drop(beliefs);
        for claim in told {
            self.lost(claim);
        }
    }

    /// Returns the claim of a process that waits for a name, if there is only one.
    pub(crate) fn only_pending(&self, process: u32, name: &Name) -> Option<u64> {
        let beliefs = self.beliefs();
        let mut own = beliefs
            .pending
            .iter()
            .filter(|(_, pending)| pending.process == process && pending.name == *name);
        let (claim, pending) = own.next()?;
        (pending.waits && own.next().is_none()).then_some(*claim)
    }

    pub(crate) fn beliefs(&self) -> MutexGuard<'_, Beliefs> {
        self.beliefs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how long a belief can last without renewal, in microseconds.
    fn longest_us(&self) -> u64 {
        let longest = self.plan.longest_ttl().mul_f64(1.01) + Duration::from_millis(3);
        u64::try_from(longest.as_micros()).unwrap_or(u64::MAX)
    }

    fn excuse(&self, name: Option<&Name>, lasts: Duration, below: u64) {
        let lasts_us = u64::try_from(lasts.as_micros()).unwrap_or(0);
        let excuse = Excuse {
            name: name.cloned(),
            below,
            // Timers have a resolution of one millisecond, so the check at the end may come up to a
            // millisecond late.
            until_us: self.recorder.now_us() + lasts_us + 1000,
        };
        let mut beliefs = self.beliefs();
        beliefs
            .stays
            .retain(|stay| name.is_some_and(|name| *name != stay.name));
        let concerned = beliefs
            .held
            .iter_mut()
            .filter(|(_, belief)| excuse.is_for(&belief.name, belief.fence));
        for (claim, belief) in concerned {
            let told_us = match belief.evidence {
                // Nobody reports the end of a lease by hand until it is renewed or expires.
                Evidence::Count { .. } => self.recorder.now_us() + 2 * self.longest_us(),
                _ => excuse.until_us,
            };
            let (claim, until_us) = (*claim, told_us.max(excuse.until_us));
            belief.excused_us = belief.excused_us.max(until_us);
            self.recorder
                .note(belief.process, What::Excused { claim, until_us });
        }
        beliefs.excuses.push(excuse);
        drop(beliefs);
        // A holder that still believes at that time has no excuse, and a holder that knows of its
        // loss must report it.
        self.wire.look_after(lasts);
        self.wire
            .look_after(Duration::from_micros(self.longest_us()));
    }
}

impl Beliefs {
    /// Returns until when a grant with this fence is excused, if it is.
    fn excused_us(&self, name: &Name, fence: u64, now_us: u64) -> Option<u64> {
        let excuses = self.excuses.iter();
        let excuses = excuses.filter(|it| it.until_us > now_us && it.is_for(name, fence));
        excuses.map(|excuse| excuse.until_us).max()
    }
}

impl Beliefs {
    /// Returns until when a process cannot learn in time that a lease is over, because it was
    /// suspended.
    ///
    /// The watchdog sleeps for at most a second, on a timer that does not include the suspension.
    fn untold_us(&self, process: u32, now_us: u64) -> u64 {
        let since_us = self.suspended.get(&process);
        let until_us = since_us.map_or(0, |since_us| since_us + LONGEST_NAP_US);
        if until_us > now_us { until_us } else { 0 }
    }
}

/// The longest sleep of the watchdog, and some time for its check.
const LONGEST_NAP_US: u64 = 1_010_000;

impl Belief {
    /// Returns the owner as the store knows it.
    pub(crate) fn store_owner(&self) -> Option<String> {
        match &self.evidence {
            Evidence::Guard { guard, .. } => {
                let guard = guard.upgrade()?;
                guard.owner().map(|owner| owner.as_str().to_owned())
            }
            Evidence::Count { owner, .. } => Some(owner.clone()),
            Evidence::Told => None,
        }
    }
}

impl Excuse {
    fn is_for(&self, name: &Name, fence: u64) -> bool {
        fence < self.below && self.name.as_ref().is_none_or(|only| only == name)
    }
}

//! Who waits, who believes to hold what, and what excuses a belief that the store does not share.

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

/// What is known of the claims of a run.
#[derive(Debug, Default)]
pub(crate) struct Beliefs {
    /// Claims that have no answer yet.
    pub(crate) pending: BTreeMap<u64, Pending>,
    /// Claims that were granted and not let go.
    pub(crate) held: BTreeMap<u64, Belief>,
    excuses: Vec<Excuse>,
    stays: Vec<Stay>,
    /// When processes were suspended, in microseconds.
    suspended: BTreeMap<u32, u64>,
}

/// A claim without an answer.
#[derive(Debug, Clone)]
pub(crate) struct Pending {
    pub(crate) process: u32,
    pub(crate) name: Name,
    pub(crate) since_us: u64,
    /// Whether it stands in line.
    pub(crate) waits: bool,
}

/// A claim that was granted.
#[derive(Debug)]
pub(crate) struct Belief {
    pub(crate) process: u32,
    pub(crate) name: Name,
    pub(crate) evidence: Evidence,
    fence: u64,
    granted_us: u64,
    at_least: Duration,
    ttl: Duration,
    /// Until when the store may know better.
    excused_us: u64,
}

/// How a claim knows whether it still holds.
#[derive(Debug)]
pub(crate) enum Evidence {
    /// Its guard says so.
    Guard {
        guard: Weak<Guard>,
        clock: Arc<SimClock>,
        /// When it has to be over by its own clock.
        ends_by: Option<Duration>,
    },
    /// Its own count on its own clock: a lease by hand.
    Count {
        clock: Arc<SimClock>,
        until: Duration,
        owner: String,
    },
    /// It is told, and cannot look: a result that is made once.
    Told,
}

/// Leases that a fault or an operator has ended, whatever their holders believe.
#[derive(Debug, Clone)]
struct Excuse {
    /// Of one name, or of all.
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
    /// `None` for an owner of its own.
    pub(crate) owner: Option<String>,
    pub(crate) waits: bool,
}

impl World {
    /// Notes that a claim is about to be sent; returns its number.
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

    /// Notes that a claim was refused, dropped or left open.
    pub(crate) fn answered(&self, process: u32, claim: u64, what: What) {
        self.beliefs().pending.remove(&claim);
        self.recorder.note(process, what);
    }

    /// Notes that a claim ended without ever being believed, if it has no answer yet.
    pub(crate) fn given_up(&self, process: u32, claim: u64) {
        if self.beliefs().pending.remove(&claim).is_some() {
            self.recorder.note(process, What::Releasing { claim });
        }
    }

    /// Notes that a claim was granted.
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

    /// Notes that a holder has noticed its loss.
    pub(crate) fn lost(&self, claim: u64) {
        let lost = self.beliefs().held.remove(&claim);
        if let Some(belief) = lost {
            self.recorder.note(belief.process, What::Lost { claim });
        }
    }

    /// Notes that a claim begins to let go; returns its belief if it still had one.
    pub(crate) fn releasing(&self, process: u32, claim: u64) -> Option<Belief> {
        self.sample();
        self.compare();
        let belief = self.beliefs().held.remove(&claim);
        self.recorder.note(process, What::Releasing { claim });
        belief
    }

    /// Notes what came of letting go.
    pub(crate) fn released(&self, process: u32, claim: u64, freed: Freed) {
        self.recorder.note(process, What::Released { claim, freed });
    }

    /// Notes that a name stays taken for as long as a released claim has asked for.
    pub(crate) fn stays(&self, claim: u64, belief: &Belief) {
        // Counted from the grant in the store, which is near that of the client only if nothing goes wrong. A
        // lease so short that a slow message outlasts it may end before the release arrives.
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
        // Less what clocks may differ, and what the grant took to arrive.
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

    /// Looks at every guard once, and notes the losses that it knows of.
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

    /// Looks whether the store knows everybody who believes to hold something.
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

    /// Excuses all leases that the store has granted until now: it may have ended them early.
    pub(crate) fn excuse_all(&self) {
        let lasts = Duration::from_micros(self.longest_us());
        // Also the next one: a client of a database may have decided it already, by the time before, and not written it.
        self.excuse(None, lasts, self.watermark() + 1);
    }

    /// Excuses the holders of an evicted name until they are told.
    pub(crate) fn evicted(&self, name: &Name) {
        let told = if self.plan.is_in_order() {
            Duration::from_millis(self.plan.setting.slowest_ms + 2)
        } else {
            Duration::from_micros(self.longest_us())
        };
        self.excuse(Some(name), told, self.watermark());
    }

    /// Excuses holders with smaller fences than this one, whom their next renewal tells that they were evicted.
    pub(crate) fn evicted_below(&self, name: &Name, below: u64) {
        self.excuse(Some(name), Duration::from_micros(self.longest_us()), below);
    }

    /// Ends everything that a process believed and waited for.
    pub(crate) fn forget_process(&self, process: u32) {
        let mut beliefs = self.beliefs();
        beliefs.held.retain(|_, belief| belief.process != process);
        beliefs
            .pending
            .retain(|_, pending| pending.process != process);
        beliefs.stays.retain(|stay| stay.process != process);
    }

    /// A process was suspended: its timers are late for a while.
    pub(crate) fn suspended(&self, process: u32) {
        let now_us = self.recorder.now_us();
        self.beliefs().suspended.insert(process, now_us);
        self.lose_told(process);
    }

    /// Ends the beliefs of a process that cannot look at the clock before it acts.
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

    /// The one claim of a process that waits for a name, if it is the only one.
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

    /// How long a belief can last that is not renewed, in microseconds.
    fn longest_us(&self) -> u64 {
        let longest = self.plan.longest_ttl().mul_f64(1.01) + Duration::from_millis(3);
        u64::try_from(longest.as_micros()).unwrap_or(u64::MAX)
    }

    fn excuse(&self, name: Option<&Name>, lasts: Duration, below: u64) {
        let lasts_us = u64::try_from(lasts.as_micros()).unwrap_or(0);
        let excuse = Excuse {
            name: name.cloned(),
            below,
            // Timers are whole milliseconds, so the look at the end comes up to one later.
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
                // Nobody tells of the end of a lease by hand, until it is renewed or runs out.
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
        // Whoever still believes then has no excuse, and whoever knows better is to say so.
        self.wire.look_after(lasts);
        self.wire
            .look_after(Duration::from_micros(self.longest_us()));
    }
}

impl Beliefs {
    /// Until when a grant with this fence is excused, if it is.
    fn excused_us(&self, name: &Name, fence: u64, now_us: u64) -> Option<u64> {
        let excuses = self.excuses.iter();
        let excuses = excuses.filter(|it| it.until_us > now_us && it.is_for(name, fence));
        excuses.map(|excuse| excuse.until_us).max()
    }
}

impl Beliefs {
    /// Until when a process cannot be told in time that a lease is over, because it was suspended.
    ///
    /// The watchdog naps for a second at most, on a timer that does not know of the suspension.
    fn untold_us(&self, process: u32, now_us: u64) -> u64 {
        let since_us = self.suspended.get(&process);
        let until_us = since_us.map_or(0, |since_us| since_us + LONGEST_NAP_US);
        if until_us > now_us { until_us } else { 0 }
    }
}

/// The longest nap of the watchdog, and some time for its look.
const LONGEST_NAP_US: u64 = 1_010_000;

impl Belief {
    /// The owner as the store knows it.
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

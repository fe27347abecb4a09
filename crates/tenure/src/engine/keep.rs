//! Keeping: a lease stays with the process after its release, until others want it.
//!
//! The next lock of the same name then costs no request. The store reports the first claim from
//! elsewhere, and the lease is released at once. It is also released when its time is up, when this
//! process wants the name in another way, and whenever a message may have been missed.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Tick;
use crate::engine::lease::HeldLease;
use crate::engine::line::Lines;
use crate::engine::lock_request::{FEW_FENCES, LockRequest, MANY_FENCES, SOME_FENCES};
use crate::engine::{Engine, to_end::to_end};
use crate::guard::{Guard, Health, Hold};
use crate::name::{ClaimId, Fence, Name};
use crate::random::SeededMap;

/// A lease that nobody holds, ready for the next caller in this process.
///
/// It stays among the engine's leases, where the watchdog renews it. Code that takes it out of
/// [`KeptLeases`] passes it to a caller or releases it.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) lease: Arc<HeldLease>,
    /// What its last holder asked for.
    pub(crate) request: Arc<LockRequest>,
    passes: u32,
    /// When it is released.
    until: Tick,
}

/// The kept leases of a client; a name that has one has no local line.
#[derive(Debug)]
pub(super) struct KeptLeases {
    by_name: SeededMap<Name, Kept>,
    /// When the watchdog looks at them next.
    next_look: Tick,
    /// When the store last called for one.
    called: Option<Tick>,
    /// How many calls wait for the client to settle: nothing is kept meanwhile.
    settling: usize,
}

impl Default for KeptLeases {
    fn default() -> Self {
        Self {
            by_name: SeededMap::default(),
            next_look: Tick::NEVER,
            called: None,
            settling: 0,
        }
    }
}

impl KeptLeases {
    pub(super) fn take(&mut self, name: &Name) -> Option<Kept> {
        // Most programs keep nothing, and should not pay for the lookup.
        if self.by_name.is_empty() {
            return None;
        }
        self.by_name.remove(name)
    }

    /// Returns how many fences to ask for; `next` is the request that waits behind this one in the
    /// process.
    ///
    /// Asks only for as many as are likely to be used. Otherwise a busy name would use them up faster
    /// than the clock from which some stores derive them. It asks for some if the lease can be passed
    /// on, and for many only if the lease is to be kept and no other client has called for one
    /// recently.
    pub(super) fn fences(
        &self,
        request: &LockRequest,
        next: Option<&LockRequest>,
        now: Tick,
    ) -> u32 {
        if !request.is_plain() {
            return 1;
        }
        let in_peace = || self.called.is_none_or(|at| now.since(at) >= PEACE);
        let is_kept = !request.keep.is_zero();
        if is_kept && in_peace() {
            MANY_FENCES
        } else if is_kept || next.is_some_and(|next| next.is_served_by(request)) {
            SOME_FENCES
        } else {
            FEW_FENCES
        }
    }
}

/// Whether a lease is kept.
#[derive(Debug)]
enum Keeping {
    Kept,
    /// The watchdog has to look earlier than it planned.
    KeptBriefly,
    /// Somebody here waits for the name.
    Refused,
}

impl Lines {
    /// Keeps a lease, unless somebody here waits for the name.
    fn keep(&self, kept: Kept) -> Keeping {
        let mut here = self.here.lock();
        let here = &mut *here;
        // Checked under the lock of the lines: a call looks here after it was recorded.
        let wanted = kept.lease.is_called_back() || here.lines.contains_key(&kept.request.name);
        let busy = here.kept.settling > 0 || here.kept.by_name.contains_key(&kept.request.name);
        if wanted || busy {
            return Keeping::Refused;
        }
        let until = kept.until;
        here.kept.by_name.insert(kept.request.name.clone(), kept);
        if until < here.kept.next_look {
            here.kept.next_look = until;
            return Keeping::KeptBriefly;
        }
        Keeping::Kept
    }

    /// Removes and returns this lease if it is kept.
    pub(super) fn take_kept(&self, lease: &Arc<HeldLease>) -> Option<Kept> {
        let mut here = self.here.lock();
        let kept = here.kept.by_name.get(&lease.claim.name)?;
        if !Arc::ptr_eq(&kept.lease, lease) {
            return None;
        }
        here.kept.take(&lease.claim.name)
    }

    /// Removes and returns all kept leases.
    fn take_all_kept(&self) -> Vec<Kept> {
        let kept = std::mem::take(&mut self.here.lock().kept.by_name);
        kept.into_values().collect()
    }

    /// Removes and returns the leases whose time is up, and returns when to look again.
    fn take_over(&self, now: Tick) -> (Vec<Kept>, Tick) {
        let mut here = self.here.lock();
        // Leases that end at about the same time are removed together, so that full scans stay rare.
        let over = here.kept.by_name.extract_if(|_, kept| {
            let soon = now + kept.request.keep / 16;
            soon >= kept.until
        });
        let over = over.map(|(_, kept)| kept).collect();
        let left = here.kept.by_name.values().map(|kept| kept.until);
        let next = left.min().unwrap_or(Tick::NEVER);
        here.kept.next_look = next;
        (over, next)
    }
}

impl Engine {
    /// Keeps a lease that may continue, if its request says so and nobody wants it.
    pub(super) fn keep(self: &Arc<Self>, hold: Hold, now: Tick) -> Result<(), Hold> {
        let lease = &hold.lease;
        // An unsuccessful attempt to pass it on may have used up a fence.
        let has_a_fence = hold.passes + 1 < lease.fences;
        if hold.request.keep.is_zero() || !lease.claim.tell_if_wanted || !has_a_fence {
            return Err(hold);
        }
        let keeping = self.lines.keep(Kept {
            lease: Arc::clone(&hold.lease),
            request: Arc::clone(&hold.request),
            passes: hold.passes,
            until: now + hold.request.keep,
        });
        match keeping {
            Keeping::Kept => {}
            Keeping::KeptBriefly => self.leases.look_earlier(),
            Keeping::Refused => return Err(hold),
        }
        self.meter.given_back(now.since(hold.since));
        Ok(())
    }

    /// Passes a kept lease to the caller; one that does not serve it is released first.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: there is no wait before the release, which continues in the background.
    pub(super) async fn take(
        self: &Arc<Self>,
        kept: Kept,
        request: &Arc<LockRequest>,
        now: Tick,
    ) -> Option<Guard> {
        let lease = &kept.lease;
        let usable = lease.health(now) == Health::Held && !lease.is_called_back();
        if usable && request.is_served_by(&kept.request) {
            self.meter.granted();
            return Some(Guard::new(self, lease, request, kept.passes + 1, now));
        }
        let name = &request.name;
        let freed = Arc::clone(self).free(kept.lease, now, Duration::ZERO);
        if let Err(error) = to_end(&self.background, freed).await {
            tracing::debug!(%name, %error, "a kept lease is not released yet");
        }
        None
    }

    /// Records that another client wants the name of one of our leases.
    pub(super) fn call_back(self: &Arc<Self>, claim: &ClaimId, fence: Fence) {
        // Recorded before the search: the task that adds the lease checks in the opposite order.
        self.early.note_call(claim, fence);
        let lease = self.leases.find(claim);
        if let Some(lease) = lease.filter(|lease| self.early.is_called_for(lease)) {
            self.called(&lease);
        }
    }

    /// Assumes that others want all our leases, as their calls may have been missed.
    pub(super) fn call_all_back(self: &Arc<Self>) {
        self.early.calls_may_be_missed(self.clock.now());
        self.leases.call_all_back();
        self.give_back_kept();
    }

    /// Releases all kept leases, and waits until nothing runs in the background.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the releases continue in the background.
    pub(crate) async fn settled(self: &Arc<Self>) {
        let _settling = Settling::begin(&self.lines);
        self.give_back_kept();
        self.background.over().await;
        self.driver.settled().await;
    }

    /// Releases all kept leases in the background.
    fn give_back_kept(self: &Arc<Self>) {
        for kept in self.lines.take_all_kept() {
            self.free_later(kept);
        }
    }

    /// Releases the kept leases whose time is up; returns when to look again.
    pub(super) fn end_keeping(self: &Arc<Self>, now: Tick) -> Tick {
        let (over, next) = self.lines.take_over(now);
        for kept in over {
            self.free_later(kept);
        }
        next
    }

    /// Releases all kept leases of an engine that ends.
    pub(super) fn part_with_kept(&self) {
        let kept = self.lines.take_all_kept();
        if kept.is_empty() {
            return;
        }
        let driver = Arc::clone(&self.driver);
        let release = |kept: Kept| self.owe(kept.lease.release(Duration::ZERO));
        let requests: Vec<_> = kept.into_iter().map(release).collect();
        self.background.spawn(async move {
            for request in requests {
                if let Err(error) = driver.release(&request).await {
                    let name = &request.name;
                    tracing::warn!(%name, %error, "not released, the lease ends by its ttl");
                }
                request.paid();
            }
        });
    }

    pub(super) fn called(self: &Arc<Self>, lease: &Arc<HeldLease>) {
        lease.call_back();
        self.lines.here.lock().kept.called = Some(self.clock.now());
        if let Some(kept) = self.lines.take_kept(lease) {
            self.free_later(kept);
        }
    }

    fn free_later(self: &Arc<Self>, kept: Kept) {
        let name = kept.request.name.clone();
        let freed = Arc::clone(self).free(kept.lease, self.clock.now(), Duration::ZERO);
        self.background.spawn(async move {
            if let Err(error) = freed.await {
                tracing::warn!(%name, %error, "releasing a kept lease failed, trying again");
            }
        });
    }
}

/// Prevents keeping while it exists: leases that background work releases would otherwise be left
/// behind.
struct Settling<'a>(&'a Lines);

impl<'a> Settling<'a> {
    fn begin(lines: &'a Lines) -> Self {
        lines.here.lock().kept.settling += 1;
        Self(lines)
    }
}

impl Drop for Settling<'_> {
    fn drop(&mut self) {
        self.0.here.lock().kept.settling -= 1;
    }
}

/// For how long after a call a client reserves fewer fences at a time.
const PEACE: Duration = Duration::from_secs(1);

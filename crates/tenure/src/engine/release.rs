//! Release: to the next caller in this process, or to the store.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Tick;
use crate::driver::{Life, Release, Released};
use crate::engine::backoff::Backoff;
use crate::engine::give_back::GiveBack;
use crate::engine::lease::HeldLease;
use crate::engine::line::Turn;
use crate::engine::lock_request::PASS_WINDOW;
use crate::engine::{Engine, to_end::to_end};
use crate::error::Result;
use crate::guard::{Guard, Health, Hold, Outcome};
use crate::name::{ClaimId, Fence, Name};

impl Engine {
    /// Releases a hold, and waits for the store's answer if the store has to be told.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the release continues in the background.
    pub(crate) async fn give_back(self: &Arc<Self>, hold: Hold) -> Result<Outcome> {
        // This also happens in a forked child, where the nest would keep the parent's files open.
        let left = self.leave_nest(hold);
        self.check_origin()?;
        let hold = match left {
            Ok(outcome) => return Ok(outcome),
            Err(hold) => hold,
        };
        let now = self.clock.now();
        let Err(hold) = self.pass_on_or_keep(hold, now) else {
            return Ok(Outcome::Released);
        };
        to_end(&self.background, Arc::clone(self).release(hold, now)).await
    }

    /// Releases a hold without waiting, for use in `drop`.
    pub(crate) fn give_back_later(self: &Arc<Self>, hold: Hold) {
        // This also happens in a forked child, where the nest would keep the parent's files open.
        let Err(hold) = self.leave_nest(hold) else {
            return;
        };
        if self.is_forked() {
            return;
        }
        let now = self.clock.now();
        if let Err(hold) = self.pass_on_or_keep(hold, now) {
            let name = hold.lease.claim.name.clone();
            let released = Arc::clone(self).release(hold, now);
            self.background.spawn(async move {
                if let Err(error) = released.await {
                    tracing::warn!(%name, %error, "release on drop failed, trying again");
                }
            });
        }
    }

    /// Forgets a hold without telling the store: its lease continues.
    pub(crate) fn let_run(&self, hold: &Hold) {
        self.leases.remove(&hold.lease);
        hold.lease.retire();
    }

    /// Releases a hold without the store, if possible.
    fn pass_on_or_keep(self: &Arc<Self>, hold: Hold, now: Tick) -> Result<(), Hold> {
        if !hold.goes_on(now) {
            return Err(hold);
        }
        let Err(hold) = self.pass_on(hold, now) else {
            return Ok(());
        };
        self.keep(hold, now)
    }

    /// Passes a lease that may continue to the next caller in this process.
    ///
    /// Passing it on costs no request, so a contended lock is many times faster than with one round trip
    /// per hold. The bounds make sure that other processes get their turn.
    fn pass_on(self: &Arc<Self>, hold: Hold, now: Tick) -> Result<(), Hold> {
        let Some(first) = self.lines.first_served_by(&hold.request) else {
            return Err(hold);
        };
        let passes = hold.passes + 1;
        let guard = Guard::new(self, &hold.lease, &first.request, passes, now);
        self.meter.given_back(now.since(hold.since));
        self.meter.granted();
        let untaken = match first.tell(Turn::Go(guard)) {
            Err(Turn::Go(returned)) => self.offer(&hold.request, returned),
            _ => None,
        };
        // If everybody has left in the meantime, the unused fence is not reused.
        untaken.map_or(Ok(()), |guard| Err(guard.into_hold()))
    }

    /// Ends a hold that was released at `now`, and returns the future that tells the store.
    fn release(
        self: Arc<Self>,
        hold: Hold,
        now: Tick,
    ) -> impl Future<Output = Result<Outcome>> + Send + 'static {
        self.meter.given_back(now.since(hold.since));
        let stays_taken = hold.taken_until().since(now);
        self.free(hold.lease, now, stays_taken)
    }

    /// Ends a lease that nobody here holds any more, and returns the future that tells the store.
    pub(super) fn free(
        self: Arc<Self>,
        lease: Arc<HeldLease>,
        now: Tick,
        stays_taken: Duration,
    ) -> impl Future<Output = Result<Outcome>> + Send + 'static {
        if let Health::Lost(loss) = lease.health(now) {
            self.lose(&lease, loss);
        }
        lease.retire();
        // The request is wrapped before the future starts, because a runtime that ends may never poll
        // the future.
        let request = self.owe(lease.release(stays_taken));
        async move {
            let answer = self.driver.release(&request).await;
            let request = request.paid();
            self.leases.remove(&lease);
            match (answer, lease.loss()) {
                // The store was told anyway, because by its clock the lease may last a little longer.
                (_, Some(loss)) | (Ok(Released::NotHeld(loss)), None) => Ok(Outcome::NotHeld(loss)),
                (Ok(Released::Freed { left: 0 }), None) => Ok(Outcome::Released),
                (Ok(Released::Freed { left }), None) => Ok(Outcome::Lowered { depth: left }),
                (Err(error), None) => {
                    self.give_back_in_background(GiveBack::Release(request), lease.claim.ttl);
                    Err(error)
                }
            }
        }
    }

    /// Frees a grant that nobody waits for.
    pub(crate) fn release_stray(self: &Arc<Self>, name: &Name, claim: &ClaimId, fence: Fence) {
        // Releases only a lease of this client: a lease by hand may be in use although the engine no
        // longer knows it.
        let request = Release::new(name.clone(), claim.clone(), Life::Client);
        self.give_back_in_background(GiveBack::Release(request.with_fence(fence)), A_WHILE);
    }

    /// Retries a request in the background until the store confirms it or `patience` is over.
    pub(super) fn give_back_in_background(self: &Arc<Self>, request: GiveBack, patience: Duration) {
        let (engine, request) = (Arc::clone(self), self.owe(request));
        self.background.spawn(async move {
            let give_up = engine.clock.now() + patience;
            let mut backoff = Backoff::default();
            while let Err(error) = request.send(&*engine.driver).await {
                if engine.clock.now() >= give_up || !error.is_outage() {
                    let name = request.name();
                    tracing::warn!(%name, %error, "not given back, the lease ends by its ttl");
                    break;
                }
                engine.clock.sleep(backoff.pause()).await;
            }
            request.paid();
        });
    }
}

impl Hold {
    /// Returns whether the lease may continue with the next caller in this process without the store.
    ///
    /// Others get their turn soon. If the lease can be called back, that is when they call for it;
    /// otherwise it is after a few passes and milliseconds. A call may be lost, so there is a bound in
    /// both cases.
    pub(super) fn goes_on(&self, now: Tick) -> bool {
        let (lease, request) = (&self.lease, &self.request);
        // The store only calls for other clients, not for owners that wait in this one.
        let has_owner = || self.engine.lines.have_an_owner(&request.name);
        let window = if lease.claim.tell_if_wanted && !has_owner() {
            request.ttl.max(request.keep)
        } else {
            PASS_WINDOW
        };
        request.is_plain()
            && self.taken_until() <= now
            && !lease.is_called_back()
            && self.passes + 1 < lease.fences
            && now.since(lease.granted) < window
            && lease.health(now) == Health::Held
    }

    /// Returns until when the name stays taken even if it is released earlier.
    fn taken_until(&self) -> Tick {
        self.taken_until.max(self.since + self.request.at_least)
    }
}

const A_WHILE: Duration = Duration::from_secs(30);

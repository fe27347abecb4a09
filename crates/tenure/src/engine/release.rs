//! Letting go: to the next caller in this process, or to the store.

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
    /// Gives a hold back, and waits for the store's answer where the store has to be told.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the release goes on in the background.
    pub(crate) async fn give_back(self: &Arc<Self>, hold: Hold) -> Result<Outcome> {
        // Also in a forked child, where the nest would keep the parent's files open.
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

    /// Gives a hold back without waiting, as a drop has to.
    pub(crate) fn give_back_later(self: &Arc<Self>, hold: Hold) {
        // Also in a forked child, where the nest would keep the parent's files open.
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

    /// Forgets a hold without telling the store: its lease goes on by itself.
    pub(crate) fn let_run(&self, hold: &Hold) {
        self.leases.remove(&hold.lease);
        hold.lease.retire();
    }

    /// Lets go of a hold without the store, if that may be.
    fn pass_on_or_keep(self: &Arc<Self>, hold: Hold, now: Tick) -> Result<(), Hold> {
        if !hold.goes_on(now) {
            return Err(hold);
        }
        let Err(hold) = self.pass_on(hold, now) else {
            return Ok(());
        };
        self.keep(hold, now)
    }

    /// Passes a lease that may go on to the next caller in this process.
    ///
    /// That costs no request, so a hot lock is many times faster than one round trip each; the
    /// bounds make sure that other processes get their turn.
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
        // If everybody has left meanwhile, the fence that nobody saw is not used again.
        untaken.map_or(Ok(()), |guard| Err(guard.into_hold()))
    }

    /// Ends a hold that was let go at `now`, and returns what tells the store.
    fn release(
        self: Arc<Self>,
        hold: Hold,
        now: Tick,
    ) -> impl Future<Output = Result<Outcome>> + Send + 'static {
        self.meter.given_back(now.since(hold.since));
        let stays_taken = hold.taken_until().since(now);
        self.free(hold.lease, now, stays_taken)
    }

    /// Ends a lease that nobody here holds any more, and returns what tells the store.
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
        // Owed already, as a runtime that ends may never begin with the rest.
        let request = self.owe(lease.release(stays_taken));
        async move {
            let answer = self.driver.release(&request).await;
            let request = request.paid();
            self.leases.remove(&lease);
            match (answer, lease.loss()) {
                // The store is told all the same: by its clock the lease may run a little longer.
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
        // A lease by hand may be in use although the engine does not know it any more.
        let request = Release::new(name.clone(), claim.clone(), Life::Client);
        self.give_back_in_background(GiveBack::Release(request.with_fence(fence)), A_WHILE);
    }

    /// Sends a request in the background, until the store confirms it or `patience` is over.
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
    /// Whether the lease may go on to the next caller in this process without the store.
    ///
    /// Others get their turn soon: when they call for a lease that can be called back, else after
    /// a few passes and milliseconds. The call may be lost, so there is a bound in both cases.
    pub(super) fn goes_on(&self, now: Tick) -> bool {
        let (lease, request) = (&self.lease, &self.request);
        // The store calls for others alone, not for owners that wait in this client.
        let window = if lease.claim.tell_if_wanted && !self.is_wanted_by_an_owner_here() {
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

    fn is_wanted_by_an_owner_here(&self) -> bool {
        self.engine.lines.have_an_owner(&self.request.name)
    }

    /// Until when the name stays taken, also if released earlier.
    fn taken_until(&self) -> Tick {
        self.taken_until.max(self.since + self.request.at_least)
    }
}

const A_WHILE: Duration = Duration::from_secs(30);

//! The value that a caller holds while it has a lock.

use std::sync::Arc;
use std::time::Duration;

use crate::by_hand::Lease;
use crate::clock::Tick;
use crate::driver::Loss;
use crate::engine::Engine;
use crate::engine::lease::HeldLease;
use crate::engine::lock_request::LockRequest;
use crate::engine::reentry::Nest;
use crate::error::Result;
use crate::name::{Fence, Name, Owner};
use crate::transaction::Transaction;
use crate::transaction::row::hold_in_transaction;

/// A lock that was granted, held until released or dropped.
///
/// A guard says that the lock *was* granted, not that it still is: a paused process can outlive
/// its lease. Send [`fence`](Self::fence) along with every write, and let the resource refuse
/// fences smaller than the largest it has seen.
///
/// # Release on drop is not immediate
///
/// Dropping hands the release to the Tokio runtime and does not wait for it. If the runtime shuts down first, as at
/// the end of `main`, the release is still sent, and the shutdown waits for it for at most a second. A process that
/// is killed or calls [`std::process::exit`] sends nothing: the lease then ends by its `ttl`, or with the process if
/// the store detects that. Call [`release`](Self::release) to wait and to see errors.
#[must_use = "a guard that is not kept releases the lock at once: write `let _guard = …`, because `let _ = …` drops it"]
#[derive(Debug)]
pub struct Guard {
    /// `None` once the lock is given back.
    hold: Option<Hold>,
}

/// What a guard has to release.
#[derive(Debug, Clone)]
pub(crate) struct Hold {
    pub(crate) engine: Arc<Engine>,
    pub(crate) lease: Arc<HeldLease>,
    pub(crate) request: Arc<LockRequest>,
    /// How many holders in this process the lease had before this one.
    pub(crate) passes: u32,
    pub(crate) since: Tick,
    /// What it shares with nested calls, if its owner may re-enter.
    pub(crate) nest: Option<Arc<Nest>>,
    /// Until when nested calls want the name to stay taken.
    pub(crate) taken_until: Tick,
}

/// The state of a lock that was granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Health {
    /// The lease is valid, and is renewed in time.
    Held,
    /// The lease is valid, but its renewal is late or has failed: bring the work to a safe point.
    AtRisk,
    /// The lease is over, or will be before an answer could arrive; others may hold the lock.
    Lost(Loss),
}

/// Why the renewals of a lock fail at the moment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RenewalFailure {
    /// Why the latest renewal failed, or that its answer is late; for people.
    pub reason: String,
    /// How long ago the first of these renewals was sent.
    pub lasts: Duration,
}

/// How a release ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The lock is free, or belongs to the next in line.
    Released,
    /// The same owner has locked it more than once, and still holds it.
    Lowered {
        /// How many times: nested calls of this client, or otherwise claims of all clients.
        depth: u32,
    },
    /// The lock was no longer held, and others may have held it in the meantime.
    NotHeld(Loss),
}

impl Guard {
    pub(crate) fn new(
        engine: &Arc<Engine>,
        lease: &Arc<HeldLease>,
        request: &Arc<LockRequest>,
        passes: u32,
        since: Tick,
    ) -> Self {
        Self::of(Hold {
            engine: Arc::clone(engine),
            lease: Arc::clone(lease),
            request: Arc::clone(request),
            passes,
            since,
            nest: None,
            taken_until: Tick::default(),
        })
    }

    pub(crate) fn of(hold: Hold) -> Self {
        Self { hold: Some(hold) }
    }

    /// Returns the fence of this grant, to send along with every write.
    pub fn fence(&self) -> Fence {
        let hold = self.hold();
        hold.lease.fence.pass(hold.passes)
    }

    /// Returns the name of the lock.
    pub fn name(&self) -> &Name {
        &self.hold().request.name
    }

    /// Returns the holder as people see it in the store: the owner that the lock names, or otherwise the id of the
    /// claim, which no other claim can share.
    pub fn owner(&self) -> Option<Owner> {
        Some(Owner::shown(self.hold().lease.claim.owner_text()))
    }

    /// Returns whether the lock is held, at risk or lost, by this machine's clock.
    pub fn health(&self) -> Health {
        let hold = self.hold();
        hold.lease.health(hold.engine.clock.now())
    }

    /// Returns the time until the lock is lost, if no renewal succeeds from now on.
    ///
    /// Normally this stays above half of the ttl; it is zero once the lock is lost.
    pub fn time_left(&self) -> Duration {
        let hold = self.hold();
        hold.lease.time_left(hold.engine.clock.now())
    }

    /// Returns why the lock is not renewed, if the latest renewal failed or its answer is late.
    ///
    /// After a [loss](Loss::Unreachable) it tells the cause.
    pub fn renewal_failure(&self) -> Option<RenewalFailure> {
        let hold = self.hold();
        hold.lease.renewal_failure(hold.engine.clock.now())
    }

    /// Waits until the lock is lost, and returns why.
    ///
    /// Returns before the store can grant the lock to another client, by a margin of 1 % of the ttl for clock drift.
    /// After the machine was suspended, it returns within a second of waking; [`health`](Self::health) knows at once.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: waiting changes nothing.
    pub async fn lost(&self) -> Loss {
        self.hold().lease.lost().await
    }

    /// Proves in your own transaction that the lock is still held, and prevents others from getting it until the
    /// transaction ends.
    ///
    /// Make it the last statement before COMMIT. If both it and the COMMIT succeed, the transaction was written under
    /// the lock, even if this process is paused right before the COMMIT and the lease expires meanwhile. So data in
    /// the store's own database needs no fence. The stores `postgres://` and `mysql://` support it; see
    /// [`transaction`](crate::transaction).
    ///
    /// It locks the row of the name in the store's table. Until the transaction ends, nobody can be granted the name,
    /// and requests about it wait or fail with [`Unavailable`](crate::Error::Unavailable). So do the renewals of this
    /// client, which the guard tolerates for as long as its lease lasts. A transaction that stays open for longer
    /// than the ttl makes the guard lost, although what it commits is still safe.
    ///
    /// Keep the guard until COMMIT has returned: a guard that is dropped earlier may be passed on inside this process
    /// at once. If COMMIT itself fails, only the database knows the outcome.
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::Error::Lost) if the lock is no longer held: roll back, because others may have had it.
    /// [`Conflict`](crate::Error::Conflict) if it conflicts with another transaction: roll back and try again. At
    /// REPEATABLE READ and SERIALIZABLE that includes a renewal since the transaction's first statement.
    /// [`Unsupported`](crate::Error::Unsupported) if the store is not a database;
    /// [`InvalidOption`](crate::Error::InvalidOption) for a transaction of another kind of database;
    /// [`Unavailable`](crate::Error::Unavailable) for other faults, also if the transaction does not see the store's
    /// table.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: roll the transaction back after a dropped call.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn close_books(guard: &tenure::Guard, connection: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut tx = connection.transaction().await?;
    /// tx.batch_execute("UPDATE book SET closed = true").await?;
    /// guard.hold_in(&mut tx).await?;
    /// tx.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn hold_in(&self, transaction: &mut impl Transaction) -> Result<()> {
        hold_in_transaction(self.hold(), transaction).await
    }

    /// Releases the lock and waits for the store's answer.
    ///
    /// # Errors
    ///
    /// What the store reports. The release is then retried in the background; if that fails too, the
    /// lease ends by its `ttl`.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a release that was cancelled continues in the background.
    pub async fn release(self) -> Result<Outcome> {
        let hold = self.into_hold();
        Arc::clone(&hold.engine).give_back(hold).await
    }

    pub(crate) fn set_request(&mut self, request: &Arc<LockRequest>) {
        if let Some(hold) = &mut self.hold {
            hold.request = Arc::clone(request);
        }
    }

    pub(crate) fn hold(&self) -> &Hold {
        match &self.hold {
            Some(hold) => hold,
            None => unreachable!("{TAKEN_AT_THE_END}"),
        }
    }

    pub(crate) fn nest(&mut self, nest: &Arc<Nest>) {
        if let Some(hold) = &mut self.hold {
            hold.nest = Some(Arc::clone(nest));
        }
    }

    pub(crate) fn into_hold(mut self) -> Hold {
        match self.hold.take() {
            Some(hold) => hold,
            None => unreachable!("{TAKEN_AT_THE_END}"),
        }
    }

    /// Turns the guard into a lease that is not renewed.
    pub(crate) fn into_lease(self) -> Lease {
        let fence = self.fence();
        let hold = self.into_hold();
        hold.engine.let_run(&hold);
        let claim = &hold.lease.claim;
        Lease {
            name: claim.name.clone(),
            claim: claim.id.clone(),
            owner: Owner::shown(claim.owner_text()),
            fence: Some(fence),
            ttl: claim.ttl,
        }
    }
}

const TAKEN_AT_THE_END: &str = "only what ends the guard takes the hold out";

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(hold) = self.hold.take() {
            Arc::clone(&hold.engine).give_back_later(hold);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_time_left_stays_above_half_while_renewed_and_is_none_after_a_loss() {
        let locks = crate::open("memory:").await.unwrap();
        let ttl = Duration::from_secs(30);
        let guard = locks.mutex("a").ttl(ttl).lock().await.unwrap();
        for _ in 0..60 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(ttl / 2 < guard.time_left() && guard.time_left() < ttl);
        }
        locks.evict(guard.name()).await.unwrap();
        guard.lost().await;
        assert_eq!(guard.time_left(), Duration::ZERO);
    }
}

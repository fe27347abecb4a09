//! Nested calls: a task that holds a lock may lock it again, and the store need not know.
//!
//! The store is asked for the outermost lock alone, in the name of nobody in particular, so its lease can be passed
//! on inside the process as any other. Who may enter again is known here: nobody outside can be the same task.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;

use crate::clock::Tick;
use crate::driver::Mode;
use crate::engine::Engine;
use crate::engine::lease::{Health, HeldLease};
use crate::engine::line::{Standing, Turn};
use crate::engine::order::Order;
use crate::error::{Error, Result};
use crate::guard::{Guard, Hold, Outcome};
use crate::name::{Fence, Name, Owner};

/// The seats of all who hold or wait for a lock that they may enter again.
#[derive(Debug, Default)]
pub(crate) struct Seats(Mutex<HashMap<(Name, Owner), Weak<Seat>>>);

/// What the calls of one task share that want the same name; gone with the last of them.
#[derive(Debug)]
pub(crate) struct Seat {
    seats: Arc<Seats>,
    key: (Name, Owner),
    taken: Mutex<Option<Taken>>,
    changed: Notify,
}

/// The grant that a task has.
#[derive(Debug)]
struct Taken {
    lease: Arc<HeldLease>,
    /// The outermost call's.
    order: Arc<Order>,
    fence: Fence,
    passes: u32,
    since: Tick,
    nest: Arc<Nest>,
}

/// How often a grant is locked. Changed under the lock of its seat alone.
#[derive(Debug)]
pub(crate) struct Nest {
    seat: Arc<Seat>,
    depth: Mutex<u32>,
}

impl Engine {
    /// Finds or makes the seat of an order that may be entered again.
    pub(super) fn seat(&self, order: &Order) -> Option<Arc<Seat>> {
        let inside = order.inside.as_ref()?;
        Some(self.seats.of((order.name.clone(), inside.clone())))
    }

    /// Enters a lock again that the caller's task holds.
    ///
    /// # Errors
    ///
    /// [`Error::ModeConflict`] if it is held in a mode that does not cover the new one.
    pub(super) fn enter_seat(
        self: &Arc<Self>,
        seat: Option<&Arc<Seat>>,
        order: &Order,
    ) -> Result<Option<Guard>> {
        let Some(seat) = seat else {
            return Ok(None);
        };
        let taken = seat.lock();
        let Some(taken) = taken.as_ref().filter(|taken| taken.is_held(self)) else {
            return Ok(None);
        };
        if !covers(taken.order.mode, order.mode) {
            let name = order.name.clone();
            return Err(Error::ModeConflict { name });
        }
        *taken.nest.depth() += 1;
        let (lease, outer) = (&taken.lease, &taken.order);
        let mut guard = Guard::new(self, lease, outer, taken.fence, taken.passes, taken.since);
        guard.nest(&taken.nest);
        Ok(Some(guard))
    }

    /// Lets nested calls find a grant. One of several grants that a task shares with itself is found.
    pub(super) fn sit(&self, seat: Option<&Arc<Seat>>, mut guard: Guard) -> Guard {
        if let (Some(seat), Some(hold)) = (seat, guard.hold()) {
            let mut taken = seat.lock();
            if !taken.as_ref().is_some_and(|taken| taken.is_held(self)) {
                let nest = Arc::new(Nest {
                    seat: Arc::clone(seat),
                    depth: Mutex::new(1),
                });
                *taken = Some(Taken {
                    lease: Arc::clone(&hold.lease),
                    order: Arc::clone(&hold.order),
                    fence: guard.fence(),
                    passes: hold.passes,
                    since: hold.since,
                    nest: Arc::clone(&nest),
                });
                drop(taken);
                guard.nest(&nest);
                seat.changed.notify_waiters();
            }
        }
        guard
    }

    /// Waits for the turn, or until another call of the same task has the lock.
    pub(super) async fn turn(
        self: &Arc<Self>,
        standing: &mut Standing,
        seat: Option<&Arc<Seat>>,
    ) -> Option<Turn> {
        let Some(seat) = seat else {
            return standing.turn().await;
        };
        tokio::select! {
            biased;
            turn = standing.turn() => turn,
            () = seat.taken(self) => Some(Turn::Again),
        }
    }

    /// Leaves a nested call; returns the hold if it was the outermost, or in none.
    pub(super) fn leave_seat(&self, mut hold: Hold) -> Result<Outcome, Hold> {
        let Some(depth) = hold.nest.take().map(|nest| nest.leave()) else {
            return Err(hold);
        };
        if depth == 0 {
            return Err(hold);
        }
        Ok(match hold.lease.health(self.clock.now()) {
            Health::Lost(loss) => Outcome::NotHeld(loss),
            Health::Held | Health::AtRisk => Outcome::Lowered { depth },
        })
    }
}

impl Seats {
    fn of(self: &Arc<Self>, key: (Name, Owner)) -> Arc<Seat> {
        let mut seats = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(seat) = seats.get(&key).and_then(Weak::upgrade) {
            return seat;
        }
        let seat = Arc::new(Seat {
            seats: Arc::clone(self),
            key: key.clone(),
            taken: Mutex::default(),
            changed: Notify::new(),
        });
        seats.insert(key, Arc::downgrade(&seat));
        seat
    }
}

impl Seat {
    /// Waits until a call of the task has the lock.
    async fn taken(&self, engine: &Engine) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self
                .lock()
                .as_ref()
                .is_some_and(|taken| taken.is_held(engine))
            {
                return;
            }
            changed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Taken>> {
        // Nothing panics while a seat is half changed.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut seats = self.seats.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Another may have been made since.
        if seats
            .get(&self.key)
            .is_some_and(|seat| seat.strong_count() == 0)
        {
            seats.remove(&self.key);
        }
    }
}

impl Taken {
    fn is_held(&self, engine: &Engine) -> bool {
        !matches!(self.lease.health(engine.clock.now()), Health::Lost(_))
    }
}

impl Nest {
    /// Leaves once; returns how often it is still locked.
    fn leave(self: &Arc<Self>) -> u32 {
        let mut taken = self.seat.lock();
        let mut depth = self.depth();
        *depth = depth.saturating_sub(1);
        if *depth == 0
            && taken
                .as_ref()
                .is_some_and(|taken| Arc::ptr_eq(&taken.nest, self))
        {
            *taken = None;
        }
        *depth
    }

    fn depth(&self) -> MutexGuard<'_, u32> {
        self.depth.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a holder in one mode may enter again in another.
fn covers(held: Mode, asked: Mode) -> bool {
    held == asked || (held == Mode::Exclusive && asked == Mode::Shared)
}

#[cfg(test)]
mod tests {
    #[tokio::test(start_paused = true)]
    async fn seats_are_gone_with_those_who_sat_there() {
        let locks = crate::open("memory:").await.unwrap();
        let count = || locks.engine.seats.0.lock().unwrap().len();
        for name in 0..100 {
            let lock = locks.mutex(&format!("a {name}")).reentrant();
            let outer = lock.lock().await.unwrap();
            let inner = lock.try_lock().await.unwrap().unwrap();
            assert_eq!(count(), 1);
            drop(outer);
            drop(inner);
        }
        assert_eq!(count(), 0);
    }
}

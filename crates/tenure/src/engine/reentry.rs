//! Re-entrant locks: an owner that holds a lock in this client may lock it again without the store.
//!
//! The owner is the one that the lock names, or the running task for a re-entrant lock. Only the
//! outermost call asks the store: the calls nested in it share its lease, its fence and its loss, and
//! are counted here. An owner that holds the name in *another* client shares it by the store's rules
//! instead, with its own claim.

use std::sync::{Arc, Weak};

use tokio::sync::Notify;

use crate::clock::Tick;
use crate::engine::Engine;
use crate::engine::line::{Standing, Turn};
use crate::engine::lock_request::{LockRequest, ReentrantOwner};
use crate::error::{Error, Result};
use crate::guard::{Guard, Health, Hold, Outcome};
use crate::name::Name;
use crate::random::SeededMap;
use crate::sync::{Mutex, until};

/// The entries of all owners that hold or wait for a lock that they may re-enter.
#[derive(Debug, Default)]
pub(crate) struct Reentries(Mutex<SeededMap<(Name, ReentrantOwner), Weak<Reentry>>>);

/// What the calls of one owner for the same name share; dropped with the last of them.
#[derive(Debug)]
pub(crate) struct Reentry {
    reentries: Arc<Reentries>,
    key: (Name, ReentrantOwner),
    /// What the outermost call holds, and its nest.
    held: Mutex<Option<(Hold, Arc<Nest>)>>,
    changed: Notify,
}

/// The calls that share a grant; changed only under the lock of its entry.
#[derive(Debug)]
pub(crate) struct Nest {
    entry: Arc<Reentry>,
    calls: Mutex<Calls>,
}

#[derive(Debug)]
struct Calls {
    depth: u32,
    /// Until when the nested calls want the name to stay taken.
    taken_until: Tick,
}

impl Engine {
    /// Finds or creates the entry of a request whose owner may re-enter.
    pub(super) fn reentry(&self, request: &LockRequest) -> Option<Arc<Reentry>> {
        let who = request.reenters_as()?;
        Some(self.reentries.of((request.name.clone(), who)))
    }

    /// Re-enters a lock that the caller's owner holds in this client.
    ///
    /// # Errors
    ///
    /// [`Error::ModeConflict`] if it is held in a mode that does not cover the new one.
    pub(super) fn reenter(
        self: &Arc<Self>,
        entry: Option<&Arc<Reentry>>,
        request: &LockRequest,
    ) -> Result<Option<Guard>> {
        let Some(entry) = entry else {
            return Ok(None);
        };
        let held = entry.held.lock();
        let Some((outer, nest)) = held.as_ref().filter(|(outer, _)| outer.is_held()) else {
            return Ok(None);
        };
        if !outer.request.mode.covers(request.mode) {
            let name = request.name.clone();
            return Err(Error::ModeConflict { name });
        }
        let mut calls = nest.calls.lock();
        calls.depth += 1;
        calls.taken_until = calls.taken_until.max(self.clock.now() + request.at_least);
        drop(calls);
        let mut guard = Guard::of(outer.clone());
        guard.nest(nest);
        Ok(Some(guard))
    }

    /// Makes a grant visible to nested calls; of several grants of an owner, only one is visible.
    pub(super) fn admit(entry: Option<&Arc<Reentry>>, mut guard: Guard) -> Guard {
        if let Some(entry) = entry {
            let mut held = entry.held.lock();
            if !is_held(&held) {
                let calls = Mutex::new(Calls {
                    depth: 1,
                    taken_until: Tick::default(),
                });
                let nest = Arc::new(Nest {
                    entry: Arc::clone(entry),
                    calls,
                });
                *held = Some((guard.hold().clone(), Arc::clone(&nest)));
                drop(held);
                guard.nest(&nest);
                entry.changed.notify_waiters();
            }
        }
        guard
    }

    /// Waits for the turn, or until another call of the same owner has the lock.
    pub(super) async fn turn(
        self: &Arc<Self>,
        standing: &mut Standing,
        entry: Option<&Arc<Reentry>>,
    ) -> Option<Turn> {
        let Some(entry) = entry else {
            return standing.turn().await;
        };
        tokio::select! {
            biased;
            turn = standing.turn() => turn,
            () = entry.taken() => Some(Turn::Again),
        }
    }

    /// Leaves a nested call; returns the hold if it was the last call of its nest, or not nested.
    pub(super) fn leave_nest(&self, mut hold: Hold) -> Result<Outcome, Hold> {
        let Some(nest) = hold.nest.take() else {
            return Err(hold);
        };
        let depth = nest.leave();
        if depth == 0 {
            hold.taken_until = nest.calls.lock().taken_until;
            return Err(hold);
        }
        Ok(match hold.lease.health(self.clock.now()) {
            Health::Lost(loss) => Outcome::NotHeld(loss),
            Health::Held | Health::AtRisk => Outcome::Lowered { depth },
        })
    }
}

impl Reentries {
    fn of(self: &Arc<Self>, key: (Name, ReentrantOwner)) -> Arc<Reentry> {
        let mut entries = self.0.lock();
        if let Some(entry) = entries.get(&key).and_then(Weak::upgrade) {
            return entry;
        }
        let entry = Arc::new(Reentry {
            reentries: Arc::clone(self),
            key: key.clone(),
            held: Mutex::default(),
            changed: Notify::new(),
        });
        entries.insert(key, Arc::downgrade(&entry));
        entry
    }
}

impl Reentry {
    /// Waits until a call of the owner has the lock.
    async fn taken(&self) {
        until(&self.changed, || is_held(&self.held.lock()).then_some(())).await;
    }
}

impl Drop for Reentry {
    fn drop(&mut self) {
        let mut entries = self.reentries.0.lock();
        // Another entry may have been created since.
        if entries
            .get(&self.key)
            .is_some_and(|entry| entry.strong_count() == 0)
        {
            entries.remove(&self.key);
        }
    }
}

fn is_held(outer: &Option<(Hold, Arc<Nest>)>) -> bool {
    outer.as_ref().is_some_and(|(outer, _)| outer.is_held())
}

impl Hold {
    fn is_held(&self) -> bool {
        !matches!(self.lease.health(self.engine.clock.now()), Health::Lost(_))
    }
}

impl Nest {
    /// Leaves once; returns how many calls are left.
    fn leave(self: &Arc<Self>) -> u32 {
        let mut held = self.entry.held.lock();
        let mut calls = self.calls.lock();
        calls.depth = calls.depth.saturating_sub(1);
        if calls.depth == 0
            && held
                .as_ref()
                .is_some_and(|(_, nest)| Arc::ptr_eq(nest, self))
        {
            *held = None;
        }
        calls.depth
    }
}

#[cfg(test)]
mod tests {
    #[tokio::test(start_paused = true)]
    async fn entries_are_gone_with_those_who_entered() {
        let locks = crate::open("memory:").await.unwrap();
        let count = || locks.engine.reentries.0.lock().len();
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

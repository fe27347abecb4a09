//! Locks within one process; the reference for the other stores.
//!
//! Its clock is Tokio's, so that tests can pause time. Nothing is persistent.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use tokio::sync::mpsc;
use tokio::time::Instant;

#[cfg(feature = "doctor")]
use crate::doctor::{Check, Finding};
use crate::driver::{
    Answer, Capabilities, Claim, Clock, Driver, Entry, Holder, News, Release, Released, Renewal,
    Renewed, TimeSource,
};
use crate::error::{Error, Result};
use crate::name::{Fence, Name};
use crate::random::random_u128;
use crate::store::ledger::{self, Fences, Ledger, Moment, NOBODY, Nanos, Notice, Session};
use crate::sync::Mutex;

/// One client of a memory store.
///
/// Dropping it ends its leases, as the end of a process does in other stores.
#[derive(Debug)]
pub struct Memory {
    session: Session,
    shared: Arc<Mutex<State>>,
    /// The channel is unbounded, but a session gets only one notice per claim and lease.
    inbox: tokio::sync::Mutex<mpsc::UnboundedReceiver<News>>,
}

impl Memory {
    /// Opens a new store, which ends with its last client.
    pub fn new() -> Self {
        Self::join(Arc::default())
    }

    /// Opens a new store whose leases use the given clock.
    pub fn with_clock(clock: Arc<dyn TimeSource>) -> Self {
        let state = State {
            clock: Some(clock),
            ..State::default()
        };
        Self::join(Arc::new(Mutex::new(state)))
    }

    /// Opens the store of this process with the given label, and creates it if needed.
    pub fn shared(label: &str) -> Self {
        static STORES: Mutex<Option<HashMap<String, Weak<Mutex<State>>>>> = Mutex::new(None);
        let mut stores = STORES.lock();
        let stores = stores.get_or_insert_default();
        stores.retain(|_, store| store.strong_count() > 0);
        let found = stores.get(label).and_then(Weak::upgrade);
        let store = found.unwrap_or_default();
        stores.insert(label.to_owned(), Arc::downgrade(&store));
        Self::join(store)
    }

    /// Opens another client of the same store, as another process would.
    pub fn another(&self) -> Self {
        Self::join(Arc::clone(&self.shared))
    }

    fn join(shared: Arc<Mutex<State>>) -> Self {
        let (sender, inbox) = mpsc::unbounded_channel();
        let session = random_u128().max(NOBODY + 1);
        shared.lock().inboxes.insert(session, sender);
        Self {
            session,
            shared,
            inbox: tokio::sync::Mutex::new(inbox),
        }
    }

    /// Changes one name's ledger, and notifies every client that it concerns.
    fn change<T>(&self, name: &Name, change: impl FnOnce(&mut Ledger, &mut Moment<'_>) -> T) -> T {
        self.shared.lock().change(self.session, name, change)
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Driver for Memory {
    fn kind(&self) -> &'static str {
        "memory"
    }

    fn clock(&self) -> Clock {
        Clock::Tokio
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::all()
    }

    async fn acquire(&self, claim: &Claim) -> Result<Answer> {
        self.change(&claim.name, |ledger, at| ledger.acquire(claim, at))
            .map_err(|_| Error::ModeConflict {
                name: claim.name.clone(),
            })
    }

    async fn withdraw(&self, claim: &Claim) -> Result<()> {
        self.change(&claim.name, |ledger, at| ledger.withdraw(claim, at));
        Ok(())
    }

    async fn renew(&self, renewals: &[Renewal]) -> Result<Vec<Renewed>> {
        let renew =
            |renewal: &Renewal| self.change(&renewal.name, |ledger, at| ledger.renew(renewal, at));
        Ok(renewals.iter().map(renew).collect())
    }

    async fn release(&self, release: &Release) -> Result<Released> {
        Ok(self.change(&release.name, |ledger, at| ledger.release(release, at)))
    }

    async fn news(&self) -> News {
        let mut inbox = self.inbox.lock().await;
        match inbox.recv().await {
            Some(news) => news,
            // The sender lives in the shared store, which this client keeps alive.
            None => std::future::pending().await,
        }
    }

    async fn list(&self, only: Option<&Name>) -> Result<Vec<Entry>> {
        let state = self.shared.lock();
        let now = state.now();
        let wanted = state
            .ledgers
            .iter()
            .filter(|(name, _)| only.is_none_or(|only| only == *name));
        let entries = wanted
            .map(|(name, ledger)| ledger.entry(name.clone(), now))
            .filter(|entry| !entry.is_empty());
        Ok(entries.collect())
    }

    async fn evict(&self, name: &Name) -> Result<Vec<Holder>> {
        Ok(self.change(name, Ledger::evict))
    }

    /// No request runs in the background.
    async fn settled(&self) {}
}

impl Drop for Memory {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.inboxes.remove(&self.session);
        let names: Vec<_> = state.ledgers.keys().cloned().collect();
        for name in names {
            state.change(self.session, &name, |ledger, at| {
                ledger.forget(at.session, at)
            });
        }
    }
}

/// What all clients of one store share.
#[derive(Debug)]
struct State {
    started: Instant,
    /// The clock of this store, if it is not Tokio's.
    clock: Option<Arc<dyn TimeSource>>,
    /// Sorted for listing, and so that a sweep can continue where the last one ended.
    ledgers: BTreeMap<Name, Ledger>,
    changes: usize,
    swept: Option<Name>,
    fences: Counter,
    inboxes: BTreeMap<Session, mpsc::UnboundedSender<News>>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            clock: None,
            ledgers: BTreeMap::new(),
            changes: 0,
            swept: None,
            fences: Counter(0),
            inboxes: BTreeMap::new(),
        }
    }
}

impl State {
    fn change<T>(
        &mut self,
        session: Session,
        name: &Name,
        change: impl FnOnce(&mut Ledger, &mut Moment<'_>) -> T,
    ) -> T {
        let now = self.now();
        let mut notices = Vec::new();
        let fences = &mut self.fences;
        let mut at = Moment {
            session,
            now,
            fences,
            notices: &mut notices,
        };
        let mut ledger = self.ledgers.remove(name).unwrap_or_default();
        let answer = change(&mut ledger, &mut at);
        if !ledger.is_empty() {
            self.ledgers.insert(name.clone(), ledger);
        }
        for Notice {
            session,
            claim,
            what,
        } in notices
        {
            if let Some(inbox) = self.inboxes.get(&session) {
                // A closed inbox belongs to a client that is being dropped and no longer reads.
                let _ = inbox.send(ledger::news(name.clone(), &claim, what));
            }
        }
        self.changes += 1;
        if self.changes.is_multiple_of(SWEEP_EVERY) {
            self.sweep(now);
        }
        answer
    }

    /// Removes the next few ledgers whose leases have expired and that nobody asked for again.
    fn sweep(&mut self, now: Nanos) {
        let from = match self.swept.take() {
            Some(swept) => Bound::Excluded(swept),
            None => Bound::Unbounded,
        };
        let next = self.ledgers.range((from, Bound::Unbounded)).take(SWEEP);
        let seen: Vec<_> = next
            .map(|(name, ledger)| (name.clone(), ledger.is_over(now)))
            .collect();
        if seen.len() == SWEEP {
            self.swept = seen.last().map(|(name, _)| name.clone());
        }
        for (name, _) in seen.iter().filter(|(_, is_over)| *is_over) {
            self.ledgers.remove(name);
        }
    }

    fn now(&self) -> Nanos {
        let now = match &self.clock {
            Some(clock) => clock.now(),
            None => self.started.elapsed(),
        };
        u64::try_from(now.as_nanos()).unwrap_or(Nanos::MAX)
    }
}

/// The fences of all names: one number that grows with every grant.
#[derive(Debug)]
struct Counter(u64);

impl Fences for Counter {
    fn reserve(&mut self, count: u32) -> Fence {
        let first = self.0 + 1;
        self.0 += u64::from(count);
        Fence::new(first).unwrap_or_else(|| unreachable!("one more than a number is not 0"))
    }
}

/// How many changes pass between two sweeps.
const SWEEP_EVERY: usize = 256;

/// How many ledgers a sweep visits: more than changes can have created since the last one, so that
/// sweeps keep up with a program that uses a new name for each lease and never releases it.
const SWEEP: usize = 4 * SWEEP_EVERY;

/// Reports the one risk of locks in memory: they end with the process.
#[cfg(feature = "doctor")]
pub(crate) fn doctor() -> Vec<Finding> {
    vec![Check("process").warning(
        "nothing outlives the process, and no other process sees it",
        "use local: for processes of one machine, or redis:// for several",
    )]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    use crate::name::ClaimId;

    #[tokio::test(start_paused = true)]
    async fn leases_that_expire_unasked_for_leave_nothing() {
        let store = Memory::new();
        for number in 0..20_000 {
            store.acquire(&claim(number)).await.unwrap();
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        let kept = store.shared.lock().ledgers.len();
        assert!(kept < 1_000, "{kept} ledgers, of which 100 are alive");
    }

    #[tokio::test(start_paused = true)]
    async fn a_sweep_keeps_what_is_held_or_waited_for() {
        let store = Memory::new();
        let other = store.another();
        let held = claim(0);
        store.acquire(&held).await.unwrap();
        let waiting = claim(0).with_id(ClaimId::unique());
        other.acquire(&waiting).await.unwrap();
        tokio::time::advance(held.ttl).await;
        let alive = claim(1).with_ttl(Duration::from_secs(60));
        store.acquire(&alive).await.unwrap();
        for number in 2..2_000 {
            store.acquire(&claim(number)).await.unwrap();
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        let first = store.list(Some(&held.name)).await.unwrap();
        let second = store.list(Some(&alive.name)).await.unwrap();
        assert_eq!(first[0].waiters.len(), 1);
        assert_eq!(second[0].holders.len(), 1);
    }

    fn claim(number: u32) -> Claim {
        Claim::new(
            Name::new(&format!("order:{number}")).unwrap(),
            Duration::from_millis(100),
        )
    }
}

//! One transaction on the state: ledgers by name, the next fence, and letters for afterwards.

use std::marker::PhantomData;
use std::ops::Bound;

use heed::RwTxn;

use crate::error::{Error, Result};
use crate::name::{Fence, Name};
use crate::store::ledger::{Fences, Ledger, Moment, Nanos, Session};
use crate::store::local::folder::LOCK_FILE;
use crate::store::local::gate::Section;
use crate::store::local::inbox::Letter;
use crate::store::local::state::State;
use crate::store::local::{KIND, fault, fence};

/// The next fence and the durable ceiling.
///
/// Names have no control characters, so keys that begin with one are ours.
pub(super) const FENCE: &[u8] = b"\0fence";

/// The inode of the lock file that the processes of this state use, so that a second lock file is
/// noticed.
pub(super) const LOCK: &[u8] = b"\0lock";

/// The last name that the sweep visited.
const SWEEP: &[u8] = b"\0sweep";

/// How many changes pass between two sweeps on average.
///
/// A sweep visits twice as many ledgers, two for each that a change may leave behind, so that
/// expired ledgers never outnumber the others.
const SWEEP_EVERY: u32 = 64;
const SWEEP_LEDGERS: usize = 128;

/// The size of a typical ledger.
const LEDGER_BYTES: usize = 512;

/// An open transaction; dropped without [`commit`](Self::commit), it changes nothing.
pub(super) struct Transaction<'a> {
    state: &'a State,
    _alone: PhantomData<&'a Section>,
    txn: RwTxn<'a>,
    session: Session,
    now: Nanos,
    fences: Counter,
    letters: Vec<Letter>,
    dirty: bool,
}

/// A page of ledgers.
#[derive(Debug)]
pub(super) struct Page {
    /// The ledgers that match.
    pub(super) found: Vec<(Name, Ledger)>,
    /// The name after which to continue; `None` at the end.
    pub(super) next: Option<Name>,
}

impl<'a> Transaction<'a> {
    /// Begins a change on behalf of a session.
    pub(super) fn begin(state: &'a State, _alone: &'a Section, session: Session) -> Result<Self> {
        let txn = state.db.env.write_txn();
        let txn = txn.map_err(|error| state.fault(error))?;
        let mut change = Self {
            state,
            _alone: PhantomData,
            txn,
            session,
            now: state.clock.now(),
            fences: Counter::default(),
            letters: Vec::new(),
            dirty: false,
        };
        let fences = change.value(FENCE)?.and_then(Counter::read);
        change.fences = fences.ok_or_else(|| state.damaged(&"the next fence is missing"))?;
        if change.value(LOCK)? != Some(&state.lock) {
            return Err(state.lost(&state.folder.path().join(LOCK_FILE)));
        }
        Ok(change)
    }

    pub(super) fn now(&self) -> Nanos {
        self.now
    }

    /// Changes one name's ledger; deletes it if it becomes empty.
    pub(super) fn name<T>(
        &mut self,
        name: &Name,
        change: impl FnOnce(&mut Ledger, &mut Moment<'_>) -> T,
    ) -> Result<T> {
        let key = name.as_str().as_bytes();
        let (mut ledger, existed) = match self.value(key)? {
            Some(bytes) => (self.ledger(bytes)?, true),
            None => (Ledger::default(), false),
        };
        let mut notices = Vec::new();
        let mut at = Moment {
            session: self.session,
            now: self.now,
            fences: &mut self.fences,
            notices: &mut notices,
        };
        let answer = change(&mut ledger, &mut at);
        self.letters
            .extend(notices.into_iter().map(|notice| Letter {
                name: name.clone(),
                notice,
            }));
        if !ledger.is_empty() {
            self.store(key, &ledger)?;
        } else if existed {
            self.dirty = true;
            let deleted = self.state.db.table.delete(&mut self.txn, key);
            deleted.map_err(|error| self.state.fault(error))?;
        }
        Ok(answer)
    }

    /// Removes a session that has ended, wherever it holds or waits.
    pub(super) fn forget(&mut self, gone: Session) -> Result<()> {
        let of_the_gone = |ledger: &Ledger| ledger.sessions().any(|session| session == gone);
        let page = self.page(None, usize::MAX, of_the_gone)?;
        for (name, _) in page.found {
            self.name(&name, |ledger, at| ledger.forget(gone, at))?;
        }
        Ok(())
    }

    /// Reads up to `count` ledgers after a name, and returns those that are `wanted`.
    pub(super) fn page(
        &self,
        after: Option<&Name>,
        count: usize,
        wanted: impl Fn(&Ledger) -> bool,
    ) -> Result<Page> {
        // Names begin after the control characters, and therefore after our own keys.
        let from: &[u8] = after.map_or(b"\x1f", |name| name.as_str().as_bytes());
        let range = (Bound::Excluded(from), Bound::Unbounded);
        let rows = self.state.db.table.range(&self.txn, &range);
        let mut page = Page {
            found: Vec::new(),
            next: None,
        };
        for (seen, row) in rows.map_err(|error| self.state.fault(error))?.enumerate() {
            let (key, value) = row.map_err(|error| self.state.fault(error))?;
            let name = str::from_utf8(key)
                .ok()
                .and_then(|text| Name::new(text).ok());
            let name = name.ok_or_else(|| self.state.damaged(&"a key is not a name"))?;
            let ledger = self.ledger(value)?;
            if seen + 1 == count {
                page.next = Some(name.clone());
            }
            if wanted(&ledger) {
                page.found.push((name, ledger));
            }
            if page.next.is_some() {
                break;
            }
        }
        Ok(page)
    }

    /// Removes what has expired in the next few ledgers, so that unused names do not accumulate.
    pub(super) fn sweep(&mut self) -> Result<()> {
        let cursor = self.value(SWEEP)?.and_then(|key| str::from_utf8(key).ok());
        let cursor = cursor.and_then(|text| Name::new(text).ok());
        let now = self.now;
        let page = self.page(cursor.as_ref(), SWEEP_LEDGERS, |ledger| ledger.is_due(now))?;
        for (name, _) in page.found {
            self.name(&name, Ledger::settle)?;
        }
        if page.next != cursor {
            let next = page.next.as_ref().map_or("", Name::as_str);
            self.put(SWEEP, next.as_bytes())?;
        }
        Ok(())
    }

    /// Commits the change, and returns the letters to send once the section is left.
    ///
    /// # Errors
    ///
    /// [`Indeterminate`](Error::Indeterminate) if the change may have been made, others if not.
    pub(super) fn commit(mut self) -> Result<Vec<Letter>> {
        if self.dirty && fastrand::u32(..SWEEP_EVERY) == 0 {
            match self.sweep() {
                // A caller that asks for the damaged name gets the error; others are not affected.
                Err(error @ Error::Damaged { .. }) => tracing::warn!(%error, "not swept"),
                swept => swept?,
            }
        }
        self.put_fences()?;
        if !self.dirty {
            return Ok(self.letters);
        }
        let change = self.txn.id();
        let Err(error) = self.txn.commit() else {
            return Ok(self.letters);
        };
        // Nobody else can have changed anything since, so the file itself shows the outcome.
        if self.state.db.env.info().last_txn_id < change {
            return Err(self.state.fault(error));
        }
        Err(Error::indeterminate(KIND, error))
    }

    /// Stores the next fence, which stays below the ceiling on disk.
    fn put_fences(&mut self) -> Result<()> {
        if self.fences.next == self.fences.first {
            return Ok(());
        }
        if self.fences.next > self.fences.ceiling {
            self.fences.ceiling = fence::raise(&self.state.folder, self.fences.next)?;
        }
        let fences = self.fences.write();
        self.put(FENCE, &fences)
    }

    /// Writes a ledger back, unless it is unchanged.
    fn store(&mut self, key: &[u8], ledger: &Ledger) -> Result<()> {
        let bytes = postcard::to_extend(ledger, Vec::with_capacity(LEDGER_BYTES));
        let bytes = bytes.map_err(|error| fault::unavailable(error.to_string()))?;
        if self.value(key)? == Some(bytes.as_slice()) {
            return Ok(());
        }
        self.put(key, &bytes)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.dirty = true;
        let put = self.state.db.table.put(&mut self.txn, key, value);
        put.map_err(|error| self.state.fault(error))
    }

    fn value(&self, key: &[u8]) -> Result<Option<&[u8]>> {
        let value = self.state.db.table.get(&self.txn, key);
        value.map_err(|error| self.state.fault(error))
    }

    fn ledger(&self, bytes: &[u8]) -> Result<Ledger> {
        let ledger = postcard::from_bytes(bytes);
        ledger.map_err(|_| self.state.damaged(&"a lock's record is malformed"))
    }
}

/// The fences of all names: one number that grows with every grant.
#[derive(Debug, Default)]
pub(super) struct Counter {
    /// The next fence when the change began.
    first: u64,
    /// The next fence now.
    next: u64,
    /// The first fence that may be issued only after the ceiling on disk was raised.
    ceiling: u64,
}

impl Counter {
    pub(super) fn new(next: u64, ceiling: u64) -> Self {
        Self {
            first: next,
            next,
            ceiling,
        }
    }

    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let (next, ceiling) = bytes.split_first_chunk::<8>()?;
        let ceiling = ceiling.try_into().ok()?;
        let (next, ceiling) = (u64::from_le_bytes(*next), u64::from_le_bytes(ceiling));
        Some(Self::new(next, ceiling))
    }

    pub(super) fn write(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.next.to_le_bytes());
        bytes[8..].copy_from_slice(&self.ceiling.to_le_bytes());
        bytes
    }
}

impl Fences for Counter {
    fn reserve(&mut self, count: u32) -> Fence {
        let first = self.next.max(1);
        self.next = first.saturating_add(u64::from(count));
        Fence::new(first).unwrap_or_else(|| unreachable!("at least 1"))
    }
}

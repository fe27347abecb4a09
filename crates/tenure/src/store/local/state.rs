//! The state of one directory, shared by all clients of this process.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use rustix::fs::{AtFlags, FallocateFlags, StatxFlags, fallocate, statx};
use tokio::sync::SetOnce;

use crate::error::{Error, Result};
use crate::store::ledger::Session;
use crate::store::local::boot_clock::BootClock;
use crate::store::local::folder::{Folder, LOCK_FILE};
use crate::store::local::gate::{Gate, PATIENCE, Section};
use crate::store::local::inbox::{Letter, Outbox};
use crate::store::local::raw::Opened;
use crate::store::local::transaction::{Counter, FENCE, LOCK, Transaction};
use crate::store::local::{fault, fence, lmdb_check, presence, raw};
use crate::sync::Mutex;

/// Reserved on disk for the state, so that releases still work when the disk is full.
const RESERVED_BYTES: u64 = 1 << 20;

/// One open directory.
#[derive(Debug)]
pub(super) struct State {
    pub(super) folder: Folder,
    pub(super) db: Opened,
    pub(super) clock: BootClock,
    /// The inode of the lock file, as recorded in the state.
    pub(super) lock: [u8; 8],
    /// Set for good once the directory is deleted, moved or replaced: all leases are lost.
    pub(super) gone: SetOnce<()>,
    gate: Gate,
    outbox: Outbox,
    /// The state file, and the largest size seen so far.
    file: File,
    size: AtomicU64,
    path: PathBuf,
}

impl State {
    /// Opens the directory's state, or shares it with the other clients of this process.
    ///
    /// Blocks on disk I/O, and while others make changes.
    pub(super) fn open(path: &Path) -> Result<Arc<Self>> {
        /// One mapping, one lock file and one outbox for all clients.
        static OPEN: Mutex<Option<HashMap<PathBuf, Weak<State>>>> = Mutex::new(None);
        let folder = Folder::open(path)?;
        let mut open = OPEN.lock();
        let open = open.get_or_insert_default();
        open.retain(|_, state| state.strong_count() > 0);
        let found = open.get(folder.path()).and_then(Weak::upgrade);
        if let Some(state) = found.filter(|state| !state.is_inherited()) {
            state.refuse_moved()?;
            return Ok(state);
        }
        let key = folder.path().to_owned();
        let state = Arc::new(Self::open_first(folder)?);
        open.insert(key, Arc::downgrade(&state));
        Ok(state)
    }

    fn open_first(folder: Folder) -> Result<Self> {
        let lock = folder.lock_file()?;
        let inode = lock.metadata().map_or(0, |found| found.ino());
        let gate = Gate::new(lock);
        let section = gate.enter_within(PATIENCE);
        let section = section.map_err(|error| refused(folder.path(), &error))?;
        let file = make(&folder, &section)?;
        let path = folder.state();
        lmdb_check::whole(&file, &path)?;
        let db = raw::open(&file, &section).map_err(|error| fault::lmdb(&path, error))?;
        let state = Self {
            folder,
            db,
            clock: BootClock::find()?,
            lock: inode.to_le_bytes(),
            gone: SetOnce::new(),
            gate,
            outbox: Outbox::default(),
            file,
            size: AtomicU64::new(0),
            path,
        };
        state.refuse_second_lock(&section)?;
        drop(section);
        Ok(state)
    }

    /// Waits until nobody else reads or changes the state.
    pub(super) async fn enter(&self) -> Result<Section> {
        let entered = self.gate.enter().await;
        self.entered(entered)
    }

    /// Does the same on a thread that may block.
    pub(super) fn enter_within(&self, patience: Duration) -> Result<Section> {
        self.entered(self.gate.enter_within(patience))
    }

    /// Refuses a section of a state that was deleted or truncated.
    ///
    /// Reading beyond the end of a mapped file kills the process.
    fn entered(&self, entered: io::Result<Section>) -> Result<Section> {
        let section = entered.map_err(|error| refused(self.folder.path(), &error))?;
        // Times are not requested: once they were queried, the kernel records a finer one at the next
        // write, which costs more than the rest of a change.
        let wanted = StatxFlags::NLINK | StatxFlags::SIZE;
        let found = statx(&self.file, c"", AtFlags::EMPTY_PATH, wanted);
        let found = found.map_err(|error| fault::io(&self.path, &error.into()))?;
        if found.stx_nlink == 0 || self.gone.initialized() {
            return Err(self.lost(&self.path));
        }
        let size = found.stx_size;
        if size < self.size.fetch_max(size, Ordering::Relaxed) {
            return Err(self.damaged(&"it was truncated"));
        }
        Ok(section)
    }

    /// Returns whether this is the copy of a forked child.
    pub(super) fn is_inherited(&self) -> bool {
        self.gate.is_inherited()
    }

    /// Makes one change, leaves the section, and returns the letters to send.
    pub(super) fn change<T>(
        &self,
        section: Section,
        session: Session,
        change: impl FnOnce(&mut Transaction<'_>) -> Result<T>,
    ) -> Result<(T, Vec<Letter>)> {
        let mut going = Transaction::begin(self, &section, session)?;
        let answer = change(&mut going)?;
        Ok((answer, going.commit()?))
    }

    /// Sends letters.
    ///
    /// A receiver that turns out to be dead is removed, and what was granted to it goes to the next in
    /// line.
    pub(super) async fn send(&self, letters: Vec<Letter>) {
        let gone = self.outbox.send(&self.folder, &letters);
        // The kernel expects a sender to sleep soon, and schedules the receiver on its processor.
        std::thread::yield_now();
        if gone.is_empty() {
            return;
        }
        if let Err(error) = self.bury(gone).await {
            tracing::warn!(%error, "a dead client is not forgotten yet, its leases end by their ttl");
        }
    }

    /// Removes those of the sessions that are dead; returns how many.
    pub(super) async fn bury(&self, suspects: Vec<Session>) -> Result<usize> {
        let mut buried = 0;
        let mut suspects = suspects;
        // The loop ends, because each round but the last removes the files of a dead client.
        while !suspects.is_empty() {
            let section = self.enter().await?;
            let (dead, letters) = self.bury_in(section, &suspects)?;
            buried += dead;
            suspects = self.outbox.send(&self.folder, &letters);
        }
        Ok(buried)
    }

    /// Does the same on a thread that may block, for a client that ends.
    pub(super) fn bury_within(&self, patience: Duration, session: Session) -> Result<()> {
        let section = self.enter_within(patience)?;
        let (_, letters) = self.change(section, session, |change| change.forget(session))?;
        let mut suspects = self.outbox.send(&self.folder, &letters);
        while !suspects.is_empty() {
            let section = self.enter_within(patience)?;
            let (_, letters) = self.bury_in(section, &suspects)?;
            suspects = self.outbox.send(&self.folder, &letters);
        }
        Ok(())
    }

    fn bury_in(&self, section: Section, suspects: &[Session]) -> Result<(usize, Vec<Letter>)> {
        let dead = self.dead_among(suspects.iter().copied());
        if dead.is_empty() {
            return Ok((0, Vec::new()));
        }
        let mut change = Transaction::begin(self, &section, dead[0])?;
        self.forget(&mut change, &dead)?;
        Ok((dead.len(), change.commit()?))
    }

    /// Removes dead sessions within an open transaction, and deletes their files.
    pub(super) fn forget(&self, change: &mut Transaction<'_>, dead: &[Session]) -> Result<()> {
        for session in dead {
            change.forget(*session)?;
            self.folder.remove_client(*session);
        }
        tracing::info!(count = dead.len(), "forgot clients that have ended");
        Ok(())
    }

    /// Returns the sessions that are dead; called only in a section.
    pub(super) fn dead_among(&self, sessions: impl Iterator<Item = Session>) -> Vec<Session> {
        sessions
            .filter(|session| presence::is_dead(&self.folder, *session))
            .collect()
    }

    /// Maps a fault of LMDB before the commit.
    pub(super) fn fault(&self, error: heed::Error) -> Error {
        fault::lmdb(&self.path, error)
    }

    pub(super) fn damaged(&self, what: &dyn std::fmt::Display) -> Error {
        fault::damaged_state(&self.path, what)
    }

    /// Returns an error if the directory's path leads elsewhere or nowhere.
    pub(super) fn refuse_moved(&self) -> Result<()> {
        let found = self.folder.is_found_with(&self.file);
        match found.map_err(|error| fault::io(&self.path, &error))? {
            true => Ok(()),
            false => Err(self.lost(&self.path)),
        }
    }

    /// Returns an error if the lock file was replaced while others lock the old one.
    fn refuse_second_lock(&self, section: &Section) -> Result<()> {
        let mut change = self.db.env.write_txn().map_err(|error| self.fault(error))?;
        let known = self.db.table.get(&change, LOCK);
        let known = known.map_err(|error| self.fault(error))?;
        if known == Some(&self.lock) {
            return Ok(());
        }
        if known.is_some() {
            refuse_if_in_use(&self.folder, section, &self.folder.path().join(LOCK_FILE))?;
        }
        let put = self.db.table.put(&mut change, LOCK, &self.lock);
        put.map_err(|error| self.fault(error))?;
        change.commit().map_err(|error| self.fault(error))
    }

    /// Marks all leases as lost, and returns the error.
    ///
    /// A file of the directory is not the one that others use, so others may be granted what is held
    /// here.
    pub(super) fn lost(&self, file: &Path) -> Error {
        // It may have been set before.
        let _ = self.gone.set(());
        replaced(file)
    }
}

/// Creates what is missing in the directory; returns the state file.
fn make(folder: &Folder, section: &Section) -> Result<File> {
    let made = folder.format()?;
    let found = folder.state_file()?;
    let ceiling = fence::read(folder)?;
    if made.is_some() && ceiling.is_none() {
        return Err(fence::lost(folder, "is missing"));
    }
    let file = match found {
        Some(file) => file,
        None => {
            refuse_if_in_use(folder, section, &folder.state())?;
            folder.remove_earlier_boots()?;
            let next = ceiling.unwrap_or(1);
            let fences = Counter::new(next, fence::raise(folder, next)?);
            folder.make_state(|file| fill(file, section, &fences))?
        }
    };
    if made.is_none() {
        folder.write_format()?;
    }
    Ok(file)
}

/// Writes a new state.
fn fill(file: &File, alone: &Section, fences: &Counter) -> heed::Result<()> {
    match fallocate(file, FallocateFlags::KEEP_SIZE, 0, RESERVED_BYTES) {
        Ok(()) | Err(rustix::io::Errno::OPNOTSUPP) => {}
        Err(error) => return Err(io::Error::from(error).into()),
    }
    let db = raw::open(file, alone)?;
    let mut change = db.env.write_txn()?;
    db.table.put(&mut change, FENCE, &fences.write())?;
    change.commit()
}

/// Refuses a file that is missing or new although live clients use it.
fn refuse_if_in_use(folder: &Folder, _alone: &Section, path: &Path) -> Result<()> {
    let sessions = presence::sessions(folder).map_err(|error| fault::io(folder.path(), &error))?;
    let mut sessions = sessions.into_iter();
    if sessions.all(|session| presence::is_dead(folder, session)) {
        return Ok(());
    }
    Err(replaced(path))
}

fn replaced(path: &Path) -> Error {
    fault::damaged(format!(
        "{} was deleted or replaced while programs use it: stop them, then start again",
        path.display()
    ))
}

fn refused(folder: &Path, error: &io::Error) -> Error {
    if error.kind() != io::ErrorKind::TimedOut {
        return fault::io(folder, error);
    }
    fault::unavailable(format!(
        "another process is stopped in the middle of a change of {}: find the stopped program, and \
         continue or kill it",
        folder.display()
    ))
}

//! Lets in one at a time: a flag among the tasks of this process, a file lock among processes.

use std::fs::{File, TryLockError};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, oneshot};

use crate::fork::Origin;

/// How long to wait for others. A change takes microseconds, so who takes longer stands still.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// How often to try before a wait: some tens of microseconds, longer than a change takes.
const TRIES: u32 = 100;

/// The entrance to the state: both locks are taken before it is read or changed.
#[derive(Debug)]
pub(super) struct Gate(Arc<Locks>);

/// A file lock belongs to the open file, so that the tasks which share it need one of their own.
///
/// That one is not handed from task to task: whoever runs when it is free may take it. A change
/// is much shorter than waking the next in line, which everybody else would have to wait for.
#[derive(Debug)]
struct Locks {
    taken: AtomicBool,
    freed: Notify,
    file: File,
    /// A forked child has the same open file, and so the same lock.
    origin: Origin,
}

/// The time in which nobody else reads or changes the state; it ends when dropped.
#[derive(Debug)]
pub(super) struct Section(Turn);

/// The time in which no other task of this process tries the file lock.
#[derive(Debug)]
struct Turn(Arc<Locks>);

impl Gate {
    pub(super) fn new(file: File) -> Self {
        Self(Arc::new(Locks {
            taken: AtomicBool::new(false),
            freed: Notify::new(),
            file,
            origin: Origin::here(),
        }))
    }

    /// Whether this is the copy of a forked child, which lets nobody in.
    pub(super) fn is_inherited(&self) -> bool {
        !self.0.origin.is_here()
    }

    /// Waits for the others, for [`PATIENCE`] at the longest.
    ///
    /// The common case neither waits nor leaves the thread. A longer wait never blocks the
    /// caller's thread, because the one inside may have been stopped for good.
    ///
    /// # Errors
    ///
    /// [`TimedOut`](io::ErrorKind::TimedOut) if another process stands still inside; another kind
    /// in a forked child.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a section that comes too late is left again at once.
    pub(super) async fn enter(&self) -> io::Result<Section> {
        for count in 0..TRIES {
            if let Some(section) = self.try_enter()? {
                return Ok(section);
            }
            rest(count);
        }
        match tokio::time::timeout(PATIENCE, self.wait()).await {
            Ok(entered) => entered,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Enters from a thread that may block, for `patience` at the longest.
    pub(super) fn enter_within(&self, patience: Duration) -> io::Result<Section> {
        let begun = Instant::now();
        let mut count = 0;
        loop {
            if let Some(section) = self.try_enter()? {
                return Ok(section);
            }
            if begun.elapsed() > patience {
                return Err(io::ErrorKind::TimedOut.into());
            }
            if count < TRIES {
                rest(count);
                count += 1;
            } else {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    }

    fn try_enter(&self) -> io::Result<Option<Section>> {
        match self.try_turn()? {
            Some(turn) => Ok(turn.try_lock()?.ok()),
            None => Ok(None),
        }
    }

    fn try_turn(&self) -> io::Result<Option<Turn>> {
        if self.is_inherited() {
            return Err(io::Error::other(
                "this process was forked from the one that opened it, open it anew here",
            ));
        }
        let was_taken = self.0.taken.swap(true, Ordering::Acquire);
        Ok((!was_taken).then(|| Turn(Arc::clone(&self.0))))
    }

    /// Waits for the tasks of this process, then for other processes.
    async fn wait(&self) -> io::Result<Section> {
        let mut turn = loop {
            match self.try_turn()? {
                Some(turn) => break turn,
                // Not missed if it happened just now: the notice is kept for the next who waits.
                None => self.0.freed.notified().await,
            }
        };
        for count in 0..TRIES {
            turn = match turn.try_lock()? {
                Ok(section) => return Ok(section),
                Err(turn) => turn,
            };
            rest(count);
        }
        turn.lock_on_a_thread().await
    }
}

impl Turn {
    /// Takes the file lock if it is free; gives the turn back if not.
    fn try_lock(self) -> io::Result<Result<Section, Self>> {
        match self.0.file.try_lock() {
            Ok(()) => Ok(Ok(Section(self))),
            Err(TryLockError::WouldBlock) => Ok(Err(self)),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn lock(self) -> io::Result<Section> {
        loop {
            match self.0.file.lock() {
                Ok(()) => return Ok(Section(self)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits in the kernel, on a thread of its own.
    ///
    /// The thread is not one of the runtime's: a runtime that shuts down waits for its blocking
    /// threads, and this one may wait for a stopped process. There is at most one, because it
    /// has the turn, and it ends as soon as it has the lock, wanted or not.
    async fn lock_on_a_thread(self) -> io::Result<Section> {
        let (entered, result) = oneshot::channel();
        let thread = std::thread::Builder::new().name("tenure-local".to_owned());
        thread.spawn(move || {
            // If nobody waits any more, the section comes back and ends here.
            let _ = entered.send(self.lock());
        })?;
        let gone = |_| Err(io::ErrorKind::Interrupted.into());
        result.await.unwrap_or_else(gone)
    }
}

impl Drop for Section {
    fn drop(&mut self) {
        let locks = &self.0.0;
        if locks.origin.is_here() {
            // Fails only for a file that is no file; the lock would end with it.
            let _ = locks.file.unlock();
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.taken.store(false, Ordering::Release);
        self.0.freed.notify_one();
    }
}

/// Spins at first; then lets others have the processor, as the one inside may need it.
fn rest(count: u32) {
    if count < TRIES / 2 {
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
}

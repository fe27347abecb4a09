//! Mutual exclusion: a flag among the tasks of this process, a file lock among processes.

use std::fs::{File, TryLockError};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, oneshot};

use crate::fork::Origin;

/// How long to wait for others: a change takes microseconds, so a process that takes longer is stopped.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// How often to try before sleeping. The tries last tens of microseconds, longer than a change takes.
const TRIES: u32 = 100;

/// Guards the state: both locks are taken before it is read or changed.
#[derive(Debug)]
pub(super) struct Gate(Arc<Locks>);

/// The lock among processes, and the one among the tasks of this process.
///
/// A file lock belongs to the open file, so the tasks that share the file need their own lock. That
/// lock is not handed over from task to task: any running task may take it when it is free. A change is
/// much shorter than waking the next in line, which would make everybody else wait.
#[derive(Debug)]
struct Locks {
    taken: AtomicBool,
    freed: Notify,
    file: File,
    /// A forked child has the same open file, and so the same lock.
    origin: Origin,
}

/// A critical section: nobody else reads or changes the state until it is dropped.
#[derive(Debug)]
pub(super) struct Section(Turn);

/// The exclusive right of a task of this process to try the file lock.
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

    /// Returns whether this is the copy of a forked child, which must not be used.
    pub(super) fn is_inherited(&self) -> bool {
        !self.0.origin.is_here()
    }

    /// Waits for the others, for at most [`PATIENCE`].
    ///
    /// The common case neither waits nor leaves the thread. A longer wait never blocks the caller's
    /// thread, because the process inside may have been stopped for good.
    ///
    /// # Errors
    ///
    /// [`TimedOut`](io::ErrorKind::TimedOut) if another process is stopped inside; another kind in a
    /// forked child.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a section that arrives too late is left at once.
    pub(super) async fn enter(&self) -> io::Result<Section> {
        for count in 0..TRIES {
            if let Some(section) = self.try_enter()? {
                return Ok(section);
            }
            rest(count);
        }
        tokio::time::timeout(PATIENCE, self.wait()).await?
    }

    /// Enters from a thread that may block, for at most `patience`.
    pub(super) fn enter_within(&self, patience: Duration) -> io::Result<Section> {
        let begun = Instant::now();
        for count in 0.. {
            if let Some(section) = self.try_enter()? {
                return Ok(section);
            }
            if begun.elapsed() > patience {
                break;
            }
            rest(count);
        }
        Err(io::ErrorKind::TimedOut.into())
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
                "this process was forked from the one that opened it, open it again here",
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
                // A notification just now is not missed: its permit is kept for the next waiter.
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

    /// Waits in the kernel, on a separate thread.
    ///
    /// The thread is not one of the runtime's: a runtime that shuts down waits for its blocking
    /// threads, and this one may wait for a stopped process. There is at most one, because it has the
    /// turn, and it ends as soon as it has the lock, whether or not anybody still wants it.
    async fn lock_on_a_thread(self) -> io::Result<Section> {
        let (entered, result) = oneshot::channel();
        let thread = std::thread::Builder::new().name("tenure-local".to_owned());
        thread.spawn(move || {
            // If nobody waits any more, the section is returned and ends here.
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
            // Fails only for a bad descriptor, and then the lock has ended with it.
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

/// Spins at first, then yields the processor, which the holder of the lock may need, and finally
/// sleeps.
fn rest(count: u32) {
    if count < TRIES / 2 {
        std::hint::spin_loop();
    } else if count < TRIES {
        std::thread::yield_now();
    } else {
        std::thread::sleep(Duration::from_micros(200));
    }
}

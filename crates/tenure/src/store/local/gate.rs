//! Lets in one at a time: a mutex among the tasks of this process, a file lock among processes.

use std::fs::{File, TryLockError};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, OwnedMutexGuard, oneshot};

/// How long to wait for others. A change takes microseconds, so who takes longer stands still.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// How often to try before a wait: some tens of microseconds, longer than a change takes.
const TRIES: u32 = 100;

/// The entrance to the state: both locks are taken before it is read or changed.
#[derive(Debug)]
pub(super) struct Gate {
    file: Arc<Mutex<File>>,
}

/// The time in which nobody else reads or changes the state; it ends when dropped.
#[derive(Debug)]
pub(super) struct Section(OwnedMutexGuard<File>);

impl Gate {
    pub(super) fn new(file: File) -> Self {
        Self {
            file: Arc::new(Mutex::new(file)),
        }
    }

    /// Waits for the others, for [`PATIENCE`] at the longest.
    ///
    /// The common case neither waits nor leaves the thread. A longer wait never blocks the
    /// caller's thread, because the one inside may have been stopped for good.
    ///
    /// # Errors
    ///
    /// [`TimedOut`](io::ErrorKind::TimedOut) if another process stands still inside.
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
        while begun.elapsed() < patience {
            if let Some(section) = self.try_enter()? {
                return Ok(section);
            }
            if count < TRIES {
                rest(count);
                count += 1;
            } else {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    fn try_enter(&self) -> io::Result<Option<Section>> {
        let Ok(file) = Arc::clone(&self.file).try_lock_owned() else {
            return Ok(None);
        };
        match file.try_lock() {
            Ok(()) => Ok(Some(Section(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Waits in the kernel's line, on a thread of its own.
    ///
    /// The thread is not one of the runtime's: a runtime that shuts down waits for its blocking
    /// threads, and this one may wait for a stopped process. There is at most one, because it
    /// holds the mutex, and it ends as soon as it has the lock, wanted or not.
    async fn wait(&self) -> io::Result<Section> {
        let file = Arc::clone(&self.file).lock_owned().await;
        let (entered, result) = oneshot::channel();
        let thread = std::thread::Builder::new().name("tenure-local".to_owned());
        thread.spawn(move || {
            // If nobody waits any more, the section comes back and ends here.
            let _ = entered.send(lock(file));
        })?;
        result
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::Interrupted.into()))
    }
}

impl Drop for Section {
    fn drop(&mut self) {
        // Fails only for a file that is no file; the lock would end with it.
        let _ = self.0.unlock();
    }
}

fn lock(file: OwnedMutexGuard<File>) -> io::Result<Section> {
    loop {
        match file.lock() {
            Ok(()) => return Ok(Section(file)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
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

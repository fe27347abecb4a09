//! Which clients are alive: each holds a lock on its own file, which the kernel releases when the
//! client ends.
//!
//! The first byte of the file says whether a message to the client was lost (see `inbox`). Then come
//! the process id and the pid namespace, for clients that wait for its end.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::store::ledger::Session;
use crate::store::local::folder::{Folder, SOCKET_END, presence_name};

/// The presence of this client, as others see it.
#[derive(Debug)]
pub(super) struct Presence(File);

impl Presence {
    /// Creates the presence; the caller is in a section, so that nobody looks for dead clients now.
    pub(super) fn show(folder: &Folder, session: Session) -> io::Result<Self> {
        let (pid, namespace) = (std::process::id(), pid_namespace());
        let made = folder.clients.make_with(&presence_name(session), |file| {
            // Nobody else has the lock, unless the file was visible already; then this does not wait
            // for it.
            file.try_lock()?;
            file.write_all_at(format!("0 {pid} {namespace}\n").as_bytes(), 0)
        });
        made.map(Self)
    }

    /// Clears the flag that a message was lost, and returns whether it was set.
    pub(super) fn take_overflow(&self) -> bool {
        let mut flag = [0];
        let up = self.0.read_exact_at(&mut flag, 0).is_ok() && flag == *b"1";
        // If it cannot be cleared, the client asks once more than needed.
        up && self.0.write_all_at(b"0", 0).is_ok()
    }
}

/// Sets the flag that a message to the session was lost.
pub(super) fn raise_overflow(folder: &Folder, session: Session) -> io::Result<()> {
    let file = folder.clients.open_to_write(&presence_name(session))?;
    file.write_all_at(b"1", 0)
}

/// Returns whether the client has ended; one whose file cannot be read counts as alive.
///
/// The lock is tried in shared mode, so that two concurrent checks do not take each other for the
/// client.
pub(super) fn is_dead(folder: &Folder, session: Session) -> bool {
    match folder.clients.open_to_read(&presence_name(session)) {
        Ok(file) => is_unlocked(&file),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Returns the sessions that have a file here, alive or dead.
pub(super) fn sessions(folder: &Folder) -> io::Result<Vec<Session>> {
    let mut sessions = Vec::new();
    for file in folder.clients.names()? {
        let file = file.to_string_lossy();
        let stem = file.strip_suffix(SOCKET_END).unwrap_or(&file);
        sessions.extend(Session::from_str_radix(stem, 16));
    }
    sessions.sort_unstable();
    sessions.dedup();
    Ok(sessions)
}

/// How to notice the end of a client.
#[derive(Debug)]
pub(super) enum Sight {
    /// It has ended.
    Dead,
    /// This becomes readable when its process ends.
    Process(OwnedFd),
    /// It cannot be watched from here: it is in this process, or in another pid namespace.
    Hidden,
}

/// Finds the process of a client.
pub(super) fn sight(folder: &Folder, session: Session) -> io::Result<Sight> {
    let file = match folder.clients.open_to_read(&presence_name(session)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Sight::Dead),
        Err(error) => return Err(error),
    };
    let text = io::read_to_string((&file).take(LONGEST))?;
    let mut words = text.split_whitespace().skip(1);
    let pid: Option<i32> = words.next().and_then(|word| word.parse().ok());
    let namespace: Option<u64> = words.next().and_then(|word| word.parse().ok());
    let near = namespace == Some(pid_namespace());
    let Some(pid) = pid.filter(|_| near).and_then(Pid::from_raw) else {
        return Ok(Sight::Hidden);
    };
    if pid == rustix::process::getpid() {
        return Ok(Sight::Hidden);
    }
    let process = pidfd_open(pid, PidfdFlags::empty());
    // Checked only after the descriptor was opened: if the client is still alive, the pid was its own
    // at that time, and not that of a later process.
    if is_unlocked(&file) {
        return Ok(Sight::Dead);
    }
    match process {
        Ok(process) => Ok(Sight::Process(process)),
        Err(error) => Err(error.into()),
    }
}

fn is_unlocked(file: &File) -> bool {
    match file.try_lock_shared() {
        Ok(()) => true,
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => false,
    }
}

/// Returns the pid namespace of this process; 0 if unknown.
fn pid_namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |found| found.ino())
}

/// The largest presence file.
const LONGEST: u64 = 256;

//! Who is alive: each client holds a lock on a file of its own, which the kernel drops with it.
//!
//! The file's first byte says whether a message to the client was lost (see `inbox`); then come
//! the process and its pid namespace, for those who want to be told of its end.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::store::ledger::Session;
use crate::store::local::folder::{Folder, SOCKET_END, presence_name};

/// The lifetime of this client, as others see it.
#[derive(Debug)]
pub(super) struct Presence(File);

impl Presence {
    /// Shows up; nobody may look for the dead meanwhile, so the caller is in a section.
    pub(super) fn show(folder: &Folder, session: Session) -> io::Result<Self> {
        let (pid, namespace) = (std::process::id(), pid_namespace());
        let made = folder.clients.make_with(&presence_name(session), |file| {
            // Nobody else has the lock, unless the file was in sight; then nobody waits for it.
            file.try_lock()?;
            file.write_all_at(format!("0 {pid} {namespace}\n").as_bytes(), 0)
        });
        made.map(Self)
    }

    /// Takes down the flag that a message was lost, and returns whether it was up.
    pub(super) fn take_overflow(&self) -> bool {
        let mut flag = [0];
        let up = self.0.read_exact_at(&mut flag, 0).is_ok() && flag == *b"1";
        // Left up if it cannot be taken down: then the client asks once too often.
        up && self.0.write_all_at(b"0", 0).is_ok()
    }
}

/// Puts up the flag that a message to the session was lost.
pub(super) fn raise_overflow(folder: &Folder, session: Session) -> io::Result<()> {
    let file = folder.clients.open_to_write(&presence_name(session))?;
    file.write_all_at(b"1", 0)
}

/// Whether the client has ended. One that cannot be looked at counts as alive.
///
/// The lock is tried in shared mode, so that two who look at once do not take each other for the
/// client.
pub(super) fn is_dead(folder: &Folder, session: Session) -> bool {
    match folder.clients.open_to_read(&presence_name(session)) {
        Ok(file) => is_unlocked(&file),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// The sessions that have a file here, alive or dead.
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

/// How a client's end can be noticed.
#[derive(Debug)]
pub(super) enum Sight {
    /// It has ended.
    Dead,
    /// This becomes readable when its process ends.
    Process(OwnedFd),
    /// Not from here: it is a part of this process, or in another pid namespace.
    Hidden,
}

/// Looks for the process of a client.
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
    // Looked at only now: if the client still lives, the number was its own when the descriptor
    // was made, and not that of a later process.
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

/// The namespace in which this process's number means something; 0 if unknown.
fn pid_namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |found| found.ino())
}

/// No file of a client is longer.
const LONGEST: u64 = 256;

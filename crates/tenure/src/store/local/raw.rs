//! The only unsafe code of the store, with its proofs: LMDB maps a file, Tokio polls a descriptor.
#![allow(unsafe_code, reason = "proven below")]

use std::fs::{self, File};
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;

use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, WithoutTls};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{DupFlags, Errno, dup3};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::store::local::gate::Section;
use crate::store::local::safe_dir::descriptor;

/// Keys and values as they are in the file.
pub(super) type Table = Database<'static, Bytes, Bytes>;

/// The mapping's size: room in the address space, not on the disk.
const MAP_BYTES: usize = 4 << 30;

/// An open state file.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) env: Env<WithoutTls>,
    pub(super) table: Table,
    /// Heed identifies an environment by its path, which is that of this descriptor. It is closed after
    /// the environment, so that no other environment gets the same path.
    _stand_in: OwnedFd,
}

/// Opens a file and its one table, and creates them if the file is empty.
///
/// Two flags turn off parts of LMDB:
///
/// - `NO_LOCK`: nobody else reads or writes. Every transaction runs in a [`Section`], and there is at
///   most one at a time on this machine, in this process (a mutex) and across processes (a file lock).
///   So there are no readers whose pages a writer could reuse.
/// - `NO_SYNC`: a commit need not reach the disk. A process that dies leaves what it wrote in the page
///   cache. The last write of a commit is a part of one page, so others see all of it or nothing. What a
///   power cut leaves is never read: a file belongs to one boot.
///
/// Memory is still cleared before it is written (no `NO_MEM_INIT`): others may read the file.
///
/// LMDB opens files by their path and follows links, and child programs inherit its descriptor. So it
/// first opens a stand-in in memory, which nobody else can reach. Then its descriptors are replaced by
/// ours, which is close-on-exec from the beginning.
pub(super) fn open(file: &File, _alone: &Section) -> heed::Result<Opened> {
    let mut options = EnvOpenOptions::new().read_txn_without_tls();
    options.map_size(MAP_BYTES).max_dbs(0);
    // SAFETY: the proof above shows that the flags are safe.
    unsafe { options.flags(EnvFlags::NO_LOCK | EnvFlags::NO_SYNC | EnvFlags::NO_SUB_DIR) };
    let stand_in = File::from(memory()?);
    // SAFETY: nobody else has the stand-in, which is empty.
    let env = unsafe { options.open(descriptor(&stand_in))? };
    if file.metadata()?.len() == 0 {
        // LMDB has written this into an empty file.
        io::copy(&mut &stand_in, &mut &*file)?;
    }
    for copy in copies(&stand_in)? {
        // SAFETY: the descriptor is one of LMDB's, because nobody else has the stand-in. It stays open
        // for LMDB to close, and always refers to a file.
        let mut copy = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(copy) });
        dup3(file, &mut copy, DupFlags::CLOEXEC).map_err(io::Error::from)?;
    }
    // SAFETY: there is no transaction. This maps the file again, which is now ours. The file is changed
    // only through LMDB and only in a `Section`. It is on a local file system (see `folder.rs`), is
    // complete up to its last page, and has the page size that LMDB gives to an empty file (see
    // `lmdb_check.rs`). It is never truncated: our own code only replaces or deletes state files, which
    // leaves mappings intact.
    unsafe { env.resize(MAP_BYTES)? };
    let opening = env.write_txn()?;
    let table = env.create_databases_and_commit(opening, |open, change| {
        let table = open.create_database::<Bytes, Bytes>(change, None)?;
        Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(table))
    })?;
    Ok(Opened {
        env,
        table: table.unwrap_commit(),
        _stand_in: stand_in.into(),
    })
}

/// Creates a file in memory.
fn memory() -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC;
    match memfd_create("tenure", flags | MemfdFlags::NOEXEC_SEAL) {
        // A kernel before 6.3.
        Err(Errno::INVAL) => Ok(memfd_create("tenure", flags)?),
        made => Ok(made?),
    }
}

/// Returns the other descriptors of an open file.
fn copies(file: &File) -> io::Result<Vec<RawFd>> {
    let identity = |found: fs::Metadata| (found.dev(), found.ino());
    let ours = identity(file.metadata()?);
    let mut copies = Vec::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        let entry = entry?;
        let number: Option<RawFd> = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        // A descriptor that another thread closed meanwhile was not a copy.
        let found = fs::metadata(entry.path()).map(identity);
        if found.is_ok_and(|found| found == ours) {
            copies.extend(number.filter(|number| *number != file.as_raw_fd()));
        }
    }
    Ok(copies)
}

/// Makes a descriptor that a task can wait on until it is readable.
pub(super) fn readable(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is open and stays the same until it is dropped, and the `AsyncFd` owns it.
    let readable = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
    readable.map_err(io::Error::from)
}

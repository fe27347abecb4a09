//! The only unsafe code of the store, with its proofs: LMDB maps a file, Tokio polls a descriptor.
#![allow(unsafe_code, reason = "proven below")]

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, WithoutTls};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::store::local::gate::Section;

/// Keys and values as they stand in the file.
pub(super) type Table = Database<'static, Bytes, Bytes>;

/// The mapping's size: room in the address space, not on the disk.
const MAP_BYTES: usize = 4 << 30;

/// Opens the file and its one table, and makes them if the file is empty.
///
/// Two flags leave to us what LMDB would do:
///
/// - `NO_LOCK`: nobody else reads or writes. Every transaction stands in a [`Section`], which is
///   at most one at a time on this machine, in this process (a mutex) and across processes (a
///   file lock). There are so no readers that a writer could take pages away from.
/// - `NO_SYNC`: a commit need not reach the disk. A process that dies leaves what it wrote in the
///   page cache, and the last thing that a commit writes is a part of one page, so others see all
///   of it or nothing. What a power cut leaves is never read: a file belongs to one boot.
///
/// Memory is still cleared before it is written (no `NO_MEM_INIT`): others may read the file.
pub(super) fn open(path: &Path, _alone: &Section) -> heed::Result<(Env<WithoutTls>, Table)> {
    let mut options = EnvOpenOptions::new().read_txn_without_tls();
    options.map_size(MAP_BYTES).max_dbs(0);
    // SAFETY: the flags are safe as the proof above says.
    unsafe { options.flags(EnvFlags::NO_LOCK | EnvFlags::NO_SYNC | EnvFlags::NO_SUB_DIR) };
    // SAFETY: the file is changed only through LMDB and only in a `Section`; it is on a local
    // file system (see `folder`), is whole up to its last page (see `check`), and is never cut
    // short: our own code only replaces or deletes state files, which leaves mappings intact.
    let env = unsafe { options.open(path)? };
    let opening = env.write_txn()?;
    let table = env.create_databases_and_commit(opening, |open, change| {
        let table = open.create_database::<Bytes, Bytes>(change, None)?;
        Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(table))
    })?;
    Ok((env, table.unwrap_commit()))
}

/// Lets a task wait until a descriptor is readable.
pub(super) fn readable(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is open and stays the same until it is dropped, and the `AsyncFd`
    // owns it.
    let readable = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
    readable.map_err(io::Error::from)
}

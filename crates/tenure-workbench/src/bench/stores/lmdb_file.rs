//! Opens the bare LMDB file that a store is compared with: the only unsafe code of the benchmark.
#![allow(unsafe_code, reason = "proven below")]

use std::path::Path;

use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, WithoutTls};

/// Keys and values as raw bytes.
pub(super) type Table = Database<'static, Bytes, Bytes>;

/// Opens LMDB in an empty directory with its defaults, except that a commit does not wait for the
/// disk.
pub(super) fn open(folder: &Path) -> heed::Result<(Env<WithoutTls>, Table)> {
    let mut options = EnvOpenOptions::new().read_txn_without_tls();
    options.map_size(MAP_BYTES).max_dbs(0);
    // SAFETY: with `NO_SYNC` a power failure can corrupt the file, but nobody reads this file
    // again.
    unsafe { options.flags(EnvFlags::NO_SYNC) };
    // SAFETY: the directory was created for this call alone and is removed right after it, so
    // nobody else can open, change or truncate the file.
    let env = unsafe { options.open(folder)? };
    let opening = env.write_txn()?;
    let table = env.create_databases_and_commit(opening, |open, change| {
        let table = open.create_database::<Bytes, Bytes>(change, None)?;
        Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(table))
    })?;
    Ok((env, table.unwrap_commit()))
}

const MAP_BYTES: usize = 64 << 20;

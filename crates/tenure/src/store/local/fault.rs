//! Maps errors of the system to errors that say what to do.

use std::io;
use std::path::Path;

use crate::error::{BoxError, Error, Lasting};

/// The kind of this store, as errors and metrics name it.
pub(super) const KIND: &str = "local";

/// Returns the error for a request that changed nothing; `why` is a sentence for operators.
pub(super) fn unavailable(why: impl Into<BoxError>) -> Error {
    Error::unavailable(KIND, why)
}

/// Returns the error for files that cannot be trusted; `why` is a sentence with the remedy.
pub(super) fn damaged(why: impl Into<BoxError>) -> Error {
    Error::Damaged {
        driver: KIND,
        source: why.into(),
    }
}

/// Maps a fault of the file system at `path`, before anything was changed.
pub(super) fn io(path: &Path, error: &io::Error) -> Error {
    let path = path.display();
    let why = match error.kind() {
        io::ErrorKind::PermissionDenied => format!(
            "{path} is not writable for this user: choose another directory with \
             local:/some/directory, or let your group write to it"
        ),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            format!("no space is left for {path}: free some, and try again")
        }
        io::ErrorKind::ReadOnlyFilesystem => format!(
            "{path} is on a read-only file system: choose another directory with local:/some/directory"
        ),
        io::ErrorKind::NotADirectory => {
            format!("{path} is not a directory: choose another with local:/some/directory")
        }
        _ => format!("{path} cannot be used: {error}"),
    };
    use io::ErrorKind::{NotADirectory, PermissionDenied, ReadOnlyFilesystem};
    match error.kind() {
        PermissionDenied | ReadOnlyFilesystem | NotADirectory => unavailable(Lasting(why.into())),
        _ => unavailable(why),
    }
}

/// Maps a fault of LMDB at `path`, before anything was changed.
pub(super) fn lmdb(path: &Path, error: heed::Error) -> Error {
    use heed::MdbError;
    match error {
        // LMDB returns this for an incomplete write.
        heed::Error::Io(error) if error.raw_os_error() == Some(EIO) => unavailable(format!(
            "{} cannot be written: check whether its disk is full or failing",
            path.display()
        )),
        heed::Error::Io(error) => io(path, &error),
        heed::Error::Mdb(MdbError::MapFull) => unavailable(format!(
            "{} has reached its largest size: too many locks are held at once",
            path.display()
        )),
        heed::Error::Mdb(MdbError::Panic) => unavailable(format!(
            "an earlier write to {} failed: restart this program",
            path.display()
        )),
        heed::Error::Mdb(error) => damaged_state(path, &error),
        error => unavailable(format!("{} cannot be used: {error}", path.display())),
    }
}

const EIO: i32 = rustix::io::Errno::IO.raw_os_error();

/// Returns the error for a state file that is damaged in the way that `what` describes.
pub(super) fn damaged_state(path: &Path, what: &dyn std::fmt::Display) -> Error {
    let fence = path.with_file_name(super::fence::FILE);
    damaged(format!(
        "{} is damaged ({what}): stop the programs that use it and delete it, fences go on from {}",
        path.display(),
        fence.display()
    ))
}

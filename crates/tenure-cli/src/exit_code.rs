//! The exit codes of `tenure`, in one place because scripts depend on them.
//!
//! `run` exits with the code of its command, or dies by the signal that ended the command. The
//! codes here are those of `tenure` itself.

use std::process::ExitCode;

use rustix::process::Signal;

/// `show` or `evict` found that nobody holds the lock.
pub const NOTHING: u8 = 1;
/// The doctor found a problem.
pub const PROBLEM: u8 = 1;
/// tenure broke a promise in a demonstration, in the lab or under torture; or the lab did not flag
/// a broken lock; or a requested fault did not happen.
pub const BROKEN: u8 = 1;
/// The command line is invalid, or asks for something that is not possible.
pub const USAGE: u8 = 2;
/// A torture run is inconclusive: too few grants, writes or faults.
pub const UNKNOWN: u8 = 3;
/// The store is unavailable, and may be available again later.
pub const UNAVAILABLE: u8 = 69;
/// The output, or a file that the user asked for, could not be written.
pub const OUTPUT: u8 = 74;
/// The lock is busy, or was not free in time.
pub const BUSY: u8 = 75;
/// The lock was lost while the command ran, or is not held by this owner.
pub const LOST: u8 = 76;
/// The store cannot be used until somebody changes a setting or repairs it.
pub const CONFIGURATION: u8 = 78;
/// The command exists but cannot be run.
pub const CANNOT_RUN: u8 = 126;
/// The command does not exist.
pub const NOT_FOUND: u8 = 127;

/// Returns the code of a process that a signal ended, as shells report it.
pub fn of_signal(signal: Signal) -> u8 {
    of_signal_number(signal.as_raw())
}

/// Returns the code of a process that the signal with this number ended.
pub fn of_signal_number(number: i32) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX).saturating_add(128)
}

/// The section of `--help` and of the manual page about exit codes.
pub const HELP: &str = "\
Exit codes:
    0  done
    1  show, evict: nobody holds the lock; doctor: a problem was found
    2  wrong usage: a bad name, duration, owner or URL of a store, what the store cannot do, or a
       lock that this owner already holds in another mode
   69  the store is unavailable, try again later; with --wait, still at the end of that time
   74  the output could not be written; acquire has then given the lock
       back; renew, release and evict have done what was asked
   75  busy: the lock is taken, or was not free in time (see --busy-code)
   76  lost: the lock was lost while the command ran, or is not held by this owner
   78  the store cannot be used as it is configured: a wrong password, a missing right or
       database, damaged data; trying again does not help
  126  the command cannot be run
  127  the command was not found
  128 + N  as shells show it: the command, or the wait for the lock, ended by signal N, and
       tenure then died by it too; only for KILL it exits with 137 instead
`run` ends with the exit code of its command otherwise.";

/// The section of the workbench's `--help` about exit codes.
pub const WORKBENCH_HELP: &str = "\
Exit codes:
    0  done
    1  demo, lab, torture: a promise was broken, or a broken lock of the lab was not flagged
    2  wrong usage
    3  torture: inconclusive, too few grants, writes or faults
   69  the store is unavailable
   74  the output, a report or a history could not be written
   78  the store cannot be used as it is configured";

/// The exit code of a successful run.
pub const DONE: ExitCode = ExitCode::SUCCESS;

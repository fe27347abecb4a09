//! The few system calls around the start and the end of a process that have no safe wrapper.

#![allow(
    unsafe_code,
    reason = "signals, and the time between fork and exec; see each proof"
)]

use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

#[cfg(target_os = "linux")]
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::process::{Pid, Resource, Rlimit, Signal, getpid, getppid, setrlimit};
use rustix::termios::tcsetpgrp;

use crate::run::guardian::Order;

/// A death by a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Death {
    /// This process only.
    Alone(i32),
    /// All processes of our group, as if the key had been typed while they had the terminal.
    WithGroup(i32),
}

impl Death {
    /// Returns the number of the signal.
    pub(crate) fn signal(self) -> i32 {
        let (Self::Alone(signal) | Self::WithGroup(signal)) = self;
        signal
    }
}

/// Dies by a signal as if it had never been caught, without a core dump.
///
/// Returns if the kernel prevents it: the first process of a container is immune.
pub(crate) fn die(death: Death) {
    // On Linux the flag is needed, because programs that collect core dumps ignore the limit. Other
    // systems have no such flag, so the limit covers them.
    #[cfg(target_os = "linux")]
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    let _ = setrlimit(Resource::Core, none);
    let mut own = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: only the default handler is installed. `sigemptyset` writes `own` before it is read.
    // For a signal number that does not exist, each of these calls fails without any other effect.
    unsafe {
        libc::signal(death.signal(), libc::SIG_DFL);
        libc::sigemptyset(own.as_mut_ptr());
        libc::sigaddset(own.as_mut_ptr(), death.signal());
        libc::pthread_sigmask(libc::SIG_UNBLOCK, own.as_ptr(), std::ptr::null_mut());
        match death {
            Death::Alone(signal) => libc::raise(signal),
            Death::WithGroup(signal) => libc::kill(0, signal),
        };
    }
}

/// What a new process does between fork and exec.
#[derive(Debug)]
pub(super) struct FirstSteps {
    /// The process that starts it.
    pub(super) parent: Pid,
    /// The pipe to the guardian.
    pub(super) guardian: io::PipeWriter,
    /// The terminal to hand over.
    pub(super) terminal: Option<OwnedFd>,
}

impl FirstSteps {
    /// Makes `command` take these steps before exec.
    pub(super) fn before(self, command: &mut Command) {
        // SAFETY: between fork and exec a process may only make calls that are async-signal-safe,
        // because a lock that another thread held at the time of the fork is never released. `take`
        // only makes system calls on values that were created before the fork. It allocates
        // nothing, not even for its errors.
        unsafe {
            command.pre_exec(move || self.take());
        }
    }

    fn take(&self) -> io::Result<()> {
        // The order matters: the second call detects a parent that died before the first call.
        #[cfg(target_os = "linux")]
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        if getppid() != Some(self.parent) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let order = Order::Group(getpid());
        (&self.guardian).write_all(&order.bytes())?;
        if let Some(terminal) = &self.terminal {
            // A terminal that has disappeared is no reason to fail.
            let _ = without_ttou(|| tcsetpgrp(terminal, getpid()));
        }
        Ok(())
    }
}

/// Runs `work` with SIGTTOU blocked, by which the kernel stops background processes that change the
/// terminal.
pub(super) fn without_ttou<T>(work: impl FnOnce() -> T) -> T {
    let mut ttou = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both sets are written before they are read: `ttou` by `sigemptyset`, `before` by the
    // first `pthread_sigmask`, which cannot fail with a valid first argument. All these calls are
    // async-signal-safe, as `FirstSteps` requires.
    unsafe {
        libc::sigemptyset(ttou.as_mut_ptr());
        libc::sigaddset(ttou.as_mut_ptr(), libc::SIGTTOU);
        libc::pthread_sigmask(libc::SIG_BLOCK, ttou.as_ptr(), before.as_mut_ptr());
    }
    let done = work();
    // SAFETY: `before` was written above.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut());
    }
    done
}

/// Returns whether this process ignores a signal.
pub(crate) fn is_ignored(signal: Signal) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action the call changes nothing, and on success it fills in the current
    // action. All zeros is also a valid action.
    let action = unsafe {
        libc::sigaction(signal.as_raw(), std::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == libc::SIG_IGN
}

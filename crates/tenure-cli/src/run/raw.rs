//! The few calls around the start and the end of a process that have no safe form.

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
    /// Of this process.
    Alone(i32),
    /// Of all processes of our group, as if the key had been typed while the terminal was theirs.
    WithGroup(i32),
}

impl Death {
    /// The number of the signal.
    pub(crate) fn signal(self) -> i32 {
        let (Self::Alone(signal) | Self::WithGroup(signal)) = self;
        signal
    }
}

/// Dies by a signal as if it had never been caught, and leaves no core.
///
/// Returns where the kernel does not let it happen: the first process of a container is immune.
pub(crate) fn die(death: Death) {
    // Either is enough: programs that collect cores do not look at the limit, and other systems than
    // Linux have no such flag.
    #[cfg(target_os = "linux")]
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    let _ = setrlimit(Resource::Core, none);
    let mut own = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: no handler is installed but the default one, `own` is written by `sigemptyset` before it is
    // read, and a signal number that does not exist makes each of these calls fail and nothing else.
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
    /// Who starts it.
    pub(super) parent: Pid,
    /// The pipe to the guardian.
    pub(super) guardian: io::PipeWriter,
    /// The terminal that is handed over.
    pub(super) terminal: Option<OwnedFd>,
}

impl FirstSteps {
    /// Lets `command` take these steps before it becomes its program.
    pub(super) fn before(self, command: &mut Command) {
        // SAFETY: between fork and exec a process may only make calls that are safe in a signal
        // handler, because a lock that another thread held at the fork is never freed. `take`
        // makes system calls on values that were made before the fork, and allocates nothing,
        // also for its errors.
        unsafe {
            command.pre_exec(move || self.take());
        }
    }

    fn take(&self) -> io::Result<()> {
        // The order matters: a parent that died before the first line is noticed by the second.
        #[cfg(target_os = "linux")]
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        if getppid() != Some(self.parent) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let order = Order::Group(getpid());
        (&self.guardian).write_all(&order.bytes())?;
        if let Some(terminal) = &self.terminal {
            // A terminal that is gone meanwhile is not worth failing for.
            let _ = without_ttou(|| tcsetpgrp(terminal, getpid()));
        }
        Ok(())
    }
}

/// Does something that the kernel forbids processes in the background by SIGTTOU.
pub(super) fn without_ttou<T>(work: impl FnOnce() -> T) -> T {
    let mut ttou = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both sets are written before they are read: `ttou` by `sigemptyset`, `before` by
    // the first `pthread_sigmask`, which cannot fail with a valid first argument. All these calls
    // are safe in a signal handler, as `FirstSteps` needs.
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
    // SAFETY: without a new action the call changes nothing, and fills in the present one if it
    // succeeds; all zeros is a valid action besides.
    let action = unsafe {
        libc::sigaction(signal.as_raw(), std::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == libc::SIG_IGN
}

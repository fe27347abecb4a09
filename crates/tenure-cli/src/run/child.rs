//! The command: starts it in its own process group, sends it signals, and ends it.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, kill_process_group, test_kill_process_group,
    waitpid,
};
use tokio::signal::unix::{self, SignalKind};
use tokio::time::{Instant, sleep};

use crate::error::{Failure, Result};
use crate::exit_code;
use crate::output::escape;
use crate::run::guardian::Guardian;
use crate::run::raw::{Death, FirstSteps};
use crate::run::terminal::Terminal;

/// A running command.
#[derive(Debug)]
pub(super) struct Child {
    group: Pid,
    terminal: Option<Terminal>,
    /// Fires when the command stops or ends.
    changes: unix::Signal,
}

/// What the command did.
#[derive(Debug, Clone, Copy)]
pub(super) enum Change {
    /// It ended.
    Ended(Exit),
    /// It was stopped by this signal.
    Stopped(Signal),
}

/// How the command ended.
#[derive(Debug, Clone, Copy)]
pub(super) enum Exit {
    /// With this exit code.
    Code(u8),
    /// By a signal, by which `tenure` dies as well.
    Signal(Death),
}

impl Child {
    /// Starts a command with additional variables in its environment.
    ///
    /// The kernel kills the command when the *thread* that started it ends, so this must run on the
    /// main thread.
    pub(super) fn start(
        command: &[OsString],
        environment: &[(&str, String)],
        guardian: &Guardian,
    ) -> Result<Self> {
        let changes = unix::signal(SignalKind::child())?;
        let (program, arguments) = command
            .split_first()
            .ok_or_else(|| Failure::usage("the command is missing: write it after --"))?;
        let mut terminal = Terminal::open();
        let first_steps = FirstSteps {
            parent: getpid(),
            guardian: guardian.orders()?,
            terminal: terminal.as_mut().and_then(Terminal::for_start),
        };
        let mut process = Command::new(program);
        process
            .args(arguments)
            // A lease that a surrounding script has acquired by hand is not the lock of this
            // command.
            .env_remove("TENURE_OWNER")
            .env_remove("TENURE_CLAIM")
            .env_remove("TENURE_TTL_MS")
            .envs(environment.iter().map(|(key, value)| (key, value)))
            .process_group(0);
        first_steps.before(&mut process);
        let started = process.spawn();
        let group = started.as_ref().ok().and_then(|child| {
            let pid = i32::try_from(child.id()).ok()?;
            Pid::from_raw(pid)
        });
        let Some(group) = group else {
            if let Some(terminal) = &mut terminal {
                terminal.take_back();
            }
            return Err(match started {
                Err(error) => not_started(program, &error),
                Ok(_) => Failure::new(exit_code::CANNOT_RUN, "the command has no process id"),
            });
        };
        Ok(Self {
            group,
            terminal,
            changes,
        })
    }

    /// Waits until the command stops or ends.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a change that was not returned is found by the next call.
    pub(super) async fn changed(&mut self) -> Change {
        loop {
            if let Some(change) = self.change() {
                return change;
            }
            self.changes.recv().await;
        }
    }

    fn change(&self) -> Option<Change> {
        let options = WaitOptions::NOHANG | WaitOptions::UNTRACED;
        // Nobody else waits for this child, so an error can only mean that it is gone.
        let Ok(waited) = waitpid(Some(self.group), options) else {
            return Some(Change::Ended(Exit::Code(exit_code::CANNOT_RUN)));
        };
        let (_, status) = waited?;
        if let Some(code) = status.exit_status() {
            let code = u8::try_from(code).unwrap_or(u8::MAX);
            return Some(Change::Ended(Exit::Code(code)));
        }
        if let Some(number) = status.terminating_signal() {
            return Some(Change::Ended(Exit::Signal(self.death_by(number))));
        }
        let signal = status.stopping_signal().and_then(Signal::from_named_raw);
        Some(Change::Stopped(signal.unwrap_or(Signal::STOP)))
    }

    /// Returns how `tenure` dies after a signal has ended the command.
    ///
    /// A key such as ctrl-c reaches only the process group that has the terminal. Shells around
    /// `tenure` expect to get the signal themselves, and continue their script if they do not.
    fn death_by(&self, number: i32) -> Death {
        let has_terminal = self.terminal.as_ref().is_some_and(|terminal| terminal.lent);
        match number {
            libc::SIGINT | libc::SIGQUIT if has_terminal => Death::WithGroup(number),
            _ => Death::Alone(number),
        }
    }

    /// Sends a signal to the whole group.
    pub(super) fn signal(&self, signal: Signal) {
        // This fails if the group has ended, which is noticed elsewhere.
        let _ = kill_process_group(self.group, signal);
    }

    /// Asks the whole group to end, including stopped members.
    pub(super) fn ask_to_end(&self) {
        self.signal(Signal::TERM);
        self.signal(Signal::CONT);
    }

    /// Reacts when the command stops: gives it the terminal, or stops with it.
    pub(super) fn stopped_by(&mut self, signal: Signal) {
        let Some(terminal) = &mut self.terminal else {
            // Without a terminal nobody would wake us up again.
            return;
        };
        let wants_terminal = matches!(signal, Signal::TTIN | Signal::TTOU);
        if !(wants_terminal && terminal.lend(self.group)) {
            let lent = terminal.take_back();
            // The shell sees `tenure` stop as if it were the command, and continues it later. Until
            // then nobody renews the lease. If the lease ends meanwhile, the guardian kills the
            // command.
            let _ = kill_process(getpid(), Signal::STOP);
            if lent || wants_terminal {
                terminal.lend(self.group);
            }
        }
        self.signal(Signal::CONT);
    }

    /// Takes the terminal back after the command has ended.
    pub(super) fn take_back_terminal(&mut self) {
        if let Some(terminal) = &mut self.terminal {
            terminal.take_back();
        }
    }

    /// Waits until the rest of the group has ended, and kills it at `kill_at`.
    pub(super) async fn rest_ended(&self, kill_at: Instant) {
        while test_kill_process_group(self.group).is_ok() {
            if Instant::now() >= kill_at {
                return self.signal(Signal::KILL);
            }
            sleep(Duration::from_millis(5)).await;
        }
    }
}

fn not_started(program: &OsString, error: &io::Error) -> Failure {
    let program = escape(&program.to_string_lossy());
    match error.kind() {
        io::ErrorKind::NotFound => {
            let sentence = format!("'{program}' was not found; check its name and the PATH");
            Failure::new(exit_code::NOT_FOUND, sentence)
        }
        io::ErrorKind::PermissionDenied => Failure::new(
            exit_code::CANNOT_RUN,
            format!("'{program}' may not be executed; is it a program, with mode +x?"),
        ),
        _ => Failure::new(
            exit_code::CANNOT_RUN,
            format!("'{program}' could not be started: {error}"),
        ),
    }
}

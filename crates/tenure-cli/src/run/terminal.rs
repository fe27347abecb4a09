//! The terminal, lent to the command for as long as it runs.
//!
//! A command in a process group of its own is in the background of its terminal, where reading
//! stops it. So the terminal is handed over if it is ours: at once if both our input and our
//! output are the terminal, else when the command stops because it needs it, because the other
//! programs of a pipeline such as `tenure run … | less` may need it first.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::OwnedFd;

use rustix::process::{Pid, getpgrp};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

use crate::run::raw::without_ttou;

/// The terminal that controls our session.
#[derive(Debug)]
pub(super) struct Terminal {
    tty: File,
    /// Whether the command has it.
    pub(super) lent: bool,
}

impl Terminal {
    /// Opens the terminal; `None` where there is none.
    pub(super) fn open() -> Option<Self> {
        let tty = File::options().read(true).write(true).open("/dev/tty");
        let tty = tty.ok()?;
        Some(Self { tty, lent: false })
    }

    /// Returns the terminal for a command that should have it from the start.
    pub(super) fn for_start(&mut self) -> Option<OwnedFd> {
        let whole = io::stdin().is_terminal() && io::stdout().is_terminal();
        if !(whole && self.is_ours()) {
            return None;
        }
        let tty = self.tty.try_clone().ok()?;
        self.lent = true;
        Some(tty.into())
    }

    /// Lends the terminal to a group, if it is ours; returns whether it was.
    pub(super) fn lend(&mut self, group: Pid) -> bool {
        let ours = self.is_ours();
        if ours {
            self.lent = without_ttou(|| tcsetpgrp(&self.tty, group)).is_ok();
        }
        ours
    }

    /// Takes the terminal back if it was lent; returns whether it was.
    pub(super) fn take_back(&mut self) -> bool {
        let lent = std::mem::take(&mut self.lent);
        if lent {
            // A terminal that is gone needs no owner.
            let _ = without_ttou(|| tcsetpgrp(&self.tty, getpgrp()));
        }
        lent
    }

    fn is_ours(&self) -> bool {
        tcgetpgrp(&self.tty).is_ok_and(|foreground| foreground == getpgrp())
    }
}

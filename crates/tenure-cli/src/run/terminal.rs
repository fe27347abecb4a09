//! The terminal, lent to the command while it runs.
//!
//! A command in its own process group is in the background of its terminal, and is stopped when it
//! reads from it. So `tenure` hands over the terminal if it has it. If both stdin and stdout are
//! the terminal, it does so at once. Otherwise it waits until the command stops because it needs
//! the terminal, since other programs of a pipeline such as `tenure run … | less` may need it
//! first.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::OwnedFd;

use rustix::process::{Pid, getpgrp};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

use crate::run::raw::without_ttou;

/// The controlling terminal of our session.
#[derive(Debug)]
pub(super) struct Terminal {
    tty: File,
    /// Whether the command has it.
    pub(super) lent: bool,
}

impl Terminal {
    /// Opens the terminal; returns `None` if there is none.
    pub(super) fn open() -> Option<Self> {
        let tty = File::options().read(true).write(true).open("/dev/tty");
        let tty = tty.ok()?;
        Some(Self { tty, lent: false })
    }

    /// Returns the terminal if the command should have it from the start.
    pub(super) fn for_start(&mut self) -> Option<OwnedFd> {
        let whole = io::stdin().is_terminal() && io::stdout().is_terminal();
        if !(whole && self.is_ours()) {
            return None;
        }
        let tty = self.tty.try_clone().ok()?;
        self.lent = true;
        Some(tty.into())
    }

    /// Lends the terminal to a group if it is ours; returns whether it was.
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
            // A terminal that has disappeared needs no owner.
            let _ = without_ttou(|| tcsetpgrp(&self.tty, getpgrp()));
        }
        lent
    }

    fn is_ours(&self) -> bool {
        tcgetpgrp(&self.tty).is_ok_and(|foreground| foreground == getpgrp())
    }
}

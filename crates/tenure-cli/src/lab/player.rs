//! A client process, as the lab sees it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use super::upset::{Result, Upset};
use super::wire::{Order, Say, Step};
use crate::run::guardian::own_program;

/// What comes from a client.
#[derive(Debug)]
pub(super) enum Heard {
    Said(Say),
    /// It has ended.
    Closed,
}

/// One client; killed if it is still there when nobody needs it any more.
#[derive(Debug)]
pub(super) struct Player {
    child: Child,
    to: ChildStdin,
}

impl Player {
    /// Starts a client whose words arrive at `heard` with its number.
    pub(super) fn start(order: &Order, heard: Sender<(u32, Heard)>) -> Result<Self> {
        let mut child = Command::new(own_program()?)
            .arg("lab-client")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // The one that overflows its stack would say so here; the lab tells it better.
            .stderr(Stdio::null())
            .spawn()?;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Upset::Play("a client has no pipes".to_owned()));
        };
        let process = order.process;
        thread::spawn(move || {
            for line in BufReader::new(from).lines() {
                let said = line.ok().and_then(|line| serde_json::from_str(&line).ok());
                let Some(said) = said else { break };
                // Nobody listens when the play is over.
                let _ = heard.send((process, Heard::Said(said)));
            }
            let _ = heard.send((process, Heard::Closed));
        });
        let mut player = Self { child, to };
        player.write(order)?;
        Ok(player)
    }

    pub(super) fn tell(&mut self, step: &Step) -> Result<()> {
        self.write(step)
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| Upset::Play("a client has no process id".to_owned()))?;
        kill_process(pid, signal).map_err(std::io::Error::from)?;
        Ok(())
    }

    /// Waits for its end.
    pub(super) fn ended(&mut self) -> Result<ExitStatus> {
        Ok(self.child.wait()?)
    }

    /// The kernel's letter for what it does.
    pub(super) fn state(&self) -> Option<char> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).ok()?;
        // The program's name stands before it in parentheses, and may contain anything.
        let (_, rest) = stat.rsplit_once(") ")?;
        rest.chars().next()
    }

    fn write(&mut self, line: &impl serde::Serialize) -> Result<()> {
        let mut text = serde_json::to_string(line).map_err(std::io::Error::from)?;
        text.push('\n');
        self.to.write_all(text.as_bytes())?;
        Ok(())
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        // Both fail only if it has ended and was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

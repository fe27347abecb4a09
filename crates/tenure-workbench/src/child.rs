//! A process that this one started: the same program, in a part that it is told by lines of JSON.
//!
//! It hears them as its [`parent`](crate::parent), and answers in the same way.

use std::fmt::{Debug, Display};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use serde::de::DeserializeOwned;

use tenure_cli::error::{Failure, Result};
use tenure_cli::exit_code;

/// One process; killed if it is still there when nobody needs it any more.
///
/// It ends by itself when this process does, since its standard input ends then. It is in a process group of its own,
/// so that an interrupt at the terminal is ours to deal with; and so that it ends also while it is stopped, because the
/// kernel hangs up on a stopped group that nobody is left to wake.
#[derive(Debug)]
pub(crate) struct Child {
    /// What a failure calls it.
    who: &'static str,
    process: std::process::Child,
}

impl Child {
    /// Starts a command, which is [our own program](tenure_cli::program::own_program), with a pipe to it and one from it.
    pub(crate) fn start(who: &'static str, command: &mut Command) -> Result<Self> {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let process = command
            .process_group(0)
            .spawn()
            .map_err(|error| trouble(who, &error))?;
        Ok(Self { who, process })
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Tells it something, in one write, so that it never waits for the rest of a line.
    pub(crate) fn tell(&mut self, line: &impl Serialize) -> Result<()> {
        let mut text = serde_json::to_string(line).map_err(|error| self.trouble(&error))?;
        text.push('\n');
        let Some(to) = &mut self.process.stdin else {
            return Err(self.trouble(&"it has ended"));
        };
        let told = to.write_all(text.as_bytes());
        told.map_err(|error| self.trouble(&error))
    }

    /// Returns what it says, line by line until it ends; whoever asks first hears it all.
    pub(crate) fn said<T: DeserializeOwned>(&mut self) -> impl Iterator<Item = Result<T>> + use<T> {
        let who = self.who;
        let from = self.process.stdout.take().map(BufReader::new);
        let lines = from.into_iter().flat_map(BufRead::lines);
        lines.map_while(io::Result::ok).map(move |line| {
            let said = serde_json::from_str(&line);
            said.map_err(|error| trouble(who, &format!("it said what nobody understands: {error}")))
        })
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        // The id is its own until it is waited for, and only its owner does that.
        let sent = kill_process(Pid::from_child(&self.process), signal);
        sent.map_err(|error| self.trouble(&error))
    }

    /// Returns the kernel's letter for what it does.
    pub(crate) fn state(&self) -> Option<char> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id())).ok()?;
        // The program's name stands before it in parentheses, and may contain anything.
        let (_, rest) = stat.rsplit_once(") ")?;
        rest.chars().next()
    }

    /// Kills it with signal 9, and returns when it is dead.
    pub(crate) fn kill(&mut self) -> Result<()> {
        let killed = self.process.kill().and_then(|()| self.process.wait());
        killed.map(drop).map_err(|error| self.trouble(&error))
    }

    /// Waits for its end; returns `None` if it does not end in time, at once if that is over.
    pub(crate) fn ended(&mut self, give_up: Instant) -> Result<Option<ExitStatus>> {
        loop {
            let ended = self.process.try_wait();
            let ended = ended.map_err(|error| self.trouble(&error))?;
            if ended.is_some() || Instant::now() >= give_up {
                return Ok(ended);
            }
            thread::sleep(TICK);
        }
    }

    /// Says why it is of no use.
    pub(crate) fn trouble(&self, why: &dyn Display) -> Failure {
        trouble(self.who, why)
    }

    /// Says that it broke off before it had said all.
    pub(crate) fn ended_early(&self) -> Failure {
        self.trouble(&"it ended early")
    }

    /// Says that something else should have come first.
    pub(crate) fn out_of_turn(&self, said: &dyn Debug) -> Failure {
        self.trouble(&format!("it said {said:?} out of turn"))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It fails only if there is nothing left to kill.
        let _ = self.kill();
    }
}

fn trouble(who: &str, why: &dyn Display) -> Failure {
    let sentence = format!("{who} cannot be used: {why}");
    Failure::new(exit_code::UNAVAILABLE, sentence)
}

/// Between two looks whether a process has ended.
const TICK: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use rustix::process::test_kill_process;

    use super::*;

    #[test]
    fn lines_go_there_and_back_until_the_end() {
        let mut child = start("read line; echo $line; echo 8");
        child.tell(&7).unwrap();
        let said: Vec<u32> = child.said().map(Result::unwrap).collect();
        assert_eq!(said, [7, 8]);
        let ended = child.ended(Instant::now() + LONG).unwrap();
        assert!(ended.is_some_and(|status| status.success()));
    }

    #[test]
    fn nonsense_is_told_with_the_name_of_who_said_it() {
        let mut child = start("echo nonsense");
        let said: Vec<Result<u32>> = child.said().collect();
        let failure = said[0].as_ref().unwrap_err().to_string();
        let sentence = "a child cannot be used: it said what nobody understands: ";
        assert!(failure.starts_with(sentence), "{failure}");
    }

    #[test]
    fn a_child_that_was_killed_hears_nothing_more() {
        let mut child = start("read line");
        assert_eq!(child.ended(Instant::now()).unwrap(), None);
        child.kill().unwrap();
        assert!(child.ended(Instant::now()).unwrap().is_some());
        let failure = child.tell(&7).unwrap_err().to_string();
        assert_eq!(failure, "a child cannot be used: it has ended");
    }

    #[test]
    fn a_dropped_child_is_killed() {
        let child = start("read line");
        // It cannot end by itself.
        child.signal(Signal::STOP).unwrap();
        let pid = Pid::from_child(&child.process);
        drop(child);
        assert_eq!(test_kill_process(pid), Err(rustix::io::Errno::SRCH));
    }

    fn start(script: &str) -> Child {
        Child::start("a child", Command::new("sh").args(["-c", script])).unwrap()
    }

    /// Only a test that went wrong takes so long.
    const LONG: Duration = Duration::from_secs(60);
}

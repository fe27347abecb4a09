//! A child process that exchanges messages with us, each a line of JSON.
//!
//! It is usually our own program again, and talks to us through its [`Parent`](crate::Parent).

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};
use crate::wait::PATIENCE;

/// A child process, killed on drop.
///
/// Its standard input ends when we end, so a child that reads it with [`Parent`](crate::Parent) ends
/// with us. It is in its own process group, so that an interrupt at the terminal does not reach it.
/// This also ends it while it is stopped: the kernel sends `SIGHUP` to a stopped group whose last
/// parent is gone.
#[derive(Debug)]
pub struct Child {
    /// Its name in errors.
    name: &'static str,
    process: std::process::Child,
}

impl Child {
    /// Starts a command with pipes to its standard input and from its standard output; `name` is
    /// its name in errors.
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn start(name: &'static str, command: &mut Command) -> Result<Self> {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let process = command.process_group(0).spawn();
        let process = process.map_err(|error| failed(name, &error.to_string()))?;
        Ok(Self { name, process })
    }

    /// Returns its process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Sends a message in one write, so that the child never waits for the rest of a line.
    ///
    /// # Errors
    ///
    /// If it has ended or was [closed](Self::close).
    pub fn send(&mut self, message: &impl Serialize) -> Result<()> {
        let line = line(message).map_err(|error| self.failed(&error.to_string()))?;
        let Some(input) = &mut self.process.stdin else {
            return Err(self.failed("it has ended"));
        };
        let sent = input.write_all(&line);
        sent.map_err(|error| self.failed(&error.to_string()))
    }

    /// Closes its standard input; it gets no more messages.
    pub fn close(&mut self) {
        self.process.stdin = None;
    }

    /// Returns its messages until it ends; only the first call gets any.
    pub fn messages<T: DeserializeOwned>(
        &mut self,
    ) -> impl Iterator<Item = Result<T>> + Send + use<T> {
        let name = self.name;
        let output = self.process.stdout.take().map(BufReader::new);
        let lines = output.into_iter().flat_map(BufRead::lines);
        lines.map_while(io::Result::ok).map(move |line| {
            let message = serde_json::from_str(&line);
            message.map_err(|error| failed(name, &format!("it sent an invalid message: {error}")))
        })
    }

    /// Calls `receive` with each message, on a thread that ends with the child.
    pub fn on_message<T: DeserializeOwned + 'static>(
        &mut self,
        receive: impl FnMut(Result<T>) + Send + 'static,
    ) -> JoinHandle<()> {
        let messages = self.messages();
        thread::spawn(move || messages.for_each(receive))
    }

    /// Sends a signal.
    ///
    /// # Errors
    ///
    /// If it has ended and was waited for.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        // The id stays its own until it is waited for, and only its owner does that.
        let sent = kill_process(Pid::from_child(&self.process), signal);
        sent.map_err(|error| self.failed(&error.to_string()))
    }

    /// Stops it, and returns once all of its threads have stopped; returns `false` if it has ended.
    ///
    /// # Errors
    ///
    /// If it neither stops nor ends within 20 seconds.
    pub fn stop(&self) -> Result<bool> {
        self.signal(Signal::STOP)?;
        let id = WaitId::Pid(Pid::from_child(&self.process));
        let (stopped, ended) = (WaitIdOptions::STOPPED, WaitIdOptions::EXITED);
        let options = stopped | ended | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let give_up = Instant::now() + PATIENCE;
        loop {
            let found = waitid(id.clone(), options);
            match found.map_err(|error| self.failed(&error.to_string()))? {
                Some(status) => return Ok(status.stopped()),
                None if Instant::now() >= give_up => return Err(self.failed("it does not stop")),
                None => thread::sleep(TICK),
            }
        }
    }

    /// Makes it continue after [`stop`](Self::stop).
    ///
    /// # Errors
    ///
    /// If it has ended and was waited for.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// Returns the kernel's letter for its state, such as `T` for stopped.
    pub fn state(&self) -> Option<char> {
        super::state(self.id())
    }

    /// Kills it with signal 9, and returns once it is dead.
    ///
    /// # Errors
    ///
    /// If its end cannot be waited for.
    pub fn kill(&mut self) -> Result<()> {
        let killed = self.process.kill().and_then(|()| self.process.wait());
        killed
            .map(drop)
            .map_err(|error| self.failed(&error.to_string()))
    }

    /// Waits until it has ended, or returns `None` at the deadline.
    ///
    /// # Errors
    ///
    /// If its end cannot be waited for.
    pub fn wait_until(&mut self, deadline: Instant) -> Result<Option<ExitStatus>> {
        loop {
            let ended = self.process.try_wait();
            let ended = ended.map_err(|error| self.failed(&error.to_string()))?;
            if ended.is_some() || Instant::now() >= deadline {
                return Ok(ended);
            }
            thread::sleep(TICK);
        }
    }

    /// Returns the error that it cannot be used for this reason.
    pub fn failed(&self, reason: &str) -> Error {
        failed(self.name, reason)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // This fails only if there is nothing left to kill.
        let _ = self.kill();
    }
}

/// Returns a message as a line.
pub(super) fn line(message: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

fn failed(name: &str, reason: &str) -> Error {
    Error::Child {
        name: name.to_owned(),
        reason: reason.to_owned(),
    }
}

/// The interval between two checks of a process.
const TICK: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use rustix::process::test_kill_process;

    use super::*;

    #[test]
    fn messages_go_there_and_back_until_the_end() {
        let mut child = start("read line; echo $line; echo 8");
        child.send(&7).unwrap();
        let messages: Vec<u32> = child.messages().map(Result::unwrap).collect();
        assert_eq!(messages, [7, 8]);
        let ended = child.wait_until(Instant::now() + PATIENCE).unwrap();
        assert!(ended.is_some_and(|status| status.success()));
    }

    #[test]
    fn an_invalid_message_is_an_error_that_names_its_sender() {
        let mut child = start("echo nonsense");
        let messages: Vec<Result<u32>> = child.messages().collect();
        let error = messages[0].as_ref().unwrap_err().to_string();
        let start = "a child cannot be used: it sent an invalid message: ";
        assert!(error.starts_with(start), "{error}");
    }

    #[test]
    fn a_child_that_was_killed_gets_no_more_messages() {
        let mut child = start("read line");
        assert_eq!(child.wait_until(Instant::now()).unwrap(), None);
        child.kill().unwrap();
        assert!(child.wait_until(Instant::now()).unwrap().is_some());
        let error = child.send(&7).unwrap_err().to_string();
        assert_eq!(error, "a child cannot be used: it has ended");
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

    #[test]
    fn a_stopped_child_stands_still_until_it_is_resumed() {
        let mut child = start("read line; echo $line; read line");
        for _ in 0..2 {
            assert!(child.stop().unwrap());
            assert_eq!(child.state(), Some('T'));
            child.resume().unwrap();
        }
        child.send(&7).unwrap();
        assert_eq!(child.messages::<u32>().next().unwrap().unwrap(), 7);
        child.close();
        let ended = child.wait_until(Instant::now() + PATIENCE).unwrap();
        assert!(ended.is_some());
    }

    #[test]
    fn a_child_that_has_ended_cannot_be_stopped() {
        let mut child = start("exit 3");
        // Its output ends with it; it has not been waited for.
        assert_eq!(child.messages::<u32>().count(), 0);
        while child.state() != Some('Z') {
            thread::sleep(TICK);
        }
        assert!(!child.stop().unwrap());
    }

    fn start(script: &str) -> Child {
        Child::start("a child", Command::new("sh").args(["-c", script])).unwrap()
    }
}

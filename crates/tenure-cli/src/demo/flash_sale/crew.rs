//! The copies of the service, as the sale sees them: started, frozen, killed and replaced.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tenure_testkit::Port;
use tokio::sync::{Mutex, mpsc};
use tokio::time::timeout;

use super::wire::{Halt, Said, Settings, Tell};
use crate::error::{Failure, Result};
use crate::exit_code;
use crate::run::guardian::own_program;

/// One copy: a place with a port, and the process that serves there now.
#[derive(Debug)]
pub(super) struct Copy {
    settings: Settings,
    /// The port stays the copy's own while its process is replaced.
    _port: Port,
    /// Of the process that serves now, for those who only look.
    pid: AtomicU32,
    /// Held by a fault as long as it lasts: one at a time.
    process: Mutex<Process>,
}

impl Copy {
    /// Starts a process, and waits until it serves.
    pub(super) async fn start(settings: Settings, port: Port) -> Result<Self> {
        let process = Process::start(&settings).await?;
        Ok(Self {
            pid: AtomicU32::new(process.child.id()),
            settings,
            _port: port,
            process: Mutex::new(process),
        })
    }

    pub(super) fn number(&self) -> u32 {
        self.settings.number
    }

    pub(super) fn port(&self) -> u16 {
        self.settings.port
    }

    /// Returns the id of the process that serves now.
    pub(super) fn pid(&self) -> u32 {
        self.pid.load(Ordering::Relaxed)
    }

    /// Lets the next sale take so long; `begun` is called in the middle of it.
    pub(super) async fn slow(&self, time: Duration, begun: impl FnOnce()) -> Result<Said> {
        let mut process = self.process.lock().await;
        let for_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        process.halt(Halt::Slow { for_ms }).await?;
        begun();
        process.hear().await
    }

    /// Freezes the process in the middle of its next sale, and lets it go on after so long.
    pub(super) async fn pause(&self, time: Duration, begun: impl FnOnce()) -> Result<Said> {
        let mut process = self.process.lock().await;
        process.halt(Halt::Still).await?;
        process.signal(Signal::STOP)?;
        process.wait_until_frozen().await?;
        begun();
        // It lies in the pipe until the process can read it.
        process.tell(&Tell::GoOn)?;
        tokio::time::sleep(time).await;
        process.signal(Signal::CONT)?;
        process.hear().await
    }

    /// Kills the process in the middle of its next sale; `begun` is called when it is dead.
    ///
    /// Returns when another process serves in its place.
    pub(super) async fn kill(&self, begun: impl FnOnce()) -> Result<()> {
        let mut process = self.process.lock().await;
        process.halt(Halt::Still).await?;
        process.child.kill()?;
        process.child.wait()?;
        begun();
        *process = Process::start(&self.settings).await?;
        self.pid.store(process.child.id(), Ordering::Relaxed);
        Ok(())
    }

    /// Ends the process; one that does not listen is killed.
    pub(super) async fn end(&self) {
        let mut process = self.process.lock().await;
        let give_up = Instant::now() + END;
        // Both fail if the process is gone already.
        let _ = process.tell(&Tell::End);
        let _ = process.signal(Signal::CONT);
        while matches!(process.child.try_wait(), Ok(None)) && Instant::now() < give_up {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// A process of a copy; killed when dropped. It ends by itself when we do.
#[derive(Debug)]
struct Process {
    child: Child,
    to: ChildStdin,
    said: mpsc::UnboundedReceiver<Said>,
}

impl Process {
    async fn start(settings: &Settings) -> Result<Self> {
        let mut command = Command::new(own_program()?);
        // A group of its own, so that an interrupt at the terminal is ours to deal with.
        let command = command.arg("demo-copy").process_group(0);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| trouble(&error))?;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(trouble(&"it has no pipes"));
        };
        let (tell, said) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for line in BufReader::new(from).lines() {
                let said = line.ok().and_then(|line| serde_json::from_str(&line).ok());
                let Some(said) = said else { break };
                // Nobody listens to a process that was replaced.
                let _ = tell.send(said);
            }
        });
        let mut process = Self { child, to, said };
        process.tell(settings)?;
        let ready = timeout(START, process.hear()).await;
        match ready.map_err(|_| trouble(&"it takes too long to start"))?? {
            Said::Ready => Ok(process),
            other => Err(trouble(&format!("it said {other:?} out of turn"))),
        }
    }

    /// Waits until a sale has halted in the middle.
    async fn halt(&mut self, halt: Halt) -> Result<()> {
        self.tell(&Tell::Halt(halt))?;
        match self.hear().await? {
            Said::Halted => Ok(()),
            other => Err(trouble(&format!("it said {other:?} out of turn"))),
        }
    }

    fn tell(&mut self, line: &impl serde::Serialize) -> Result<()> {
        let mut text = serde_json::to_string(line).map_err(|error| trouble(&error))?;
        text.push('\n');
        let told = self.to.write_all(text.as_bytes());
        told.map_err(|error| trouble(&error))
    }

    async fn hear(&mut self) -> Result<Said> {
        match self.said.recv().await {
            Some(Said::Failed(sentence)) => Err(Failure::new(exit_code::UNAVAILABLE, sentence)),
            Some(said) => Ok(said),
            None => Err(trouble(&"it ended early")),
        }
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| trouble(&"it has no process id"))?;
        kill_process(pid, signal).map_err(|error| trouble(&error))
    }

    /// Waits until all threads of the process stand still.
    async fn wait_until_frozen(&self) -> Result<()> {
        let stat = format!("/proc/{}/stat", self.child.id());
        let frozen = async {
            while !is_stopped(&std::fs::read_to_string(&stat)?) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Ok(())
        };
        let frozen = timeout(START, frozen).await;
        frozen.map_err(|_| trouble(&"it does not stand still"))?
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if it has ended and was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether the kernel's line about a process says that it was stopped.
fn is_stopped(stat: &str) -> bool {
    // The program's name stands before it in parentheses, and may contain anything.
    let state = stat.rsplit_once(") ");
    state.is_some_and(|(_, state)| state.starts_with('T'))
}

fn trouble(why: &dyn std::fmt::Display) -> Failure {
    let sentence = format!("a copy of the service cannot be used: {why}");
    Failure::new(exit_code::UNAVAILABLE, sentence)
}

/// How long a process may take to end by itself.
const END: Duration = Duration::from_secs(2);

/// How long a process may take to open the store, or to stand still.
const START: Duration = Duration::from_secs(30);

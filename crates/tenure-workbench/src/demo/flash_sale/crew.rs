//! The copies of the service, as the sale sees them: started, frozen, killed and replaced.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tenure_testkit::Port;
use tokio::sync::{Mutex, mpsc};
use tokio::time::timeout;

use super::wire::{Halt, Said, Settings, Tell};
use crate::child::Child;
use tenure_cli::error::{Failure, Result};
use tenure_cli::exit_code;

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
    ///
    /// `begun` is called when it is frozen, `over` when it is about to go on.
    pub(super) async fn pause(
        &self,
        time: Duration,
        begun: impl FnOnce(),
        over: impl FnOnce(),
    ) -> Result<Said> {
        let mut process = self.process.lock().await;
        process.halt(Halt::Still).await?;
        process.child.signal(Signal::STOP)?;
        process.wait_until_frozen().await?;
        begun();
        // It lies in the pipe until the process can read it.
        process.child.tell(&Tell::GoOn)?;
        tokio::time::sleep(time).await;
        over();
        process.child.signal(Signal::CONT)?;
        process.hear().await
    }

    /// Kills the process in the middle of its next sale; another one serves in its place at once.
    pub(super) async fn kill(&self) -> Result<()> {
        let mut process = self.process.lock().await;
        process.halt(Halt::Still).await?;
        // The successor listens on the same port before the old process dies. Otherwise the front would
        // send its buyers to the other copies, one of which may be frozen.
        let successor = Process::start(&self.settings).await?;
        process.child.kill()?;
        *process = successor;
        self.pid.store(process.child.id(), Ordering::Relaxed);
        Ok(())
    }

    /// Ends the process; one that does not listen is killed.
    pub(super) async fn end(&self) {
        let mut process = self.process.lock().await;
        let give_up = Instant::now() + END;
        // Both fail if the process is gone already.
        let _ = process.child.tell(&Tell::End);
        let _ = process.child.signal(Signal::CONT);
        while matches!(process.child.ended(Instant::now()), Ok(None)) && Instant::now() < give_up {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// A process of a copy.
#[derive(Debug)]
struct Process {
    child: Child,
    said: mpsc::UnboundedReceiver<Result<Said>>,
}

impl Process {
    async fn start(settings: &Settings) -> Result<Self> {
        let mut command = Command::new(tenure_cli::program::own_program()?);
        let mut child = Child::start("a copy of the service", command.arg("demo-copy"))?;
        child.tell(settings)?;
        let (tell, heard) = mpsc::unbounded_channel();
        let said = child.said();
        std::thread::spawn(move || {
            for said in said {
                // Nobody listens to a process that was replaced.
                let _ = tell.send(said);
            }
        });
        let mut process = Self { child, said: heard };
        let ready = timeout(START, process.hear()).await;
        let late = |_| process.child.trouble(&"it takes too long to start");
        match ready.map_err(late)?? {
            Said::Ready => Ok(process),
            other => Err(process.child.out_of_turn(&other)),
        }
    }

    /// Waits until a sale has halted in the middle.
    async fn halt(&mut self, halt: Halt) -> Result<()> {
        self.child.tell(&Tell::Halt(halt))?;
        match self.hear().await? {
            Said::Halted => Ok(()),
            other => Err(self.child.out_of_turn(&other)),
        }
    }

    async fn hear(&mut self) -> Result<Said> {
        match self.said.recv().await {
            Some(Ok(Said::Failed(sentence))) => Err(Failure::new(exit_code::UNAVAILABLE, sentence)),
            Some(said) => said,
            None => Err(self.child.ended_early()),
        }
    }

    /// Waits until all threads of the process stand still.
    async fn wait_until_frozen(&self) -> Result<()> {
        let frozen = async {
            while self.child.state() != Some('T') {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let frozen = timeout(START, frozen).await;
        frozen.map_err(|_| self.child.trouble(&"it does not stand still"))
    }
}

/// How long a process may take to end by itself.
const END: Duration = Duration::from_secs(2);

/// How long a process may take to open the store, or to stand still.
const START: Duration = Duration::from_secs(30);

//! The copies of the service, as the sale sees them: started, frozen, killed and replaced.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tenure_testkit::Port;
use tokio::sync::{Mutex, MutexGuard, mpsc};
use tokio::time::timeout;

use super::messages::{Halt, Said, Settings, Tell};
use super::record::Outcome;
use crate::child::Child;
use tenure_cli::error::{Failure, Result};
use tenure_cli::exit_code;

/// One copy: a port, and the process that serves it now.
#[derive(Debug)]
pub(super) struct Copy {
    settings: Settings,
    /// The port stays the copy's own while its process is replaced.
    _port: Port,
    /// Of the process that serves now, readable during a fault.
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

    /// Returns the process for a fault, one fault at a time.
    pub(super) async fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().await
    }

    /// Kills the process; another one serves in its place at once.
    pub(super) async fn replace(&self, process: &mut Process) -> Result<()> {
        // The successor listens on the same port before the old process dies. Otherwise the load balancer would
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
pub(super) struct Process {
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

    /// Waits until a sale has halted in the middle, the first after so many pieces are sold.
    pub(super) async fn halt(&mut self, after: u64, how: Halt) -> Result<()> {
        self.child.tell(&Tell::Halt { after, how })?;
        match self.hear().await? {
            Said::Halted => Ok(()),
            other => Err(self.child.out_of_turn(&other)),
        }
    }

    /// Waits until the sale that had halted is over; returns its outcome and its fence.
    pub(super) async fn outcome(&mut self) -> Result<(Outcome, Option<u64>)> {
        match self.hear().await? {
            Said::WentOn { outcome, fence } => Ok((outcome, fence)),
            _ => Ok((Outcome::Error, None)),
        }
    }

    /// Freezes a process that stands still, and waits until all its threads have stopped.
    pub(super) async fn freeze(&self) -> Result<()> {
        self.child.signal(Signal::STOP)?;
        let frozen = async {
            while self.child.state() != Some('T') {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let frozen = timeout(START, frozen).await;
        frozen.map_err(|_| self.child.trouble(&"it does not stop"))
    }

    /// Lets a frozen process continue with the sale that has halted.
    pub(super) fn resume(&mut self) -> Result<()> {
        self.child.tell(&Tell::GoOn)?;
        self.child.signal(Signal::CONT)
    }

    async fn hear(&mut self) -> Result<Said> {
        match self.said.recv().await {
            Some(Ok(Said::Failed(sentence))) => Err(Failure::new(exit_code::UNAVAILABLE, sentence)),
            Some(said) => said,
            None => Err(self.child.ended_early()),
        }
    }
}

/// How long a process may take to end by itself.
const END: Duration = Duration::from_secs(2);

/// How long a process may take to open the store, or to stop.
const START: Duration = Duration::from_secs(30);

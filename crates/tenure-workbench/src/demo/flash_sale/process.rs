//! The copies of the service, as seen by the sale: started, frozen, killed and replaced.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tenure_testkit::{Child, Port};
use tokio::sync::{Mutex, mpsc};
use tokio::time::timeout;

use super::messages::{Halt, Said, Settings, Tell};
use super::record::Outcome;
use crate::process::{self, OrFail, failure};
use tenure_cli::{Failure, Result};

/// One copy: a port, and the process that currently serves it.
#[derive(Debug)]
pub(super) struct Copy {
    pub(super) settings: Settings,
    /// Reserves the port for the copy while its process is replaced.
    _port: Port,
    /// The id of the serving process, readable during a fault.
    pid: AtomicU32,
    /// Held by a fault while it lasts, so there is one at a time.
    pub(super) process: Mutex<Process>,
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

    /// Returns the id of the process that serves now.
    pub(super) fn pid(&self) -> u32 {
        self.pid.load(Ordering::Relaxed)
    }

    /// Kills the process, and replaces it with another at once.
    pub(super) async fn replace(&self, process: &mut Process) -> Result<()> {
        // The successor listens on the same port before the old process dies. Otherwise the load
        // balancer would send its buyers to the other copies, one of which may be frozen.
        let successor = Process::start(&self.settings).await?;
        process.child.kill().or_fail()?;
        *process = successor;
        self.pid.store(process.child.id(), Ordering::Relaxed);
        Ok(())
    }

    /// Ends the process; kills it if it does not react.
    pub(super) async fn end(&self) {
        let mut process = self.process.lock().await;
        let give_up = Instant::now() + END;
        // Both fail if the process has already ended.
        let _ = process.child.send(&Tell::End);
        let _ = process.child.signal(Signal::CONT);
        while matches!(process.child.wait_until(Instant::now()), Ok(None))
            && Instant::now() < give_up
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// A process of a copy.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    said: mpsc::UnboundedReceiver<tenure_testkit::Result<Said>>,
}

impl Process {
    async fn start(settings: &Settings) -> Result<Self> {
        let mut child = process::start("a copy of the service", "demo-copy", None)?;
        child.send(settings).or_fail()?;
        let (tell, heard) = mpsc::unbounded_channel();
        child.on_message(move |said| {
            // Nobody listens to a process that was replaced.
            let _ = tell.send(said);
        });
        let mut process = Self { child, said: heard };
        let ready = timeout(START, process.hear()).await;
        let late = |_| failure(process.child.failed("it takes too long to start"));
        match ready.map_err(late)?? {
            Said::Ready => Ok(process),
            other => Err(process.unexpected(&other)),
        }
    }

    /// Waits until a sale has halted in the middle: the first sale after `after` sold pieces.
    pub(super) async fn halt(&mut self, after: u64, how: Halt) -> Result<()> {
        self.child.send(&Tell::Halt { after, how }).or_fail()?;
        match self.hear().await? {
            Said::Halted => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Waits until the halted sale is finished; returns its outcome and its fence.
    pub(super) async fn outcome(&mut self) -> Result<(Outcome, Option<u64>)> {
        match self.hear().await? {
            Said::WentOn { outcome, fence } => Ok((outcome, fence)),
            _ => Ok((Outcome::Error, None)),
        }
    }

    /// Freezes a process that is standing still, and waits until all its threads have stopped.
    pub(super) async fn freeze(&self) -> Result<()> {
        self.child.signal(Signal::STOP).or_fail()?;
        let frozen = async {
            while self.child.state() != Some('T') {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let frozen = timeout(START, frozen).await;
        frozen.map_err(|_| failure(self.child.failed("it does not stop")))
    }

    /// Lets a frozen process continue with its halted sale.
    pub(super) fn resume(&mut self) -> Result<()> {
        self.child.send(&Tell::GoOn).or_fail()?;
        self.child.signal(Signal::CONT).or_fail()
    }

    async fn hear(&mut self) -> Result<Said> {
        match self.said.recv().await {
            Some(Ok(Said::Failed(sentence))) => Err(Failure::unavailable(sentence)),
            Some(said) => said.or_fail(),
            None => Err(failure(self.child.failed("it ended early"))),
        }
    }

    fn unexpected(&self, said: &Said) -> Failure {
        let reason = format!("it sent {said:?} at the wrong time");
        failure(self.child.failed(&reason))
    }
}

/// The longest time that a process may take to end by itself.
const END: Duration = Duration::from_secs(2);

/// The longest time that a process may take to open the store, or to stop.
const START: Duration = Duration::from_secs(30);

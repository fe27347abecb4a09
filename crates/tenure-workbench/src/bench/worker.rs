//! A process of the benchmark, as seen by the process that started it.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde::Serialize;
use tenure_testkit::Child;

use crate::bench::figures::Figures;
use crate::bench::messages::{Message, Setup, Step, Times};
use crate::clock::now_ns;
use crate::process::{self, OrFail, failure};
use tenure_cli::{Failure, Result};

/// One process, which ends by itself when its workload is done.
#[derive(Debug)]
pub(super) struct Worker {
    child: Child,
    messages: Receiver<tenure_testkit::Result<Message>>,
}

impl Worker {
    /// Starts a process, and waits until it is ready.
    pub(super) fn start(url: &str, setup: &Setup) -> Result<Self> {
        let mut child = process::start("a process of the benchmark", "bench-child", Some(url))?;
        let (sender, messages) = channel();
        child.on_message(move |message| {
            // Nobody receives messages after the workload is done.
            let _ = sender.send(message);
        });
        let mut worker = Self { child, messages };
        worker.send(setup)?;
        match worker.next(START)? {
            Message::Ready => Ok(worker),
            other => Err(worker.unexpected(&other)),
        }
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Makes it lock, and waits until it has the lock.
    pub(super) fn lock(&mut self) -> Result<()> {
        self.send(&Step::Lock)?;
        self.locked()
    }

    /// Waits until it has the lock that it was told to take.
    pub(super) fn locked(&self) -> Result<()> {
        match self.next(WAIT)? {
            Message::Locked => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Makes it start now, and waits for its figures.
    pub(super) fn measure(&mut self, time: Duration) -> Result<Figures> {
        self.send(&Step::Go { at_ns: now_ns() })?;
        self.figures(time)
    }

    /// Waits for the figures of a process that has started.
    pub(super) fn figures(&self, time: Duration) -> Result<Figures> {
        match self.next(time + WAIT)? {
            Message::Figures(figures) => Ok(figures),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Makes it end; returns when it locked and released.
    pub(super) fn times(&mut self) -> Result<Times> {
        self.send(&Step::End)?;
        match self.next(WAIT)? {
            Message::Times(times) => self.end().map(|()| times),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Waits until it has ended and cleaned up.
    pub(super) fn end(&mut self) -> Result<()> {
        match self.child.wait_until(Instant::now() + WAIT).or_fail()? {
            Some(_) => Ok(()),
            None => Err(failure(self.child.failed("it does not end"))),
        }
    }

    /// Kills it with signal 9; returns the time just before.
    pub(super) fn kill(mut self) -> Result<u64> {
        let before = now_ns();
        self.child.kill().or_fail()?;
        Ok(before)
    }

    /// Sends it a message.
    pub(super) fn send(&mut self, message: &impl Serialize) -> Result<()> {
        let Err(error) = self.child.send(message) else {
            return Ok(());
        };
        // A process that failed has reported why, and no longer reads messages.
        Err(self.next(START).err().unwrap_or_else(|| failure(error)))
    }

    fn next(&self, patience: Duration) -> Result<Message> {
        let reason = match self.messages.recv_timeout(patience) {
            Ok(Ok(Message::Failed(sentence))) => {
                return Err(Failure::unavailable(sentence));
            }
            Ok(message) => return message.or_fail(),
            Err(RecvTimeoutError::Timeout) => "it takes too long",
            Err(RecvTimeoutError::Disconnected) => "it ended early",
        };
        Err(failure(self.child.failed(reason)))
    }

    fn unexpected(&self, message: &Message) -> Failure {
        let reason = format!("it sent {message:?} at the wrong time");
        failure(self.child.failed(&reason))
    }
}

/// The longest time that a process may take to open the store.
const START: Duration = Duration::from_secs(30);

/// The longest time that a lock may take: longer than a ttl, so that a store that waits for a lease
/// to expire can still be measured.
const WAIT: Duration = Duration::from_secs(60);

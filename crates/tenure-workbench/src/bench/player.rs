//! A process of the benchmark, as the one that started it sees it.

use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::bench::clock::now_ns;
use crate::bench::figures::Figures;
use crate::bench::wire::{Answer, Order, Step, Times};
use crate::child::Child;
use tenure_cli::error::{Failure, Result};
use tenure_cli::{exit_code, store};

/// One process, which ends by itself when its part is over.
#[derive(Debug)]
pub(super) struct Player {
    child: Child,
    said: Receiver<Result<Answer>>,
}

impl Player {
    /// Starts a process, and waits until it is ready for its part.
    pub(super) fn start(url: &str, order: &Order) -> Result<Self> {
        let mut command = Command::new(tenure_cli::program::own_program()?);
        command.arg("bench-child").env(store::VARIABLE, url);
        let mut child = Child::start("a process of the benchmark", &mut command)?;
        let (tell, heard) = channel();
        let said = child.said();
        thread::spawn(move || {
            for said in said {
                // Nobody listens when the part is over.
                let _ = tell.send(said);
            }
        });
        let mut player = Self { child, said: heard };
        player.write(order)?;
        match player.hear(START)? {
            Answer::Ready => Ok(player),
            other => Err(player.child.out_of_turn(&other)),
        }
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn tell(&mut self, step: Step) -> Result<()> {
        self.write(&step)
    }

    /// Lets it lock, and waits until it has the lock.
    pub(super) fn lock(&mut self) -> Result<()> {
        self.tell(Step::Lock)?;
        self.held()
    }

    /// Waits until it has the lock that it was told to take.
    pub(super) fn held(&self) -> Result<()> {
        match self.hear(WAIT)? {
            Answer::Held => Ok(()),
            other => Err(self.child.out_of_turn(&other)),
        }
    }

    /// Lets it begin now, and waits for its figures.
    pub(super) fn figures(&mut self, time: Duration) -> Result<Figures> {
        self.tell(Step::Go { at_ns: now_ns() })?;
        self.done(time)
    }

    /// Lets it have a turn, and waits for the figures.
    pub(super) fn turn(&mut self, time: Duration) -> Result<Figures> {
        self.tell(Step::Go { at_ns: now_ns() })?;
        match self.hear(time + WAIT)? {
            Answer::Turn(figures) => Ok(figures),
            other => Err(self.child.out_of_turn(&other)),
        }
    }

    /// Lets one end that had its turns.
    pub(super) fn end(mut self) -> Result<()> {
        self.tell(Step::End)?;
        self.done(Duration::ZERO).map(drop)
    }

    /// Waits for the figures of one that has begun.
    pub(super) fn done(&mut self, time: Duration) -> Result<Figures> {
        match self.hear(time + WAIT)? {
            Answer::Done(figures) => self.leave().map(|()| figures),
            other => Err(self.child.out_of_turn(&other)),
        }
    }

    /// Lets it end; returns when it locked and released.
    pub(super) fn times(&mut self) -> Result<Times> {
        self.tell(Step::End)?;
        match self.hear(WAIT)? {
            Answer::Times(times) => self.leave().map(|()| times),
            other => Err(self.child.out_of_turn(&other)),
        }
    }

    /// Kills it with signal 9; returns the moment before.
    pub(super) fn kill(mut self) -> Result<u64> {
        let before = now_ns();
        self.child.kill()?;
        Ok(before)
    }

    /// Waits for its end, so that it has cleaned up behind itself.
    fn leave(&mut self) -> Result<()> {
        match self.child.ended(Instant::now() + WAIT)? {
            Some(_) => Ok(()),
            None => Err(self.child.trouble(&"it does not end")),
        }
    }

    fn write(&mut self, line: &impl serde::Serialize) -> Result<()> {
        let Err(failure) = self.child.tell(line) else {
            return Ok(());
        };
        // A process that failed has said why, and does not listen any more.
        Err(self.hear(START).err().unwrap_or(failure))
    }

    fn hear(&self, patience: Duration) -> Result<Answer> {
        match self.said.recv_timeout(patience) {
            Ok(Ok(Answer::Failed(sentence))) => Err(Failure::new(exit_code::UNAVAILABLE, sentence)),
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => Err(self.child.trouble(&"it takes too long")),
            Err(RecvTimeoutError::Disconnected) => Err(self.child.ended_early()),
        }
    }
}

/// How long a process may take to open the store.
const START: Duration = Duration::from_secs(30);

/// How long a lock may take: longer than a ttl, so that a store which waits for it is measured.
const WAIT: Duration = Duration::from_secs(60);

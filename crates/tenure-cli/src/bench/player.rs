//! A process of the benchmark, as the one that started it sees it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::bench::clock::now_ns;
use crate::bench::figures::Figures;
use crate::bench::wire::{Answer, Order, Step, Times};
use crate::error::{Failure, Result};
use crate::exit_code;
use crate::run::guardian::own_program;

/// One process; killed if it is still there when nobody needs it any more.
///
/// It ends by itself when its part is over, or when this process does.
#[derive(Debug)]
pub(super) struct Player {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Player {
    /// Starts a process, and waits until it is ready for its part.
    pub(super) fn start(url: &str, order: &Order) -> Result<Self> {
        let mut command = Command::new(own_program().map_err(|error| trouble(&error))?);
        command
            .arg("bench-child")
            // Not an argument: everybody can read those, and a URL may hold a password.
            .env("TENURE_STORE", url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| trouble(&error))?;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(trouble(&"it has no pipes"));
        };
        let mut player = Self {
            child,
            to,
            from: BufReader::new(from),
        };
        player.write(order)?;
        match player.hear(START)? {
            Answer::Ready => Ok(player),
            other => Err(out_of_turn(&other)),
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
    pub(super) fn held(&mut self) -> Result<()> {
        match self.hear(WAIT)? {
            Answer::Held => Ok(()),
            other => Err(out_of_turn(&other)),
        }
    }

    /// Lets it begin now, and waits for its figures.
    pub(super) fn figures(&mut self, time: Duration) -> Result<Figures> {
        self.tell(Step::Go { at_ns: now_ns() })?;
        self.done(time)
    }

    /// Waits for the figures of one that has begun.
    pub(super) fn done(&mut self, time: Duration) -> Result<Figures> {
        match self.hear(time + WAIT)? {
            Answer::Done(figures) => self.leave().map(|()| figures),
            other => Err(out_of_turn(&other)),
        }
    }

    /// Lets it end; returns when it locked and released.
    pub(super) fn times(&mut self) -> Result<Times> {
        self.tell(Step::End)?;
        match self.hear(WAIT)? {
            Answer::Times(times) => self.leave().map(|()| times),
            other => Err(out_of_turn(&other)),
        }
    }

    /// Kills it with signal 9; returns the moment before.
    pub(super) fn kill(mut self) -> Result<u64> {
        let before = now_ns();
        self.child.kill().map_err(|error| trouble(&error))?;
        Ok(before)
    }

    /// Waits for its end, so that it has cleaned up behind itself.
    fn leave(&mut self) -> Result<()> {
        let give_up = Instant::now() + WAIT;
        while Instant::now() < give_up {
            if self
                .child
                .try_wait()
                .map_err(|error| trouble(&error))?
                .is_some()
            {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(trouble(&"it does not end"))
    }

    fn write(&mut self, line: &impl serde::Serialize) -> Result<()> {
        let mut text = serde_json::to_string(line).map_err(|error| trouble(&error))?;
        text.push('\n');
        let Err(error) = self.to.write_all(text.as_bytes()) else {
            return Ok(());
        };
        // A process that failed has said why, and does not listen any more.
        Err(self.hear(START).err().unwrap_or_else(|| trouble(&error)))
    }

    fn hear(&mut self, patience: Duration) -> Result<Answer> {
        if self.from.buffer().is_empty() {
            let patience = Timespec::try_from(patience).map_err(|error| trouble(&error))?;
            let mut ready = [PollFd::new(self.from.get_ref(), PollFlags::IN)];
            let ready = poll(&mut ready, Some(&patience)).map_err(|error| trouble(&error))?;
            if ready == 0 {
                return Err(trouble(&"it takes too long"));
            }
        }
        let mut line = String::new();
        let length = self
            .from
            .read_line(&mut line)
            .map_err(|error| trouble(&error))?;
        if length == 0 {
            return Err(trouble(&"it ended early"));
        }
        match serde_json::from_str(&line).map_err(|error| trouble(&error))? {
            Answer::Failed(sentence) => Err(Failure::new(exit_code::UNAVAILABLE, sentence)),
            answer => Ok(answer),
        }
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        // Both fail only if it has ended and was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn trouble(why: &dyn std::fmt::Display) -> Failure {
    let sentence = format!("a process of the benchmark cannot be used: {why}");
    Failure::new(exit_code::UNAVAILABLE, sentence)
}

fn out_of_turn(answer: &Answer) -> Failure {
    trouble(&format!("it said {answer:?} out of turn"))
}

/// How long a process may take to open the store.
const START: Duration = Duration::from_secs(30);

/// How long a lock may take: longer than a ttl, so that a store which waits for it is measured.
const WAIT: Duration = Duration::from_secs(60);

//! The client processes, as the one that started them sees them.

use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tenure_checker::{Event, What};

use crate::child::Child;
use tenure_cli::error::{Failure, Result};
use tenure_cli::{exit_code, store};

use super::clock::now_us;
use super::fault::Fault;
use super::recorder::Recorder;
use super::wire::{FINISH, Order, Said};

/// All client processes; those that are left are killed on drop.
#[derive(Debug)]
pub(super) struct Crew {
    /// Which ways to the store they take, in turn.
    urls: Vec<String>,
    /// What all are told, but for their number and seed.
    order: Order,
    recorder: Arc<Recorder>,
    members: Mutex<Members>,
}

#[derive(Debug, Default)]
struct Members {
    started: u32,
    present: Vec<Member>,
}

/// One process.
#[derive(Debug)]
struct Member {
    number: u32,
    child: Child,
    /// Ends when the process has said all.
    reader: JoinHandle<()>,
}

impl Crew {
    /// Starts so many clients.
    pub(super) fn start(
        urls: &[String],
        order: Order,
        size: u32,
        recorder: &Arc<Recorder>,
    ) -> Result<Self> {
        let crew = Self {
            urls: urls.to_vec(),
            order,
            recorder: Arc::clone(recorder),
            members: Mutex::default(),
        };
        for _ in 0..size {
            crew.add()?;
        }
        Ok(crew)
    }

    /// Kills the one that the lot falls on, and starts another.
    pub(super) fn kill(&self, lot: usize) -> Result<()> {
        let mut member = self.take(lot)?;
        // Stopped first: then all that it did has an earlier time than its end, and all that follows from it a later.
        if !member.stop()? {
            self.members().present.push(member);
            return Ok(());
        }
        let at_us = now_us();
        self.note(0, fault(Fault::Kill, member.number));
        member.child.kill()?;
        member.read_to_end();
        self.recorder.killed(member.number, at_us);
        self.add()
    }

    /// Stops the one that the lot falls on, until `nap` returns.
    pub(super) fn pause(&self, lot: usize, nap: impl FnOnce()) -> Result<()> {
        let member = self.take(lot)?;
        if !member.stop()? {
            self.members().present.push(member);
            return Ok(());
        }
        let target = Some(member.number);
        self.note(0, fault(Fault::Pause, member.number));
        nap();
        let kind = Fault::Pause.word().to_owned();
        self.note(0, What::Over { kind, target });
        let gone_on = member.go_on();
        self.members().present.push(member);
        gone_on.map(drop)
    }

    /// Looks for clients that have ended though nobody asked for it, and starts others.
    pub(super) fn replace_the_crashed(&self) -> Result<()> {
        let mut crashed = Vec::new();
        let mut members = self.members();
        for index in (0..members.present.len()).rev() {
            let ended = members.present[index].child.ended(Instant::now());
            if ended?.is_some() {
                crashed.push(members.present.swap_remove(index));
            }
        }
        drop(members);
        for mut member in crashed {
            member.read_to_end();
            self.note(member.number, What::Ended { crashed: true });
            self.add()?;
        }
        Ok(())
    }

    /// Lets all finish what they have begun; returns how many had to be killed because they did not.
    pub(super) fn finish(&self, patience: Duration) -> Result<usize> {
        let mut members = std::mem::take(&mut self.members().present);
        for member in &mut members {
            // It fails if the process has crashed, which is seen below.
            let _ = member.child.tell(&FINISH);
        }
        let give_up = Instant::now() + patience;
        let mut stuck = 0;
        for mut member in members {
            let ended = member.child.ended(give_up)?;
            if ended.is_none() {
                stuck += 1;
                member.child.kill()?;
            }
            member.read_to_end();
            // What does not end is told by its claims that have no end.
            let crashed = ended.is_some_and(|status| !status.success());
            self.note(member.number, What::Ended { crashed });
        }
        Ok(stuck)
    }

    fn add(&self) -> Result<()> {
        let mut members = self.members();
        members.started += 1;
        let number = members.started;
        let order = Order {
            process: number,
            seed: self.order.seed.wrapping_add(u64::from(number) * 1000),
            ..self.order.clone()
        };
        self.note(number, What::Started);
        let url = &self.urls[number as usize % self.urls.len()];
        let member = Member::start(url, &order, &self.recorder)?;
        members.present.push(member);
        Ok(())
    }

    /// Takes one out: every other lot falls on those who hold something, since a fault there says more.
    fn take(&self, lot: usize) -> Result<Member> {
        let holders = self.recorder.holders();
        let mut members = self.members();
        let present = &members.present;
        let holding = |index: &usize| holders.contains(&present[*index].number);
        let mut from: Vec<_> = (0..present.len()).filter(holding).collect();
        if lot.is_multiple_of(2) || from.is_empty() {
            from = (0..present.len()).collect();
        }
        let Some(index) = from.get(lot / 2 % from.len().max(1)) else {
            let sentence = "no client process of the torture is left";
            return Err(Failure::new(exit_code::UNAVAILABLE, sentence));
        };
        let index = *index;
        Ok(members.present.swap_remove(index))
    }

    fn note(&self, process: u32, what: What) {
        self.recorder.note(Event {
            at_us: now_us(),
            process,
            what,
        });
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Member {
    fn start(url: &str, order: &Order, recorder: &Arc<Recorder>) -> Result<Self> {
        let mut command = Command::new(tenure_cli::program::own_program()?);
        command.arg("torture-client").env(store::VARIABLE, url);
        let mut child = Child::start("a client process of the torture", &mut command)?;
        let (said, recorder) = (child.said(), Arc::clone(recorder));
        let reader = thread::spawn(move || said.for_each(|said| note(said, &recorder)));
        child.tell(order)?;
        Ok(Self {
            number: order.process,
            child,
            reader,
        })
    }

    /// Stops it where it stands, and returns once it does; `false` if it has crashed before.
    fn stop(&self) -> Result<bool> {
        self.child.signal(Signal::STOP)?;
        self.wait_for_state(|state| state == 'T')
    }

    /// Lets it go on, and returns once it does; `false` if it has crashed before.
    fn go_on(&self) -> Result<bool> {
        self.child.signal(Signal::CONT)?;
        self.wait_for_state(|state| state != 'T')
    }

    fn wait_for_state(&self, wanted: impl Fn(char) -> bool) -> Result<bool> {
        let give_up = Instant::now() + PATIENCE;
        while Instant::now() < give_up {
            match self.child.state() {
                Some('Z' | 'X') | None => return Ok(false),
                Some(state) if wanted(state) => return Ok(true),
                Some(_) => thread::sleep(TICK),
            }
        }
        Err(self.child.trouble(&"a signal does not reach it"))
    }

    /// Waits until all that it said is noted; it has ended.
    fn read_to_end(&mut self) {
        let reader = std::mem::replace(&mut self.reader, thread::spawn(|| ()));
        // A panic in there has been printed, and what it did not read is missing in the history.
        let _ = reader.join();
    }
}

/// Notes what a process says.
fn note(said: Result<Said>, recorder: &Recorder) {
    match said {
        Ok(Said::Noted(event)) => recorder.note(event),
        Ok(Said::Believes { claim, until_us }) => recorder.believes(claim, until_us),
        Ok(Said::Failed(sentence)) => recorder.fail(sentence),
        Err(failure) => recorder.fail(failure.to_string()),
    }
}

fn fault(fault: Fault, target: u32) -> What {
    What::Fault {
        kind: fault.word().to_owned(),
        target: Some(target),
    }
}

/// How long a signal may take, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(20);
const TICK: Duration = Duration::from_millis(1);

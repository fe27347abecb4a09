//! The client processes, as the one that started them sees them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tenure_checker::What;
use tenure_testkit::Child;

use crate::process::{self, OrFail};
use tenure_cli::error::{Failure, Result};
use tenure_cli::exit_code;

use super::fault::Fault;
use super::messages::{FINISH, Message, Setup};
use super::recorder::Recorder;
use crate::history::{self, now_us};

/// All client processes; those that are left are killed on drop.
#[derive(Debug)]
pub(super) struct Crew {
    /// Which ways to the store they take, in turn.
    urls: Vec<String>,
    /// What all are told, but for their number and seed.
    setup: Setup,
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
    /// Ends when all messages of the process are noted.
    reader: JoinHandle<()>,
}

impl Crew {
    /// Starts so many clients.
    pub(super) fn start(
        urls: &[String],
        setup: Setup,
        size: u32,
        recorder: &Arc<Recorder>,
    ) -> Result<Self> {
        let crew = Self {
            urls: urls.to_vec(),
            setup,
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
        if !member.child.stop().or_fail()? {
            self.members().present.push(member);
            return Ok(());
        }
        let at_us = now_us();
        self.note(0, history::fault(Fault::Kill.word(), Some(member.number)));
        member.child.kill().or_fail()?;
        member.read_to_end();
        self.recorder.killed(member.number, at_us);
        self.add()
    }

    /// Stops the one that the lot falls on, until `nap` returns.
    pub(super) fn pause(&self, lot: usize, nap: impl FnOnce()) -> Result<()> {
        let member = self.take(lot)?;
        if !member.child.stop().or_fail()? {
            self.members().present.push(member);
            return Ok(());
        }
        let target = Some(member.number);
        self.note(0, history::fault(Fault::Pause.word(), target));
        nap();
        self.note(0, history::over(Fault::Pause.word(), target));
        let resumed = member.child.resume();
        self.members().present.push(member);
        resumed.or_fail()
    }

    /// Looks for clients that have ended though nobody asked for it, and starts others.
    pub(super) fn replace_the_crashed(&self) -> Result<()> {
        let mut crashed = Vec::new();
        let mut members = self.members();
        for index in (0..members.present.len()).rev() {
            let ended = members.present[index].child.wait_until(Instant::now());
            if ended.or_fail()?.is_some() {
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
            let _ = member.child.send(&FINISH);
        }
        let give_up = Instant::now() + patience;
        let mut stuck = 0;
        for mut member in members {
            let ended = member.child.wait_until(give_up).or_fail()?;
            if ended.is_none() {
                stuck += 1;
                member.child.kill().or_fail()?;
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
        let setup = Setup {
            process: number,
            seed: self.setup.seed.wrapping_add(u64::from(number) * 1000),
            ..self.setup.clone()
        };
        self.note(number, What::Started);
        let url = &self.urls[number as usize % self.urls.len()];
        let member = Member::start(url, &setup, &self.recorder)?;
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
        self.recorder.note(history::now(process, what));
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Member {
    fn start(url: &str, setup: &Setup, recorder: &Arc<Recorder>) -> Result<Self> {
        let name = "a client process of the torture";
        let mut child = process::start(name, "torture-client", Some(url))?;
        let recorder = Arc::clone(recorder);
        let reader = child.on_message(move |message| note(message, &recorder));
        child.send(setup).or_fail()?;
        Ok(Self {
            number: setup.process,
            child,
            reader,
        })
    }

    /// Waits until all its messages are noted; it has ended.
    fn read_to_end(&mut self) {
        let reader = std::mem::replace(&mut self.reader, thread::spawn(|| ()));
        // A panic in there has been printed, and what it did not read is missing in the history.
        let _ = reader.join();
    }
}

/// Notes what a process sends.
fn note(message: tenure_testkit::Result<Message>, recorder: &Recorder) {
    match message {
        Ok(Message::Noted(event)) => recorder.note(event),
        Ok(Message::Believes { claim, until_us }) => recorder.believes(claim, until_us),
        Ok(Message::Failed(sentence)) => recorder.fail(sentence),
        Err(error) => recorder.fail(error.to_string()),
    }
}

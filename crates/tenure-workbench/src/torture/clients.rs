//! The client processes, as seen by the process that started them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tenure_checker::What;
use tenure_testkit::Child;

use crate::process::OrFail;
use tenure_cli::{Failure, Result};

use super::fault::Fault;
use super::messages::{FINISH, Message, Setup};
use super::recorder::Recorder;
use crate::clock::now_us;
use crate::history;

/// All client processes; dropping it kills those that are left.
#[derive(Debug)]
pub(super) struct Clients {
    /// The URLs that they use in turn to reach the store.
    urls: Vec<String>,
    /// The first message to all of them, except for their number and seed.
    setup: Setup,
    recorder: Arc<Recorder>,
    processes: Mutex<Processes>,
}

#[derive(Debug, Default)]
struct Processes {
    started: u32,
    present: Vec<Process>,
}

/// One process.
#[derive(Debug)]
struct Process {
    number: u32,
    child: Child,
    /// Ends when all messages of the process are recorded.
    reader: JoinHandle<()>,
}

impl Clients {
    /// Starts `size` clients.
    pub(super) fn start(
        urls: &[String],
        setup: Setup,
        size: u32,
        recorder: &Arc<Recorder>,
    ) -> Result<Self> {
        let clients = Self {
            urls: urls.to_vec(),
            setup,
            recorder: Arc::clone(recorder),
            processes: Mutex::default(),
        };
        for _ in 0..size {
            clients.add()?;
        }
        Ok(clients)
    }

    /// Kills one of them, chosen by a random number, and starts another.
    pub(super) fn kill(&self, random: usize) -> Result<()> {
        let mut client = self.take(random)?;
        // Stopped first, so that everything it did has an earlier time than its end, and everything
        // that follows has a later time.
        if !client.child.stop().or_fail()? {
            self.processes().present.push(client);
            return Ok(());
        }
        let at_us = now_us();
        self.note(0, history::fault(Fault::Kill, Some(client.number)));
        client.child.kill().or_fail()?;
        client.read_to_end();
        self.recorder.killed(client.number, at_us);
        self.add()
    }

    /// Stops one of them, chosen by a random number, until `nap` returns.
    pub(super) fn pause(&self, random: usize, nap: impl FnOnce()) -> Result<()> {
        let client = self.take(random)?;
        if !client.child.stop().or_fail()? {
            self.processes().present.push(client);
            return Ok(());
        }
        let target = Some(client.number);
        self.note(0, history::fault(Fault::Pause, target));
        nap();
        self.note(0, history::over(Fault::Pause, target));
        let resumed = client.child.resume();
        self.processes().present.push(client);
        resumed.or_fail()
    }

    /// Replaces clients that have crashed.
    pub(super) fn replace_the_crashed(&self) -> Result<()> {
        let mut crashed = Vec::new();
        let mut processes = self.processes();
        for index in (0..processes.present.len()).rev() {
            let ended = processes.present[index].child.wait_until(Instant::now());
            if ended.or_fail()?.is_some() {
                crashed.push(processes.present.swap_remove(index));
            }
        }
        drop(processes);
        for mut client in crashed {
            client.read_to_end();
            self.note(client.number, What::Ended { crashed: true });
            self.add()?;
        }
        Ok(())
    }

    /// Makes all of them finish what they have started, and kills those that do not.
    pub(super) fn finish(&self, patience: Duration) -> Result<()> {
        let mut processes = std::mem::take(&mut self.processes().present);
        for client in &mut processes {
            // This fails if the process has crashed, which is detected below.
            let _ = client.child.send(&FINISH);
        }
        let give_up = Instant::now() + patience;
        for mut client in processes {
            let ended = client.child.wait_until(give_up).or_fail()?;
            if ended.is_none() {
                client.child.kill().or_fail()?;
            }
            client.read_to_end();
            // Those that do not end have claims without an end in the history.
            let crashed = ended.is_some_and(|status| !status.success());
            self.note(client.number, What::Ended { crashed });
        }
        Ok(())
    }

    fn add(&self) -> Result<()> {
        let mut processes = self.processes();
        processes.started += 1;
        let number = processes.started;
        let setup = Setup {
            process: number,
            seed: self.setup.seed.wrapping_add(u64::from(number) * 1000),
            ..self.setup.clone()
        };
        self.note(number, What::Started);
        let url = &self.urls[number as usize % self.urls.len()];
        let client = Process::start(url, &setup, &self.recorder)?;
        processes.present.push(client);
        Ok(())
    }

    /// Removes one of them. Every other random number chooses among those that hold something,
    /// because a fault there tests more.
    fn take(&self, random: usize) -> Result<Process> {
        let holders = self.recorder.holders();
        let mut processes = self.processes();
        let present = &processes.present;
        let holding = |index: &usize| holders.contains(&present[*index].number);
        let mut from: Vec<_> = (0..present.len()).filter(holding).collect();
        if random.is_multiple_of(2) || from.is_empty() {
            from = (0..present.len()).collect();
        }
        let Some(index) = from.get(random / 2 % from.len().max(1)) else {
            let sentence = "no client process of the torture is left";
            return Err(Failure::unavailable(sentence));
        };
        let index = *index;
        Ok(processes.present.swap_remove(index))
    }

    fn note(&self, process: u32, what: What) {
        self.recorder.note(history::now(process, what));
    }

    fn processes(&self) -> MutexGuard<'_, Processes> {
        self.processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Process {
    fn start(url: &str, setup: &Setup, recorder: &Arc<Recorder>) -> Result<Self> {
        let name = "a client process of the torture";
        let mut child = crate::process::start(name, "torture-client", Some(url))?;
        let recorder = Arc::clone(recorder);
        let reader = child.on_message(move |message| note(message, &recorder));
        child.send(setup).or_fail()?;
        Ok(Self {
            number: setup.process,
            child,
            reader,
        })
    }

    /// Waits until all messages of a process that has ended are recorded.
    fn read_to_end(&mut self) {
        let reader = std::mem::replace(&mut self.reader, thread::spawn(|| ()));
        // A panic of the reader has been printed, and the messages that it did not read are missing
        // in the history.
        let _ = reader.join();
    }
}

/// Records a message of a process.
fn note(message: tenure_testkit::Result<Message>, recorder: &Recorder) {
    match message {
        Ok(Message::Noted(event)) => recorder.note(event),
        Ok(Message::Believes { claim, until_us }) => recorder.believes(claim, until_us),
        Ok(Message::Failed(sentence)) => recorder.fail(sentence),
        Err(error) => recorder.fail(error.to_string()),
    }
}

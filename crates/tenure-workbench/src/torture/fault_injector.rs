//! Injects faults at random into the clients, and at the same time into the servers and the links
//! to them.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fastrand::Rng;
use tenure_checker::Event;
use tenure_testkit::Fault as LinkFault;

use tenure_cli::{Failure, Result};

use super::Plan;
use super::clients::Clients;
use super::fault::Fault;
use super::links::Links;
use super::recorder::Recorder;
use super::stop::Stop;
use super::target::Target;
use crate::clock::now_us;
use crate::history;
use crate::process::OrFail;

/// The faults in progress; after `stop` all of them are over.
#[derive(Debug)]
pub(super) struct FaultInjector {
    stop: Arc<Stop>,
    lanes: Vec<JoinHandle<Result<()>>>,
}

impl FaultInjector {
    /// Starts to inject faults.
    pub(super) fn start(
        plan: &Plan,
        clients: &Arc<Clients>,
        target: &Arc<Target>,
        recorder: &Arc<Recorder>,
    ) -> Self {
        let stop = Arc::new(Stop::default());
        let (of_clients, of_store): (Vec<_>, Vec<_>) =
            plan.faults.iter().partition(|fault| fault.hits_a_client());
        let lanes = [of_clients, of_store].into_iter().zip(plan.seed..);
        let lanes = lanes.filter(|(faults, _)| !faults.is_empty());
        let lanes = lanes.map(|(faults, seed)| {
            let lane = Lane {
                faults,
                random: Rng::with_seed(seed),
                ttl: plan.ttl,
                // Short enough that each kind of fault happens.
                gap: plan.ttl.min(plan.time / 12),
                clients: Arc::clone(clients),
                target: Arc::clone(target),
                recorder: Arc::clone(recorder),
                stop: Arc::clone(&stop),
            };
            thread::spawn(|| lane.run())
        });
        Self {
            lanes: lanes.collect(),
            stop,
        }
    }

    /// Ends the faults in progress, and injects no more.
    pub(super) fn stop(self) -> Result<()> {
        self.stop.stop();
        for lane in self.lanes {
            let ended = lane.join();
            ended.map_err(|_| {
                Failure::unavailable("a fault could not be injected: its thread panicked")
            })??;
        }
        Ok(())
    }
}

/// A sequence of faults.
#[derive(Debug)]
struct Lane {
    faults: Vec<Fault>,
    random: Rng,
    ttl: Duration,
    /// The longest time without a fault between two faults.
    gap: Duration,
    clients: Arc<Clients>,
    target: Arc<Target>,
    recorder: Arc<Recorder>,
    stop: Arc<Stop>,
}

impl Lane {
    /// Injects all kinds in turn, in an order that changes from round to round.
    fn run(mut self) -> Result<()> {
        loop {
            let mut round = self.faults.clone();
            self.random.shuffle(&mut round);
            for fault in round {
                let gap = self.gap * self.random.u32(20..=100) / 100;
                if !self.stop.sleep(gap) {
                    return Ok(());
                }
                self.inject(fault)?;
            }
        }
    }

    fn inject(&mut self, fault: Fault) -> Result<()> {
        let which = self.random.usize(..);
        match fault {
            Fault::Kill => self.clients.kill(which)?,
            Fault::Pause => {
                let time = self.ttl * self.random.u32(50..=300) / 100;
                let nap = || {
                    self.stop.sleep(time);
                };
                self.clients.pause(which, nap)?;
            }
            Fault::ReplyLoss => self.lose_replies(),
            Fault::Cut => self.cut(),
            Fault::Freeze => self.freeze(),
            Fault::Restart => self.restart(which)?,
        }
        Ok(())
    }

    /// Loses one reply together with its connection, or all replies for a while.
    fn lose_replies(&mut self) {
        let links = Links::choose(&self.target, &mut self.random);
        let before = links.replies_lost();
        let begun_us = now_us();
        if self.random.bool() {
            links.lose_next_reply();
            let is_lost = || links.replies_lost() > before;
            let mut tries = 0..TRIES;
            while !is_lost() && tries.next().is_some() && self.stop.sleep(TICK) {}
            links.lose_no_reply();
        } else {
            links.set(LinkFault::LoseReplies);
            self.stop.sleep(self.ttl * self.random.u32(20..=150) / 100);
            // Frozen before they are cut: a connection that lost a reply must not survive and
            // mistake the next reply for it.
            links.set(LinkFault::Freeze);
            links.cut();
            links.mend();
        }
        if links.replies_lost() > before {
            self.note_at(begun_us, Fault::ReplyLoss);
            self.note_over(Fault::ReplyLoss);
        }
    }

    fn cut(&mut self) {
        let links = Links::choose(&self.target, &mut self.random);
        let before = links.connections_cut();
        let begun_us = now_us();
        links.cut();
        if links.connections_cut() > before {
            self.note_at(begun_us, Fault::Cut);
            self.note_over(Fault::Cut);
        }
    }

    fn freeze(&mut self) {
        let percent = match self.random.bool() {
            true => self.random.u32(20..=80),
            false => self.random.u32(120..=250),
        };
        let links = Links::choose(&self.target, &mut self.random);
        let begun_us = now_us();
        links.set(LinkFault::Freeze);
        let landed = links.are_silent();
        if landed {
            self.note_at(begun_us, Fault::Freeze);
        }
        self.stop.sleep(self.ttl * percent / 100);
        links.mend();
        if landed {
            self.note_over(Fault::Freeze);
        }
    }

    fn restart(&mut self, which: usize) -> Result<()> {
        let down = self.ttl * self.random.u32(0..=50) / 100;
        let mut server = self.target.server(which % self.target.servers());
        let before = server.pid();
        let begun_us = now_us();
        server.kill().or_fail()?;
        if !server.is_running() {
            self.note_at(begun_us, Fault::Restart);
        }
        self.stop.sleep(down);
        server.start_again().or_fail()?;
        if server.pid() != before {
            self.note_over(Fault::Restart);
        }
        Ok(())
    }

    fn note_at(&self, at_us: u64, fault: Fault) {
        self.recorder.note(Event {
            at_us,
            process: 0,
            what: history::fault(fault, None),
        });
    }

    fn note_over(&self, fault: Fault) {
        let over = history::over(fault, None);
        self.recorder.note(history::now(0, over));
    }
}

/// How long to wait for a request whose reply is to be lost.
const TICK: Duration = Duration::from_millis(10);
const TRIES: u32 = 200;

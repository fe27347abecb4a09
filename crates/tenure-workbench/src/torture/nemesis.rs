//! Makes the faults, by lot: those of the clients, and beside them those of the store and of the way to it.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fastrand::Rng;
use tenure_checker::{Event, What};
use tenure_testkit::Fault as Broken;

use tenure_cli::error::{Failure, Result};
use tenure_cli::exit_code;

use super::Plan;
use super::clock::now_us;
use super::crew::Crew;
use super::fault::Fault;
use super::recorder::Recorder;
use super::stage::Stage;
use super::stop::Stop;
use super::ways::Ways;

/// The faults under way; when it is stopped everything is whole again.
#[derive(Debug)]
pub(super) struct Nemesis {
    stop: Arc<Stop>,
    lanes: Vec<JoinHandle<Result<()>>>,
}

impl Nemesis {
    /// Begins to make faults.
    pub(super) fn start(
        plan: &Plan,
        crew: &Arc<Crew>,
        stage: &Arc<Stage>,
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
                lots: Rng::with_seed(seed),
                ttl: plan.ttl,
                // Short enough for each kind to have its turn.
                gap: plan.ttl.min(plan.time / 12),
                crew: Arc::clone(crew),
                stage: Arc::clone(stage),
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

    /// Makes no more faults, and ends those that are under way.
    pub(super) fn stop(self) -> Result<()> {
        self.stop.stop();
        for lane in self.lanes {
            let ended = lane.join();
            ended.map_err(|_| trouble("its thread panicked".to_owned()))??;
        }
        Ok(())
    }
}

/// Faults one after another.
#[derive(Debug)]
struct Lane {
    faults: Vec<Fault>,
    lots: Rng,
    ttl: Duration,
    /// How long all is well between two faults, at the longest.
    gap: Duration,
    crew: Arc<Crew>,
    stage: Arc<Stage>,
    recorder: Arc<Recorder>,
    stop: Arc<Stop>,
}

impl Lane {
    /// Makes all kinds in turn, in an order that changes from round to round.
    fn run(mut self) -> Result<()> {
        loop {
            let mut round = self.faults.clone();
            self.lots.shuffle(&mut round);
            for fault in round {
                let gap = self.gap * self.lots.u32(20..=100) / 100;
                if !self.stop.sleep(gap) {
                    return Ok(());
                }
                self.make(fault)?;
            }
        }
    }

    fn make(&mut self, fault: Fault) -> Result<()> {
        let lot = self.lots.usize(..);
        match fault {
            Fault::Kill => self.crew.kill(lot)?,
            Fault::Pause => {
                let time = self.ttl * self.lots.u32(50..=300) / 100;
                let nap = || {
                    self.stop.sleep(time);
                };
                self.crew.pause(lot, nap)?;
            }
            Fault::ReplyLoss => self.lose_replies(),
            Fault::Cut => self.cut(),
            Fault::Freeze => self.freeze(),
            Fault::Restart => self.restart(lot)?,
        }
        Ok(())
    }

    /// Loses one answer and its connection with it, or all answers for a while.
    fn lose_replies(&mut self) {
        let ways = Ways::draw(&self.stage, &mut self.lots);
        let before = ways.replies_lost();
        let begun_us = now_us();
        if self.lots.bool() {
            ways.lose_next_reply();
            let is_lost = || ways.replies_lost() > before;
            let mut tries = 0..TRIES;
            while !is_lost() && tries.next().is_some() && self.stop.sleep(TICK) {}
            ways.lose_no_reply();
        } else {
            ways.set(Broken::LoseReplies);
            self.stop.sleep(self.ttl * self.lots.u32(20..=150) / 100);
            // Frozen before they are cut: a connection that lost an answer must not live to take the next one for it.
            ways.set(Broken::Freeze);
            ways.cut();
            ways.mend();
        }
        if ways.replies_lost() > before {
            self.note_at(begun_us, Fault::ReplyLoss);
            self.note_over(Fault::ReplyLoss);
        }
    }

    fn cut(&mut self) {
        let ways = Ways::draw(&self.stage, &mut self.lots);
        let before = ways.connections_cut();
        let begun_us = now_us();
        ways.cut();
        if ways.connections_cut() > before {
            self.note_at(begun_us, Fault::Cut);
            self.note_over(Fault::Cut);
        }
    }

    fn freeze(&mut self) {
        let percent = match self.lots.bool() {
            true => self.lots.u32(20..=80),
            false => self.lots.u32(120..=250),
        };
        let ways = Ways::draw(&self.stage, &mut self.lots);
        let begun_us = now_us();
        ways.set(Broken::Freeze);
        let landed = ways.are_silent();
        if landed {
            self.note_at(begun_us, Fault::Freeze);
        }
        self.stop.sleep(self.ttl * percent / 100);
        ways.mend();
        if landed {
            self.note_over(Fault::Freeze);
        }
    }

    fn restart(&mut self, lot: usize) -> Result<()> {
        let down = self.ttl * self.lots.u32(0..=50) / 100;
        let mut server = self.stage.server(lot % self.stage.servers());
        let before = server.pid();
        let begun_us = now_us();
        server
            .kill()
            .map_err(|error| trouble(format!("{error:?}")))?;
        if !server.is_running() {
            self.note_at(begun_us, Fault::Restart);
        }
        self.stop.sleep(down);
        let started = server.start_again();
        started.map_err(|error| trouble(format!("{error:?}")))?;
        if server.pid() != before {
            self.note_over(Fault::Restart);
        }
        Ok(())
    }

    fn note_at(&self, at_us: u64, fault: Fault) {
        let kind = fault.word().to_owned();
        let what = What::Fault { kind, target: None };
        self.recorder.note(Event {
            at_us,
            process: 0,
            what,
        });
    }

    fn note_over(&self, fault: Fault) {
        let kind = fault.word().to_owned();
        self.recorder.note(Event {
            at_us: now_us(),
            process: 0,
            what: What::Over { kind, target: None },
        });
    }
}

fn trouble(why: String) -> Failure {
    let sentence = format!("a fault could not be made: {why}");
    Failure::new(exit_code::UNAVAILABLE, sentence)
}

/// How long to wait for a request whose answer is to be lost.
const TICK: Duration = Duration::from_millis(10);
const TRIES: u32 = 200;

//! A correct lock, and random runs of it: processes ask, hold, write, are paused and killed.
//!
//! One name, exclusive, first come first served. A holder that is killed or paused loses the lock
//! after a lease. A paused holder notices that as the first thing when it continues.

use std::collections::VecDeque;

use fastrand::Rng;
use tenure_checker::{Event, Freed, History, Mode, What, Written};

/// How long a holder keeps the lock after its last sign of life, in microseconds.
const LEASE_US: u64 = 5_000;

/// Returns the history of one run.
pub(crate) fn run(seed: u64) -> History {
    let mut run = Run::new(seed);
    for _ in 0..400 {
        run.step();
    }
    run.heal();
    run.history.sort_by_key(|event| event.at_us);
    run.history
}

struct Run {
    rng: Rng,
    now_us: u64,
    history: History,
    line: VecDeque<Waiter>,
    holder: Option<Waiter>,
    state: [State; 5],
    last_claim: u64,
    fence: u64,
    version: u64,
}

#[derive(Clone, Copy)]
struct Waiter {
    claim: u64,
    process: u32,
    fence: u64,
    since_us: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Idle,
    Busy,
    /// With the claim that it holds, if any.
    Paused(Option<u64>),
    Dead,
}

impl Run {
    fn new(seed: u64) -> Self {
        Self {
            rng: Rng::with_seed(seed),
            now_us: 0,
            history: Vec::new(),
            line: VecDeque::new(),
            holder: None,
            state: [State::Idle; 5],
            last_claim: 0,
            fence: 0,
            version: 0,
        }
    }

    /// Lets one process take its next step.
    fn step(&mut self) {
        self.now_us += self.rng.u64(0..300);
        let number = self.rng.u32(1..=5);
        match (self.state(number), self.rng.u8(0..60)) {
            (State::Idle | State::Busy, 0) => self.pause(number),
            (State::Idle | State::Busy, 1) if number == 5 => self.kill(number),
            (State::Idle, _) => self.ask(number),
            (State::Busy, _) => self.work(number),
            (State::Paused(_), 0..10) => self.wake(number),
            (State::Paused(_) | State::Dead, _) => {}
        }
        self.expire();
        self.hand_over();
    }

    /// Wakes all processes, and lets them all finish.
    fn heal(&mut self) {
        for number in 1..=5 {
            if let State::Paused(_) = self.state(number) {
                self.wake(number);
            }
        }
        self.note(0, What::Healed);
        while self.holder.is_some() || !self.line.is_empty() {
            self.now_us += 100;
            if let Some(holder) = self.holder {
                self.work(holder.process);
            }
            self.expire();
            self.hand_over();
        }
    }

    fn ask(&mut self, process: u32) {
        self.last_claim += 1;
        let claim = self.last_claim;
        let asked = What::Asked {
            claim,
            name: "stock".to_owned(),
            mode: Mode::Exclusive,
            owner: format!("owner {process}"),
        };
        self.note(process, asked);
        self.line.push_back(Waiter {
            claim,
            process,
            fence: 0,
            since_us: 0,
        });
        self.set(process, State::Busy);
        if self.holder.is_some() {
            self.note(0, What::Queued { claim });
        }
    }

    /// A holder writes, and then releases; a waiter waits.
    fn work(&mut self, process: u32) {
        let Some(holder) = self.holder.filter(|holder| holder.process == process) else {
            return;
        };
        if self.state(process) != State::Busy {
            return;
        }
        let claim = holder.claim;
        self.note(0, self.write(holder, Written::Accepted));
        self.version += 1;
        self.note(process, What::Releasing { claim });
        self.now_us += self.rng.u64(1..50);
        let freed = Freed::Freed;
        self.note(process, What::Released { claim, freed });
        self.holder = None;
        self.set(process, State::Idle);
    }

    fn write(&self, holder: Waiter, outcome: Written) -> What {
        What::Wrote {
            claim: holder.claim,
            name: "stock".to_owned(),
            fence: Some(holder.fence),
            read: self.version,
            version: self.version + 1,
            outcome,
        }
    }

    fn hand_over(&mut self) {
        if self.holder.is_some() {
            return;
        }
        // A paused waiter has lost its place and gives up as soon as it can.
        let awake = |it: &Waiter| self.state(it.process) == State::Busy;
        let Some(next) = self.line.iter().position(awake) else {
            return;
        };
        let Some(mut next) = self.line.remove(next) else {
            return;
        };
        self.fence += 1;
        next.fence = self.fence;
        next.since_us = self.now_us;
        self.holder = Some(next);
        let fence = Some(next.fence);
        self.note(
            next.process,
            What::Granted {
                claim: next.claim,
                fence,
            },
        );
    }

    /// Ends the lease of a silent holder.
    fn expire(&mut self) {
        let Some(holder) = self.holder else {
            return;
        };
        let silent = matches!(self.state(holder.process), State::Paused(_) | State::Dead);
        if silent && self.now_us > holder.since_us + LEASE_US {
            self.holder = None;
        }
    }

    fn pause(&mut self, process: u32) {
        let held = self.holder.filter(|holder| holder.process == process);
        self.set(process, State::Paused(held.map(|holder| holder.claim)));
        self.note(0, fault("pause", process));
    }

    fn wake(&mut self, process: u32) {
        let State::Paused(held) = self.state(process) else {
            return;
        };
        let (kind, target) = ("pause".to_owned(), Some(process));
        self.note(0, What::Over { kind, target });
        let holds = self.holder.is_some_and(|holder| holder.process == process);
        let waits = self.line.iter().position(|it| it.process == process);
        if let Some(place) = waits {
            self.line.remove(place);
            let claim = self.last_of(process);
            self.note(process, What::Refused { claim });
        } else if let Some(claim) = held.filter(|_| !holds) {
            self.note(process, What::Lost { claim });
        }
        let next = if holds { State::Busy } else { State::Idle };
        self.set(process, next);
    }

    fn kill(&mut self, process: u32) {
        self.note(0, fault("kill", process));
        self.line.retain(|it| it.process != process);
        self.set(process, State::Dead);
    }

    fn last_of(&self, process: u32) -> u64 {
        let own = self
            .history
            .iter()
            .rev()
            .filter(|event| event.process == process);
        let mut asked = own.filter_map(|event| match event.what {
            What::Asked { claim, .. } => Some(claim),
            _ => None,
        });
        asked.next().unwrap_or_default()
    }

    fn note(&mut self, process: u32, what: What) {
        self.now_us += 1;
        self.history.push(Event::new(self.now_us, process, what));
    }

    fn state(&self, process: u32) -> State {
        self.state[process as usize - 1]
    }

    fn set(&mut self, process: u32, state: State) {
        self.state[process as usize - 1] = state;
    }
}

fn fault(kind: &str, process: u32) -> What {
    What::Fault {
        kind: kind.to_owned(),
        target: Some(process),
    }
}

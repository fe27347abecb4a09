//! One run of a case: its servers, its clients, its resource and its history.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use tenure_checker::{History, What};
use tenure_testkit::{Child, Proxy, RedisServer};

use crate::history;
use crate::lab::NAME;
use crate::lab::error::{Error, Result};
use crate::lab::messages::{Message, Step, Who};
use crate::register::{Checks, Register};

mod claims;
mod clients;
mod faults;
mod servers;

/// A run with either the broken lock or tenure.
#[derive(Debug)]
pub(super) struct Experiment {
    who: Who,
    /// How long a lock lasts without renewal.
    pub(super) ttl: Duration,
    history: History,
    register: Register,
    /// The version that each claim has read.
    read: HashMap<u64, u64>,
    clients: BTreeMap<u32, Child>,
    servers: Vec<RedisServer>,
    /// One in front of each server, if clients use proxies.
    pub(super) proxies: Vec<Proxy>,
    /// The process of each claim.
    claims: HashMap<u64, u32>,
    ready: HashSet<u32>,
    closed: HashSet<u32>,
    /// The breakpoints at which clients wait.
    at: HashSet<(u32, String)>,
    /// The claims that have used the resource since the last request to do so.
    done: HashSet<u64>,
    healed: Option<Instant>,
    sender: Sender<(u32, Option<Message>)>,
    /// The messages of clients; `None` at the end of each.
    messages: Receiver<(u32, Option<Message>)>,
}

impl Experiment {
    pub(super) fn new(who: Who, ttl: Duration) -> Self {
        let (sender, messages) = channel();
        let checks = match who {
            Who::Tenure => Checks::Fences,
            Who::Broken(_) => Checks::Nothing,
        };
        Self {
            who,
            ttl,
            history: History::new(),
            register: Register::new(checks),
            read: HashMap::new(),
            clients: BTreeMap::new(),
            servers: Vec::new(),
            proxies: Vec::new(),
            claims: HashMap::new(),
            ready: HashSet::new(),
            closed: HashSet::new(),
            at: HashSet::new(),
            done: HashSet::new(),
            healed: None,
            sender,
            messages,
        }
    }

    /// Returns whether this run uses tenure.
    pub(super) fn is_tenure(&self) -> bool {
        self.who == Who::Tenure
    }

    /// Returns the history so far, ordered by time.
    pub(super) fn into_history(mut self) -> History {
        self.history.sort_by_key(|event| event.at_us);
        self.history
    }

    /// Waits for a condition, with a deadline that only a failed run reaches.
    pub(super) fn until(
        &mut self,
        what: &str,
        mut condition: impl FnMut(&Self) -> Result<bool>,
    ) -> Result<()> {
        let give_up = Instant::now() + LIMIT;
        while !condition(self)? {
            if Instant::now() >= give_up {
                return Err(Error::Step(format!("timed out until {what}")));
            }
            self.receive()?;
        }
        Ok(())
    }

    /// Waits for a condition, for at most `longest`; returns whether it holds.
    fn within(&mut self, longest: Duration, condition: impl Fn(&Self) -> bool) -> Result<bool> {
        let since = Instant::now();
        while !condition(self) && since.elapsed() < longest {
            self.receive()?;
        }
        Ok(condition(self))
    }

    /// Receives a message of a client, and waits only a moment for it.
    fn receive(&mut self) -> Result<()> {
        let Ok((process, message)) = self.messages.recv_timeout(MOMENT) else {
            return Ok(());
        };
        match message {
            None => {
                self.closed.insert(process);
            }
            Some(Message::Ready) => {
                self.ready.insert(process);
            }
            Some(Message::Noted(event)) => self.history.push(event),
            Some(Message::At { point }) => {
                self.at.insert((process, point));
            }
            Some(Message::Read { claim }) => {
                self.read.insert(claim, self.register.version());
                self.done.insert(claim);
            }
            Some(Message::Write { claim, fence }) => {
                let read = self.read.get(&claim).copied().unwrap_or(0);
                let wrote = self.register.write(claim, NAME, fence, read);
                self.note(wrote);
                self.done.insert(claim);
            }
            Some(Message::Declined { claim }) => {
                self.done.insert(claim);
            }
            Some(Message::Failed(sentence)) => return Err(Error::Step(sentence)),
        }
        Ok(())
    }

    fn is_answered(&self, claim: u64) -> bool {
        self.noted(claim, |what| {
            matches!(
                what,
                What::Granted { .. } | What::Refused { .. } | What::Unknown { .. }
            )
        })
    }

    /// Returns whether an event like this was recorded for the claim.
    fn noted(&self, claim: u64, like: impl Fn(&What) -> bool) -> bool {
        let mut events = self.history.iter();
        events.any(|event| claim_of(&event.what) == Some(claim) && like(&event.what))
    }

    fn send(&mut self, process: u32, step: &Step) -> Result<()> {
        Ok(self.child(process)?.send(step)?)
    }

    fn child(&mut self, process: u32) -> Result<&mut Child> {
        let child = self.clients.get_mut(&process);
        child.ok_or_else(|| Error::Step(format!("there is no client {process}")))
    }

    /// Waits for the end of a client that sends no more messages.
    fn ended(&mut self, process: u32) -> Result<ExitStatus> {
        let child = self.child(process)?;
        let ended = child.wait_until(Instant::now() + LIMIT)?;
        ended.ok_or_else(|| Error::Step(format!("client {process} does not end")))
    }

    fn note(&mut self, what: What) {
        self.history.push(history::now(0, what));
    }

    fn note_of(&mut self, process: u32, what: What) {
        self.history.push(history::now(process, what));
    }
}

/// Returns the claim that an event is about.
fn claim_of(what: &What) -> Option<u64> {
    match what {
        What::Asked { claim, .. }
        | What::Queued { claim }
        | What::Granted { claim, .. }
        | What::Refused { claim }
        | What::Unknown { claim, .. }
        | What::Lost { claim }
        | What::Releasing { claim }
        | What::Released { claim, .. }
        | What::Wrote { claim, .. } => Some(*claim),
        _ => None,
    }
}

/// How long a claim may take after the last fault: more than a ttl, and short enough to wait for.
pub(super) const PATIENCE: Duration = Duration::from_secs(8);

/// How much longer than the patience an endless wait is observed, so that the history shows it.
const BEYOND: Duration = Duration::from_millis(200);

/// Only a failed run takes this long.
const LIMIT: Duration = Duration::from_secs(60);

/// The interval between two checks.
const MOMENT: Duration = Duration::from_millis(5);

//! One play of a case: its clients, its resource and its history.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use tenure_checker::{Event, History, What};

use crate::child::Child;
use crate::lab::NAME;
use crate::lab::clock::now_us;
use crate::lab::player::Heard;
use crate::lab::register::{Checks, Register};
use crate::lab::upset::{Result, Upset};
use crate::lab::wire::{Did, Say, Step, Who};

mod claims;
mod clients;
mod faults;
mod points;

/// A play with either the broken lock or tenure.
#[derive(Debug)]
pub(super) struct Scene {
    who: Who,
    ttl: Duration,
    history: History,
    register: Register,
    players: BTreeMap<u32, Child>,
    /// Claims and whose they are.
    claims: HashMap<u64, u32>,
    ready: HashSet<u32>,
    closed: HashSet<u32>,
    /// Where clients halt.
    at: HashSet<(u32, String)>,
    /// What clients have done with the resource and nobody has asked about yet.
    did: HashMap<u64, Did>,
    healed: Option<Instant>,
    said: Sender<(u32, Heard)>,
    heard: Receiver<(u32, Heard)>,
}

impl Scene {
    /// An empty stage.
    pub(super) fn new(who: Who, ttl: Duration) -> Self {
        let (said, heard) = channel();
        let checks = match who {
            Who::Tenure => Checks::Fences,
            Who::Recipe(_) => Checks::Nothing,
        };
        Self {
            who,
            ttl,
            history: History::new(),
            register: Register::new(checks),
            players: BTreeMap::new(),
            claims: HashMap::new(),
            ready: HashSet::new(),
            closed: HashSet::new(),
            at: HashSet::new(),
            did: HashMap::new(),
            healed: None,
            said,
            heard,
        }
    }

    /// Whether it is tenure's turn.
    pub(super) fn is_tenure(&self) -> bool {
        self.who == Who::Tenure
    }

    /// How long a lock lasts that nobody renews.
    pub(super) fn ttl(&self) -> Duration {
        self.ttl
    }

    /// The history so far, in order of time.
    pub(super) fn into_history(mut self) -> History {
        self.history.sort_by_key(|event| event.at_us);
        self.history
    }

    /// Waits for a condition, with a deadline that only a play that went wrong reaches.
    pub(super) fn until(
        &mut self,
        what: &str,
        mut condition: impl FnMut(&Self) -> Result<bool>,
    ) -> Result<()> {
        let give_up = Instant::now() + LIMIT;
        while !condition(self)? {
            if Instant::now() >= give_up {
                return Err(Upset::Play(format!("waited in vain until {what}")));
            }
            self.hear()?;
        }
        Ok(())
    }

    /// Takes in what clients say, for a moment at most.
    fn hear(&mut self) -> Result<()> {
        let (process, heard) = match self.heard.recv_timeout(MOMENT) {
            Ok(heard) => heard,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Ok(()),
        };
        let Heard::Said(say) = heard else {
            self.closed.insert(process);
            return Ok(());
        };
        match say {
            Say::Ready => {
                self.ready.insert(process);
            }
            Say::Noted(event) => self.history.push(event),
            Say::At { point } => {
                self.at.insert((process, point));
            }
            Say::Read { claim } => {
                let version = self.register.version();
                self.tell(process, &Step::Version { claim, version })?;
            }
            Say::Write { claim, fence, read } => {
                let wrote = self.register.write(claim, NAME, fence, read);
                self.note(wrote);
                self.tell(process, &Step::Written { claim })?;
            }
            Say::Done { claim, did } => {
                self.did.insert(claim, did);
            }
            Say::Failed(sentence) => return Err(Upset::Play(sentence)),
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

    /// Whether something like this was noted of the claim.
    fn noted(&self, claim: u64, like: impl Fn(&What) -> bool) -> bool {
        let mut events = self.history.iter();
        events.any(|event| claim_of(&event.what) == Some(claim) && like(&event.what))
    }

    fn tell_holder(&mut self, claim: u64, step: &Step) -> Result<()> {
        match self.claims.get(&claim) {
            Some(process) => self.tell(*process, step),
            None => Err(Upset::Play(format!("nobody has made claim {claim}"))),
        }
    }

    fn tell(&mut self, process: u32, step: &Step) -> Result<()> {
        Ok(self.player(process)?.tell(step)?)
    }

    fn player(&mut self, process: u32) -> Result<&mut Child> {
        let player = self.players.get_mut(&process);
        player.ok_or_else(|| Upset::Play(format!("there is no client {process}")))
    }

    fn player_state(&self, process: u32) -> Option<char> {
        self.players.get(&process).and_then(Child::state)
    }

    /// Waits for the end of a client that says nothing more.
    fn player_ended(&mut self, process: u32) -> Result<ExitStatus> {
        let ended = self.player(process)?.ended(Instant::now() + LIMIT)?;
        ended.ok_or_else(|| Upset::Play(format!("client {process} does not end")))
    }

    fn note(&mut self, what: What) {
        self.note_of(0, what);
    }

    fn note_of(&mut self, process: u32, what: What) {
        let at_us = now_us();
        self.history.push(Event {
            at_us,
            process,
            what,
        });
    }
}

/// The claim that something happened to.
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

/// How long a claim may take after the last fault: more than a ttl, and little enough to wait for.
pub(super) const PATIENCE: Duration = Duration::from_secs(8);

/// By so much a wait that never ends outlasts the patience, so that the history shows it.
const BEYOND: Duration = Duration::from_millis(200);

/// Only a play that went wrong takes so long.
const LIMIT: Duration = Duration::from_secs(60);

/// Between two looks.
const MOMENT: Duration = Duration::from_millis(5);

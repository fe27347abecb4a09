//! One task of a client: asks, works, writes and releases in a loop.

use std::cell::Cell;
use std::convert::Infallible;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tenure::{ClaimId, Client, Error, Lease, Lock, Name, Owner};
use tenure_checker::{Mode, What};

use crate::torture::messages::{LeftLease, Setup};
use tenure_cli::Result;

use super::ask::{self, Answer};
use super::choices::{Act, Choices, Draft, End, Life, Way, Who};
use super::held::{ByHand, Held, Hold};
use super::notes::Notes;
use super::register_client::RegisterClient;

/// One task.
#[derive(Debug)]
pub(super) struct Task {
    client: Client,
    setup: Setup,
    choices: Choices,
    notes: Notes,
    register: RegisterClient,
    finish: Rc<Cell<bool>>,
}

/// A claim after it was requested.
#[derive(Debug, Clone)]
struct Asked {
    claim: u64,
    name: String,
    mode: Mode,
    owner: Owner,
    /// Whether others may hold the name as the same owner, so that nobody may write.
    is_shared: bool,
}

impl Task {
    pub(super) async fn new(
        client: &Client,
        setup: &Setup,
        number: u32,
        notes: &Notes,
        finish: &Rc<Cell<bool>>,
    ) -> Result<Self> {
        let seed = setup.seed.wrapping_add(u64::from(number));
        let (names, owners) = (setup.names.len(), setup.owners.len());
        Ok(Self {
            client: client.clone(),
            setup: setup.clone(),
            choices: Choices::new(seed, setup.ttl, names, owners, client.capabilities()),
            notes: notes.clone(),
            register: RegisterClient::connect(setup.register).await?,
            finish: Rc::clone(finish),
        })
    }

    /// Makes claims until it is time to finish.
    pub(super) async fn run(mut self) -> Result<()> {
        while !self.finish.get() {
            match self.choices.act() {
                Act::Claim(draft) => self.claim(&draft).await?,
                Act::TakeUp(draft) => match self.register.take_up().await? {
                    Some(left) => self.take_up(left, &draft).await?,
                    None => self.claim(&draft).await?,
                },
            }
            tokio::time::sleep(self.choices.rest()).await;
        }
        Ok(())
    }

    /// Makes one claim, or several until one is granted, and does what was chosen for it.
    async fn claim(&mut self, draft: &Draft) -> Result<()> {
        let tries = match draft.way {
            Way::Retry { tries, .. } => tries,
            _ => 1,
        };
        let owner = self.owner(draft.who)?;
        for _ in 0..tries {
            let asked = Asked {
                claim: self.notes.claim(),
                name: self.setup.names[draft.name].clone(),
                mode: draft.mode,
                owner: owner.clone(),
                is_shared: matches!(draft.who, Who::Shared(_)),
            };
            if let Some(held) = self.granted(&asked, draft).await? {
                return self.work(&asked, held, draft).await;
            }
            if self.finish.get() {
                return Ok(());
            }
        }
        // A store that is down refuses at once.
        tokio::time::sleep(PAUSE).await;
        Ok(())
    }

    /// Continues with a lease by hand that somebody has left, as a claim of the same owner with the
    /// same fence.
    async fn take_up(&mut self, left: LeftLease, draft: &Draft) -> Result<()> {
        let asked = Asked {
            claim: self.notes.claim(),
            owner: Owner::named(&left.owner)?,
            name: left.name,
            mode: left.mode,
            is_shared: left.is_shared,
        };
        let lease = Lease {
            name: Name::new(&asked.name)?,
            claim: ClaimId::new(&left.claim)?,
            owner: asked.owner.clone(),
            fence: None,
            ttl: left.ttl,
        };
        self.note_asked(&asked);
        match self.begin_by_hand(&asked, lease).await {
            Some(held) => self.work(&asked, held, draft).await,
            None => Ok(()),
        }
    }

    /// Asks for the lock.
    async fn granted(&self, asked: &Asked, draft: &Draft) -> Result<Option<Held>> {
        let options = draft.options;
        let mut lock = self.lock(asked, draft.who).ttl(options.ttl);
        lock = lock.keep(options.keep).at_least(options.at_least);
        if let Some(longest) = options.max_hold {
            lock = lock.max_hold(longest);
        }
        self.note_asked(asked);
        match draft.life {
            Life::Guard => {
                let answer = ask::guard(&lock, draft.way).await;
                let guard = self.answered(asked, answer)?;
                Ok(guard.and_then(|guard| {
                    let fence = guard.fence().get();
                    Held::begin(asked.claim, fence, Hold::Guard(guard), &self.notes)
                }))
            }
            Life::ByHand => {
                let answer = ask::lease(&lock, draft.way).await;
                match self.answered(asked, answer)? {
                    Some(lease) => Ok(self.begin_by_hand(asked, lease).await),
                    None => Ok(None),
                }
            }
        }
    }

    /// Holds a lock for a while, reads and writes the register, and gives the lock back.
    async fn work(&mut self, asked: &Asked, mut held: Held, draft: &Draft) -> Result<()> {
        let (name, fence) = (&asked.name, held.fence());
        let read = match asked.mode {
            Mode::Exclusive => self.register.read(name, fence).await?,
            _ => None,
        };
        let then = match draft.careless {
            true => AfterLoss::GoOn,
            false => AfterLoss::Stop,
        };
        self.hold(&mut held, draft.work, then).await;
        if draft.nested && draft.life == Life::Guard && asked.mode == Mode::Exclusive {
            self.nested(&mut held, asked, draft.who).await?;
        }
        // Others with the same shared owner may write at the same time, and nothing is promised for
        // that case.
        let read = read.filter(|_| !asked.is_shared);
        if let Some(read) = read.filter(|_| draft.careless || held.look()) {
            self.register.write(asked.claim, name, fence, read).await?;
        }
        if let Some(lease) = held.end(draft.end).await {
            let left = LeftLease {
                name: asked.name.clone(),
                claim: lease.claim.as_str().to_owned(),
                owner: lease.owner.as_str().to_owned(),
                ttl: lease.ttl,
                mode: asked.mode,
                is_shared: asked.is_shared,
            };
            self.register.leave(left).await?;
        }
        Ok(())
    }

    /// Locks the same name again as the same owner, and releases that claim.
    async fn nested(&self, outer: &mut Held, outer_asked: &Asked, who: Who) -> Result<()> {
        if !outer.look() {
            return Ok(());
        }
        let asked = Asked {
            claim: self.notes.claim(),
            ..outer_asked.clone()
        };
        let lock = self.lock(&asked, who).ttl(self.setup.ttl);
        self.note_asked(&asked);
        let answer = tokio::select! {
            answer = ask::guard(&lock, Way::Wait) => answer,
            never = keep_looking(outer) => match never {},
        };
        let guard = self.answered(&asked, answer)?;
        let inner = guard.and_then(|guard| {
            let fence = guard.fence().get();
            Held::begin(asked.claim, fence, Hold::Guard(guard), &self.notes)
        });
        outer.look();
        if let Some(mut inner) = inner {
            self.hold(&mut inner, MOMENT, AfterLoss::Stop).await;
            inner.end(End::Release).await;
        }
        Ok(())
    }

    fn owner(&self, who: Who) -> Result<Owner> {
        Ok(match who {
            Who::Shared(number) => Owner::named(&self.setup.owners[number])?,
            Who::Named | Who::Task | Who::Nobody => Owner::unique(),
        })
    }

    fn lock(&self, asked: &Asked, who: Who) -> Lock {
        let name = &asked.name;
        let lock = match asked.mode {
            Mode::Exclusive => self.client.mutex(name),
            Mode::Shared => self.client.rwlock(name).read(),
            Mode::Permits { take, of } => self.client.semaphore(name, of).take(take),
        };
        match who {
            Who::Named | Who::Shared(_) => lock.owner(asked.owner.clone()),
            Who::Task => lock.reentrant(),
            Who::Nobody => lock,
        }
    }

    fn note_asked(&self, asked: &Asked) {
        self.notes.note(What::Asked {
            claim: asked.claim,
            name: asked.name.clone(),
            mode: asked.mode,
            owner: asked.owner.as_str().to_owned(),
        });
    }

    /// Returns what was granted, or records the other outcome of a claim.
    fn answered<T>(&self, asked: &Asked, answer: Answer<T>) -> Result<Option<T>> {
        let claim = asked.claim;
        let what = match answer {
            Answer::Granted(granted) => return Ok(Some(granted)),
            Answer::Busy => What::Refused { claim },
            Answer::Dropped => What::Releasing { claim },
            // The store does not support this choice, so it would test nothing.
            Answer::Failed(error @ (Error::InvalidOption { .. } | Error::Unsupported { .. })) => {
                return Err(error.into());
            }
            Answer::Failed(error) if error.nothing_changed() => What::Refused { claim },
            Answer::Failed(error) => What::Unknown {
                claim,
                error: error.to_string(),
            },
        };
        self.notes.note(what);
        Ok(None)
    }

    /// Renews a lease by hand before relying on it: it is unknown when it was granted.
    async fn begin_by_hand(&self, asked: &Asked, lease: Lease) -> Option<Held> {
        let claim = asked.claim;
        let mut by_hand = ByHand::new(&self.client, lease);
        let error = match by_hand.renew().await {
            Ok(Some(fence)) => {
                return Held::begin(claim, fence, Hold::ByHand(by_hand), &self.notes);
            }
            Ok(None) => "lost before the first renewal".to_owned(),
            Err(error) => error.to_string(),
        };
        self.notes.note(What::Unknown { claim, error });
        None
    }

    /// Works for a while, and checks continuously whether the lock is still held; ends early if it
    /// is time to finish.
    async fn hold(&self, held: &mut Held, time: Duration, then: AfterLoss) {
        let end = Instant::now() + time;
        while !self.finish.get() {
            let is_held = held.look();
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || (!is_held && then == AfterLoss::Stop) {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(left.min(LOOK)) => {}
                () = held.lost(), if is_held => {}
            }
            held.renew().await;
        }
    }
}

/// Checks a lock repeatedly while something else takes time.
async fn keep_looking(held: &mut Held) -> Infallible {
    loop {
        held.look();
        tokio::time::sleep(LOOK).await;
    }
}

/// What a holder does after it has lost its lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AfterLoss {
    GoOn,
    Stop,
}

/// How often a holder checks the health of its lock.
const LOOK: Duration = Duration::from_millis(3);

/// The pause after a refusal.
const PAUSE: Duration = Duration::from_millis(5);

/// How long a nested lock is held.
const MOMENT: Duration = Duration::from_millis(1);

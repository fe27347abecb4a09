//! One task of a client: asks, works, writes, lets go, and again.

use std::cell::Cell;
use std::convert::Infallible;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tenure::{Client, Error, Guard, Lock, Owner};
use tenure_checker::{Mode, What};

use crate::error::Result;
use crate::torture::wire::Order;

use super::held::Held;
use super::lots::{Draft, End, Lots, Way, Who};
use super::notes::Notes;
use super::register::Register;

/// One task.
#[derive(Debug)]
pub(super) struct Task {
    client: Client,
    order: Order,
    lots: Lots,
    notes: Notes,
    register: Register,
    finish: Rc<Cell<bool>>,
}

impl Task {
    pub(super) async fn new(
        client: &Client,
        order: &Order,
        number: u32,
        notes: &Notes,
        finish: &Rc<Cell<bool>>,
    ) -> Result<Self> {
        let seed = order.seed.wrapping_add(u64::from(number));
        Ok(Self {
            client: client.clone(),
            order: order.clone(),
            lots: Lots::new(seed, order.ttl, order.names.len(), order.permits),
            notes: notes.clone(),
            register: Register::connect(order.register).await?,
            finish: Rc::clone(finish),
        })
    }

    /// Makes claims until it is time to finish.
    pub(super) async fn run(mut self) -> Result<()> {
        while !self.finish.get() {
            let draft = self.lots.draft();
            self.play(&draft).await?;
            tokio::time::sleep(self.lots.rest()).await;
        }
        Ok(())
    }

    /// Makes one claim, and what follows from it.
    async fn play(&mut self, draft: &Draft) -> Result<()> {
        let name = self.order.names[draft.name].clone();
        let owner = Owner::unique();
        let lock = asked_by(self.lock(&name, draft.mode), draft.who, &owner);
        let claim = self.asked(&name, draft.mode, &owner);
        let answer = match draft.way {
            Way::Wait => lock.lock().await.map(Some),
            Way::Try => lock.try_lock().await,
            Way::Patience(patience) => lock.lock_timeout(patience).await.map(Some),
        };
        let Some(mut held) = self.answered(claim, answer) else {
            // A store that is down refuses at once.
            tokio::time::sleep(PAUSE).await;
            return Ok(());
        };
        let read = match draft.mode {
            Mode::Exclusive => self.register.read(&name, held.fence()).await?,
            _ => None,
        };
        let then = match draft.careless {
            true => AfterLoss::GoOn,
            false => AfterLoss::Stop,
        };
        self.hold(&mut held, draft.work, then).await;
        if draft.nested {
            self.nested(&mut held, &name, draft.who, &owner).await;
        }
        if let Some(read) = read.filter(|_| draft.careless || held.look()) {
            let fence = held.fence();
            self.register.write(claim, &name, fence, read).await?;
        }
        held.end(draft.end).await;
        Ok(())
    }

    /// Locks the same name again as the same owner, and lets go of that one.
    async fn nested(&self, outer: &mut Held, name: &str, who: Who, owner: &Owner) {
        if !outer.look() {
            return;
        }
        let lock = asked_by(self.lock(name, Mode::Exclusive), who, owner);
        let claim = self.asked(name, Mode::Exclusive, owner);
        let answer = tokio::select! {
            answer = lock.lock() => answer,
            never = keep_looking(outer) => match never {},
        };
        let inner = self.answered(claim, answer.map(Some));
        outer.look();
        if let Some(mut inner) = inner {
            self.hold(&mut inner, MOMENT, AfterLoss::Stop).await;
            inner.end(End::Release).await;
        }
    }

    fn lock(&self, name: &str, mode: Mode) -> Lock {
        let lock = match mode {
            Mode::Exclusive => self.client.mutex(name),
            Mode::Shared => self.client.rwlock(name).read(),
            Mode::Permits { take, of } => self.client.semaphore(name, of).take(take),
        };
        lock.ttl(self.order.ttl)
    }

    fn asked(&self, name: &str, mode: Mode, owner: &Owner) -> u64 {
        let claim = self.notes.claim();
        self.notes.note(What::Asked {
            claim,
            name: name.to_owned(),
            mode,
            owner: owner.as_str().to_owned(),
        });
        claim
    }

    /// Notes what came of a claim.
    fn answered(&self, claim: u64, answer: Result<Option<Guard>, Error>) -> Option<Held> {
        match answer {
            Ok(Some(guard)) => return Held::begin(claim, guard, &self.notes),
            Ok(None) => self.notes.note(What::Refused { claim }),
            Err(error) if error.nothing_changed() => self.notes.note(What::Refused { claim }),
            Err(error) => self.notes.note(What::Unknown {
                claim,
                error: error.to_string(),
            }),
        }
        None
    }

    /// Works for a while, and looks all the time whether the lock is still held; ends early if it is time to finish.
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
        }
    }
}

fn asked_by(lock: Lock, who: Who, owner: &Owner) -> Lock {
    match who {
        Who::Named => lock.owner(owner.clone()),
        Who::Task => lock.reentrant(),
        Who::Nobody => lock,
    }
}

/// Looks at a lock all the time that something else takes.
async fn keep_looking(held: &mut Held) -> Infallible {
    loop {
        held.look();
        tokio::time::sleep(LOOK).await;
    }
}

/// What a holder does that has lost its lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AfterLoss {
    GoOn,
    Stop,
}

/// How often a holder looks at the health of its lock.
const LOOK: Duration = Duration::from_millis(3);

/// After a refusal.
const PAUSE: Duration = Duration::from_millis(5);

/// How long a nested lock is held.
const MOMENT: Duration = Duration::from_millis(1);

//! The local line: who in this process waits for a name, first come, first served.
//!
//! A process has at most one place in a store's line for a name; whoever is first in the local line
//! gets the lease that comes of it, or one that is passed on.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use crate::clock::Tick;
use crate::driver::{Claim, Wait};
use crate::engine::keep::{Kept, KeptLeases};
use crate::engine::order::Order;
use crate::error::Error;
use crate::guard::Guard;
use crate::name::{Fence, Name, Owner};
use crate::random::SeededMap;

/// The local lines of all names that somebody waits for.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    here: Mutex<Here>,
    next_number: AtomicI64,
}

/// What this process knows of names without the store, behind one lock.
#[derive(Debug, Default)]
pub(super) struct Here {
    pub(super) lines: SeededMap<Name, Line>,
    pub(super) kept: KeptLeases,
}

/// The local line of one name.
///
/// It exists while somebody waits or a ticket is out. Whoever takes the last of both away removes it.
#[derive(Debug, Default)]
pub(super) struct Line {
    waiters: VecDeque<Waiter>,
    ticket: Option<Arc<Ticket>>,
}

#[derive(Debug)]
struct Waiter {
    /// Grows along the line, so that whoever leaves is found quickly.
    number: i64,
    order: Arc<Order>,
    turn: oneshot::Sender<Turn>,
}

/// What a waiter is told at last.
#[derive(Debug)]
pub(crate) enum Turn {
    /// The lock is yours.
    Go(Guard),
    /// Your owner has the lock already: enter again.
    Again,
    /// Asking failed.
    Failed(Error),
}

/// This process's place in the store's line for a name, or the request for one.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(crate) order: Arc<Order>,
    pub(crate) claim: Claim,
    /// When the first request went out: the store took the claim in no earlier.
    pub(crate) first_sent: Tick,
    phase: Mutex<Phase>,
    pub(crate) changed: Notify,
}

/// How far a ticket has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It is to be asked for, for the first time or again.
    Ask,
    /// A request is out.
    Asking {
        /// Whether the store said meanwhile to ask again: its answer may be older than that.
        again: bool,
    },
    /// It stands in the store's line; ask again at this time if no news came.
    Queued(Tick),
    /// News of its grant came while a request was out.
    Granted {
        /// The number of the grant.
        fence: Fence,
        /// When the store granted it, at the earliest.
        start: Tick,
    },
    /// It was served or taken back: nobody may use it again.
    Spent,
}

/// How a caller stands after joining.
#[derive(Debug)]
pub(crate) enum Joined {
    /// Nobody was there: ask the store with this ticket.
    First(Arc<Ticket>),
    /// Somebody is there: wait.
    Behind(Standing),
    /// A lease was kept: take it, or give it back and join again.
    Kept(Kept),
}

/// How a caller stands who would not wait.
#[derive(Debug)]
pub(crate) enum Tried {
    /// Nobody is there: ask the store with this claim.
    Ask(Claim),
    /// Somebody here waits or asks for the name.
    Busy,
    /// A lease was kept: take it, or give it back and try again.
    Kept(Kept),
}

/// What whoever attends to a line has to do next.
#[derive(Debug)]
pub(crate) enum Wanted {
    /// Look after this ticket.
    Attend(Arc<Ticket>),
    /// Nobody wants this ticket any more: take it back, and ask what is next.
    Undo(Arc<Ticket>),
    /// Nothing: the line is gone.
    Nothing,
}

/// A place in the local line; dropping it leaves the line.
#[derive(Debug)]
pub(crate) struct Standing {
    lines: Arc<Lines>,
    name: Name,
    number: i64,
    turn: oneshot::Receiver<Turn>,
}

impl Standing {
    /// Waits for the turn; `None` if the engine has ended.
    pub(crate) async fn turn(&mut self) -> Option<Turn> {
        (&mut self.turn).await.ok()
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        self.lines.leave(&self.name, self.number);
        // A turn that was sent and not read gives its guard back with the channel.
    }
}

impl Lines {
    /// Stands in line, or goes ahead to ask if nobody is there.
    pub(crate) fn join(self: &Arc<Self>, order: &Arc<Order>, now: Tick) -> Joined {
        let mut here = self.lock();
        let here = &mut *here;
        if let Some(kept) = here.kept.take(&order.name) {
            return Joined::Kept(kept);
        }
        if let Some(line) = here.lines.get_mut(&order.name) {
            let (waiter, standing) = self.waiter(order, self.next_number());
            line.waiters.push_back(waiter);
            return Joined::Behind(standing);
        }
        let fences = here.kept.fences(order, None, now);
        let ticket = Ticket::new(order, now, fences, Phase::Asking { again: false });
        let line = Line {
            waiters: VecDeque::new(),
            ticket: Some(Arc::clone(&ticket)),
        };
        here.lines.insert(order.name.clone(), line);
        Joined::First(ticket)
    }

    /// Stands at the front, with a ticket that the store has put in its line.
    pub(crate) fn stand_first(self: &Arc<Self>, ticket: &Arc<Ticket>) -> Standing {
        let mut here = self.lock();
        let (waiter, standing) = self.waiter(&ticket.order, -self.next_number());
        let line = here.lines.entry(ticket.order.name.clone()).or_default();
        line.waiters.push_front(waiter);
        standing
    }

    /// Says whether to ask at all for a caller who would not wait.
    pub(crate) fn try_join(&self, order: &Order, now: Tick) -> Tried {
        let mut here = self.lock();
        if let Some(kept) = here.kept.take(&order.name) {
            Tried::Kept(kept)
        } else if here.lines.contains_key(&order.name) {
            Tried::Busy
        } else {
            Tried::Ask(order.claim(Wait::No, here.kept.fences(order, None, now)))
        }
    }

    /// Takes a ticket that nobody attends to out of its line, as it is spent.
    ///
    /// Returns whether others wait behind it: then the line needs an attendant.
    pub(crate) fn spend_first(&self, ticket: &Ticket) -> bool {
        let mut here = self.lock();
        let Some(line) = here.lines.get_mut(&ticket.claim.name) else {
            return false;
        };
        line.ticket = None;
        if line.waiters.is_empty() {
            here.lines.remove(&ticket.claim.name);
            return false;
        }
        true
    }

    /// Takes a ticket out of its line, as it is spent, and leaves the rest to the attendant.
    pub(crate) fn spend(&self, ticket: &Arc<Ticket>) {
        if let Some(line) = self.lock().lines.get_mut(&ticket.claim.name)
            && line.has(ticket)
        {
            line.ticket = None;
        }
        ticket.changed.notify_one();
    }

    /// Returns the ticket that is out for this claim.
    pub(crate) fn ticket(&self, name: &Name, owner: &Owner) -> Option<Arc<Ticket>> {
        let here = self.lock();
        let ticket = here.lines.get(name)?.ticket.as_ref()?;
        (ticket.claim.owner == *owner).then(|| Arc::clone(ticket))
    }

    /// Makes tickets ask again: one name's, or all.
    pub(crate) fn ask_again(&self, only: Option<&Name>) {
        let here = self.lock();
        let lines = here.lines.iter();
        let concerned = lines.filter(|(name, _)| only.is_none_or(|only| only == *name));
        for ticket in concerned.filter_map(|(_, line)| line.ticket.as_ref()) {
            ticket.ask_again();
        }
    }

    /// Takes the first waiter out of the line if a lease granted for `order` serves it.
    pub(crate) fn first_served_by(&self, name: &Name, order: &Order) -> Option<TheirTurn> {
        let mut here = self.lock();
        let line = here.lines.get_mut(name)?;
        line.skip_those_who_left();
        if !line.waiters.front()?.order.is_served_by(order) {
            return None;
        }
        line.next()
    }

    /// Takes the first waiter out of the line, whoever it is.
    pub(crate) fn first(&self, name: &Name) -> Option<TheirTurn> {
        let mut here = self.lock();
        let line = here.lines.get_mut(name)?;
        line.skip_those_who_left();
        line.next()
    }

    /// Says what is to be done for a line; only its one attendant asks.
    pub(crate) fn wanted(&self, name: &Name, now: Tick) -> Wanted {
        let mut here = self.lock();
        let here = &mut *here;
        let Some(line) = here.lines.get_mut(name) else {
            return Wanted::Nothing;
        };
        line.skip_those_who_left();
        let mut waiters = line.waiters.iter();
        let (first, next) = (waiters.next(), waiters.next());
        match (first, line.ticket.take()) {
            (None, None) => {
                here.lines.remove(name);
                Wanted::Nothing
            }
            (Some(first), None) => {
                let next = next.map(|next| &*next.order);
                let fences = here.kept.fences(&first.order, next, now);
                let ticket = Ticket::new(&first.order, now, fences, Phase::Ask);
                line.ticket = Some(Arc::clone(&ticket));
                Wanted::Attend(ticket)
            }
            (Some(first), Some(ticket)) if first.order.is_served_by(&ticket.order) => {
                line.ticket = Some(Arc::clone(&ticket));
                Wanted::Attend(ticket)
            }
            (_, Some(ticket)) => Wanted::Undo(ticket),
        }
    }

    fn leave(&self, name: &Name, number: i64) {
        let mut here = self.lock();
        let Some(line) = here.lines.get_mut(name) else {
            return;
        };
        let found = line
            .waiters
            .binary_search_by_key(&number, |waiter| waiter.number);
        if let Ok(place) = found {
            line.waiters.remove(place);
        }
        if let Some(ticket) = &line.ticket {
            ticket.changed.notify_one();
        }
    }

    fn waiter(self: &Arc<Self>, order: &Arc<Order>, number: i64) -> (Waiter, Standing) {
        let (sender, turn) = oneshot::channel();
        let waiter = Waiter {
            number,
            order: Arc::clone(order),
            turn: sender,
        };
        let (lines, name) = (Arc::clone(self), order.name.clone());
        (
            waiter,
            Standing {
                lines,
                name,
                number,
                turn,
            },
        )
    }

    /// Drawn under the lock of the lines, so that numbers grow in the order of joining.
    fn next_number(&self) -> i64 {
        self.next_number.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Here> {
        // Nothing panics while a line is half changed.
        self.here.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A waiter whose turn has come, taken out of its line.
#[derive(Debug)]
pub(crate) struct TheirTurn {
    pub(crate) order: Arc<Order>,
    turn: oneshot::Sender<Turn>,
}

impl TheirTurn {
    /// Tells the waiter; returns the turn if the waiter has left.
    pub(crate) fn tell(self, turn: Turn) -> Result<(), Turn> {
        self.turn.send(turn)
    }
}

impl Line {
    fn has(&self, ticket: &Arc<Ticket>) -> bool {
        self.ticket
            .as_ref()
            .is_some_and(|own| Arc::ptr_eq(own, ticket))
    }

    fn skip_those_who_left(&mut self) {
        while self
            .waiters
            .front()
            .is_some_and(|first| first.turn.is_closed())
        {
            self.waiters.pop_front();
        }
    }

    /// Takes the first waiter out.
    fn next(&mut self) -> Option<TheirTurn> {
        let waiter = self.waiters.pop_front()?;
        if self.waiters.is_empty()
            && let Some(ticket) = &self.ticket
        {
            // Nobody is left for it: its attendant takes it back.
            ticket.changed.notify_one();
        }
        Some(TheirTurn {
            order: waiter.order,
            turn: waiter.turn,
        })
    }
}

impl Ticket {
    fn new(order: &Arc<Order>, now: Tick, fences: u32, phase: Phase) -> Arc<Self> {
        Arc::new(Self {
            claim: order.claim(Wait::InLine, fences),
            order: Arc::clone(order),
            first_sent: now,
            phase: Mutex::new(phase),
            changed: Notify::new(),
        })
    }

    pub(crate) fn phase(&self) -> Phase {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the phase, and wakes whoever attends to the ticket.
    ///
    /// Whoever makes it [`Spent`](Phase::Spent) is the one who serves it or takes it back.
    pub(crate) fn advance(&self, change: impl FnOnce(Phase) -> Phase) {
        let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        *phase = change(*phase);
        self.changed.notify_one();
    }

    /// Makes the ticket due, unless more is known of it than that it stands in line.
    pub(crate) fn ask_again(&self) {
        self.advance(|phase| match phase {
            Phase::Queued(_) => Phase::Ask,
            Phase::Asking { .. } => Phase::Asking { again: true },
            other => other,
        });
    }

    /// Begins a request; returns whether it is the caller's to send.
    pub(crate) fn begin(&self) -> bool {
        let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        let due = *phase == Phase::Ask;
        if due {
            *phase = Phase::Asking { again: false };
        }
        due
    }

    /// Ends the ticket; returns whether it is the caller's to serve or to take back.
    pub(crate) fn end(&self) -> bool {
        let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *phase, Phase::Spent) != Phase::Spent
    }

    /// The start of a lease that was granted `after` the store took the claim in.
    ///
    /// The longer the wait, the further two clocks may have run apart.
    pub(crate) fn start(&self, after: Duration) -> Tick {
        self.first_sent + after - after / 1000
    }
}

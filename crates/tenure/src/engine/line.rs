//! The local lines: who in this process waits for a name, first come, first served.
//!
//! A client has one place in a store's line for all its callers without an owner, and one for each
//! owner that they name. An owner that already holds the name passes everybody else, so it must not
//! wait behind them here. The first caller in a local line gets the lease that its ticket is
//! granted, or one that is passed on.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use tokio::sync::oneshot;

use crate::clock::Tick;
use crate::driver::Wait;
use crate::engine::keep::{Kept, KeptLeases};
use crate::engine::lock_request::LockRequest;
use crate::engine::ticket::{Event, Ticket};
use crate::error::Error;
use crate::guard::Guard;
use crate::name::{ClaimId, ClaimIds, Name, Owner};
use crate::random::SeededMap;
use crate::sync::Mutex;

/// The local lines of all names that somebody waits for.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    pub(super) here: Mutex<Here>,
    next_number: AtomicI64,
    ids: ClaimIds,
}

/// What this process knows about names without asking the store, behind one lock.
#[derive(Debug, Default)]
pub(super) struct Here {
    pub(super) lines: SeededMap<Name, LinesOfName>,
    pub(super) kept: KeptLeases,
}

/// The local lines of one name: one for callers without an owner, and one for each owner.
pub(super) type LinesOfName = Vec<(Option<Owner>, Line)>;

/// One local line.
///
/// It exists while somebody waits or a ticket is open. When neither is left, the caller that asks
/// first or the attendant removes it.
#[derive(Debug, Default)]
pub(super) struct Line {
    waiters: VecDeque<Waiter>,
    ticket: Option<Arc<Ticket>>,
}

/// A caller that waits in a local line.
#[derive(Debug)]
pub(crate) struct Waiter {
    /// Grows along the line, so that a waiter that leaves is found quickly.
    number: i64,
    pub(crate) request: Arc<LockRequest>,
    turn: oneshot::Sender<Turn>,
}

impl Waiter {
    /// Sends the turn to the waiter; returns it if the waiter has left.
    pub(crate) fn tell(self, turn: Turn) -> Result<(), Turn> {
        self.turn.send(turn)
    }
}

/// How a wait ends.
#[derive(Debug)]
pub(crate) enum Turn {
    /// The lock is yours.
    Go(Guard),
    /// The owner already holds the lock: re-enter it.
    Again,
    /// Asking failed.
    Failed(Error),
}

/// The result of joining a line.
#[derive(Debug)]
pub(crate) enum Joined {
    /// Nobody was in line: ask the store with this ticket.
    First(Arc<Ticket>),
    /// Others are in line: wait.
    Behind(Standing),
    /// A lease was kept: take it, or give it back and join again.
    Kept(Kept),
}

/// The result of trying without waiting.
#[derive(Debug)]
pub(crate) enum Tried {
    /// Nobody is in line: ask the store with this ticket, which is in no line.
    Ask(Arc<Ticket>),
    /// Somebody here waits or asks for the name.
    Busy,
    /// A lease was kept: take it, or give it back and try again.
    Kept(Kept),
}

/// What the attendant of a line has to do next.
#[derive(Debug)]
pub(crate) enum NextStep {
    /// Attend to this ticket.
    Attend(Arc<Ticket>),
    /// Nobody wants this ticket any more: withdraw it, and ask what is next.
    Withdraw(Arc<Ticket>),
    /// Nothing: the line is gone.
    Nothing,
}

/// A place in the local line; dropping it leaves the line.
#[derive(Debug)]
pub(crate) struct Standing {
    lines: Arc<Lines>,
    request: Arc<LockRequest>,
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
        self.lines.leave(&self.request, self.number);
        // If a turn was sent but not read, dropping the channel drops its guard, which releases the
        // lock.
    }
}

impl Lines {
    /// Joins the line, or asks the store right away if nobody is in it.
    pub(crate) fn join(self: &Arc<Self>, request: &Arc<LockRequest>, now: Tick) -> Joined {
        let mut here = self.here.lock();
        let here = &mut *here;
        if let Some(kept) = here.kept.take(&request.name) {
            return Joined::Kept(kept);
        }
        if let Some(line) = here.line(request) {
            let (waiter, standing) = self.waiter(request, self.next_number());
            line.waiters.push_back(waiter);
            return Joined::Behind(standing);
        }
        let fences = here.kept.fences(request, None, now);
        let claim = request.claim(self.ids.next(), Wait::InLine, fences);
        let ticket = Ticket::asking(request, claim, now);
        here.add_line(request, Arc::clone(&ticket));
        Joined::First(ticket)
    }

    /// Joins at the front, with a ticket that is in the store's line.
    pub(crate) fn stand_first(self: &Arc<Self>, ticket: &Arc<Ticket>) -> Standing {
        let mut here = self.here.lock();
        let (waiter, standing) = self.waiter(&ticket.request, -self.next_number());
        if let Some(line) = here.line(&ticket.request) {
            line.waiters.push_front(waiter);
        }
        standing
    }

    /// Decides whether to ask the store for a caller that does not wait.
    pub(crate) fn try_join(&self, request: &Arc<LockRequest>, now: Tick) -> Tried {
        let mut here = self.here.lock();
        if let Some(kept) = here.kept.take(&request.name) {
            Tried::Kept(kept)
        } else if here.line(request).is_some() {
            Tried::Busy
        } else {
            let fences = here.kept.fences(request, None, now);
            let claim = request.claim(self.ids.next(), Wait::No, fences);
            Tried::Ask(Ticket::asking(request, claim, now))
        }
    }

    /// Removes a spent ticket without an attendant from its line.
    ///
    /// Returns whether others wait behind it: then the line needs an attendant.
    pub(crate) fn spend_first(&self, ticket: &Ticket) -> bool {
        let mut here = self.here.lock();
        let Some(line) = here.line(&ticket.request) else {
            return false;
        };
        line.ticket = None;
        if line.waiters.is_empty() {
            here.remove_line(&ticket.request);
            return false;
        }
        true
    }

    /// Removes a spent ticket from its line, and leaves the rest to the attendant.
    pub(crate) fn spend(&self, ticket: &Arc<Ticket>) {
        if let Some(line) = self.here.lock().line(&ticket.request)
            && line.has(ticket)
        {
            line.ticket = None;
        }
        ticket.changed.notify_one();
    }

    /// Returns the open ticket of this claim.
    pub(crate) fn ticket(&self, name: &Name, claim: &ClaimId) -> Option<Arc<Ticket>> {
        let here = self.here.lock();
        let mut tickets = tickets(here.lines.get(name)?);
        tickets.find(|ticket| ticket.claim.id == *claim).cloned()
    }

    /// Explains why nothing is known about a place in line, if that is the case.
    pub(crate) fn silence(&self, request: &LockRequest, now: Tick) -> Option<String> {
        let mut here = self.here.lock();
        here.line(request)?.ticket.as_ref()?.silence(now)
    }

    /// Makes a line ask the store again about its place.
    pub(crate) fn expect_answer(&self, request: &LockRequest, now: Tick) {
        let mut here = self.here.lock();
        let ticket = here.line(request).and_then(|line| line.ticket.as_ref());
        if let Some(ticket) = ticket {
            ticket.expect_answer(now);
        }
    }

    /// Returns whether a named owner waits for a name in this client.
    pub(crate) fn have_an_owner(&self, name: &Name) -> bool {
        let here = self.here.lock();
        let lines = here.lines.get(name);
        lines.is_some_and(|lines| lines.iter().any(|(owner, _)| owner.is_some()))
    }

    /// Makes the tickets of one name, or all tickets, ask again.
    pub(crate) fn ask_again(&self, only: Option<&Name>, now: Tick) {
        let here = self.here.lock();
        let ask = |lines: &LinesOfName| {
            for ticket in tickets(lines) {
                ticket.on(Event::AskAgain, now);
            }
        };
        match only {
            Some(name) => here.lines.get(name).into_iter().for_each(ask),
            None => here.lines.values().for_each(ask),
        }
    }

    /// Takes the first waiter out of the line if a lease granted for `request` serves it.
    pub(crate) fn first_served_by(&self, request: &LockRequest) -> Option<Waiter> {
        self.first_if(request, |first| first.is_served_by(request))
    }

    /// Takes the first waiter out of the line, whoever it is.
    pub(crate) fn first(&self, request: &LockRequest) -> Option<Waiter> {
        self.first_if(request, |_| true)
    }

    fn first_if(
        &self,
        request: &LockRequest,
        is_wanted: impl FnOnce(&LockRequest) -> bool,
    ) -> Option<Waiter> {
        let mut here = self.here.lock();
        let line = here.line(request)?;
        line.skip_those_who_left();
        if !is_wanted(&line.waiters.front()?.request) {
            return None;
        }
        let waiter = line.waiters.pop_front();
        if line.waiters.is_empty()
            && let Some(ticket) = &line.ticket
        {
            // No waiter is left for the ticket, so its attendant withdraws it.
            ticket.changed.notify_one();
        }
        waiter
    }

    /// Returns the next step for the line of a request; called only by its attendant.
    pub(crate) fn next_step(&self, request: &LockRequest, now: Tick) -> NextStep {
        let mut here = self.here.lock();
        let here = &mut *here;
        let lines = here.lines.get_mut(&request.name);
        let Some(line) = lines.and_then(|lines| line_of(lines, request)) else {
            return NextStep::Nothing;
        };
        line.skip_those_who_left();
        let mut waiters = line.waiters.iter();
        let (first, next) = (waiters.next(), waiters.next());
        match (first, line.ticket.take()) {
            (None, None) => {
                here.remove_line(request);
                NextStep::Nothing
            }
            (Some(first), None) => {
                let next = next.map(|next| &*next.request);
                let fences = here.kept.fences(&first.request, next, now);
                let claim = first.request.claim(self.ids.next(), Wait::InLine, fences);
                let ticket = Ticket::due(&first.request, claim, now);
                line.ticket = Some(Arc::clone(&ticket));
                NextStep::Attend(ticket)
            }
            (Some(first), Some(ticket)) if first.request.is_served_by(&ticket.request) => {
                line.ticket = Some(Arc::clone(&ticket));
                NextStep::Attend(ticket)
            }
            (_, Some(ticket)) => NextStep::Withdraw(ticket),
        }
    }

    /// Closes a line that cannot move any more; returns its open ticket.
    pub(crate) fn close(&self, request: &LockRequest) -> Option<Arc<Ticket>> {
        let mut here = self.here.lock();
        let line = std::mem::take(here.line(request)?);
        here.remove_line(request);
        drop(here);
        line.ticket
    }

    fn leave(&self, request: &LockRequest, number: i64) {
        let mut here = self.here.lock();
        let Some(line) = here.line(request) else {
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

    fn waiter(self: &Arc<Self>, request: &Arc<LockRequest>, number: i64) -> (Waiter, Standing) {
        let (sender, turn) = oneshot::channel();
        let waiter = Waiter {
            number,
            request: Arc::clone(request),
            turn: sender,
        };
        let standing = Standing {
            lines: Arc::clone(self),
            request: Arc::clone(request),
            number,
            turn,
        };
        (waiter, standing)
    }

    /// Returns the next number; called under the lock of the lines, so that numbers grow in the
    /// order of joining.
    fn next_number(&self) -> i64 {
        self.next_number.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl Here {
    /// Returns the line of a request.
    fn line(&mut self, request: &LockRequest) -> Option<&mut Line> {
        line_of(self.lines.get_mut(&request.name)?, request)
    }

    /// Adds the line of a request, with a ticket.
    fn add_line(&mut self, request: &LockRequest, ticket: Arc<Ticket>) {
        let line = Line {
            waiters: VecDeque::new(),
            ticket: Some(ticket),
        };
        let lines = self.lines.entry(request.name.clone()).or_default();
        lines.push((request.owner.clone(), line));
    }

    fn remove_line(&mut self, request: &LockRequest) {
        let Some(lines) = self.lines.get_mut(&request.name) else {
            return;
        };
        lines.retain(|(owner, _)| *owner != request.owner);
        if lines.is_empty() {
            self.lines.remove(&request.name);
        }
    }
}

fn line_of<'a>(lines: &'a mut LinesOfName, request: &LockRequest) -> Option<&'a mut Line> {
    let mut lines = lines.iter_mut();
    let own = lines.find(|(owner, _)| *owner == request.owner);
    own.map(|(_, line)| line)
}

fn tickets(lines: &LinesOfName) -> impl Iterator<Item = &Arc<Ticket>> {
    lines.iter().filter_map(|(_, line)| line.ticket.as_ref())
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
}

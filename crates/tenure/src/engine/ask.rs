//! Asking the store: the first request, the wait for news, and what to do after a fault.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Tick, safe};
use crate::driver::{Answer, Claim, Loss, News, Wait};
use crate::engine::backoff::Backoff;
use crate::engine::lease::{Health, HeldLease};
use crate::engine::line::{Joined, Phase, Standing, Ticket, Tried, Turn, Wanted};
use crate::engine::order::Order;
use crate::engine::{Engine, to_end::to_end};
use crate::error::{Error, Result};
use crate::guard::Guard;
use crate::name::{Fence, Name, Owner};

impl Engine {
    /// Waits for the lock, for as long as it takes.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a dropped call leaves the line and gives back what was granted meanwhile.
    pub(crate) async fn lock(self: &Arc<Self>, order: &Arc<Order>) -> Result<Guard> {
        let mut start = self.clock.now();
        let waiting = self.meter.wait(start);
        let seat = self.seat(order);
        let over = |guard| self.sit(seat.as_ref(), waiting.over(guard, &self.clock));
        loop {
            if let Some(guard) = self.enter_seat(seat.as_ref(), order)? {
                return Ok(waiting.over(guard, &self.clock));
            }
            if let Some(guard) = self.enter_again(order).await? {
                return Ok(over(guard));
            }
            let mut standing = match self.lines.join(order, start) {
                Joined::Behind(standing) => standing,
                Joined::Kept(kept) => {
                    if let Some(guard) = self.take(kept, order, start).await {
                        return Ok(over(guard));
                    }
                    start = self.clock.now();
                    continue;
                }
                Joined::First(ticket) => {
                    let asked = Arc::clone(self).ask_first(ticket);
                    match to_end(&self.background, asked).await? {
                        First::Granted(guard) => return Ok(over(guard)),
                        First::Stand(standing) => standing,
                    }
                }
            };
            match self.turn(&mut standing, seat.as_ref()).await {
                Some(Turn::Go(guard)) => return Ok(over(guard)),
                Some(Turn::Again) => start = self.clock.now(),
                Some(Turn::Failed(error)) => return Err(error),
                None => return Err(self.ended()),
            }
        }
    }

    /// Takes the lock if it is free right now.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a grant that nobody waits for any more is given back.
    pub(crate) async fn try_lock(self: &Arc<Self>, order: &Arc<Order>) -> Result<Option<Guard>> {
        let seat = self.seat(order);
        if let Some(guard) = self.enter_seat(seat.as_ref(), order)? {
            return Ok(Some(guard));
        }
        if let Some(guard) = self.enter_again(order).await? {
            return Ok(Some(guard));
        }
        let (now, claim) = loop {
            let now = self.clock.now();
            match self.lines.try_join(order, now) {
                Tried::Ask(claim) => break (now, claim),
                Tried::Busy => return Ok(None),
                Tried::Kept(kept) => {
                    if let Some(guard) = self.take(kept, order, now).await {
                        return Ok(Some(self.sit(seat.as_ref(), guard)));
                    }
                }
            }
        };
        let (engine, order) = (Arc::clone(self), Arc::clone(order));
        let guard = to_end(&self.background, async move {
            let (sent, answer) = engine.ask_until_known(&claim, now).await?;
            Ok(match answer {
                Answer::Granted(fence) => Some(engine.guard(claim, &order, fence, sent)),
                Answer::Busy | Answer::Queued { .. } => None,
            })
        })
        .await?;
        Ok(guard.map(|guard| self.sit(seat.as_ref(), guard)))
    }

    /// Enters a lock again that the order's owner holds in this client.
    async fn enter_again(self: &Arc<Self>, order: &Arc<Order>) -> Result<Option<Guard>> {
        let Some(owner) = &order.owner else {
            return Ok(None);
        };
        let Some(lease) = self.leases.find(&order.name, owner) else {
            return Ok(None);
        };
        let (engine, order) = (Arc::clone(self), Arc::clone(order));
        to_end(&self.background, async move {
            let mut depth = lease.depth.lock().await;
            let now = engine.clock.now();
            let is_over = *depth == 0 || matches!(lease.health(now), Health::Lost(_));
            // A kept lease is nobody's, whoever remembers its owner.
            if is_over || engine.lines.is_kept(&lease) {
                return Ok(None);
            }
            let mut claim = order.claim(Wait::No, 1);
            claim.depth = *depth + 1;
            // The lease goes on as it was granted: a shorter ttl of an inner lock must not end it.
            claim.ttl = lease.renewal(now).ttl;
            let (sent, answer) = engine.ask_until_known(&claim, now).await?;
            if answer == Answer::Granted(lease.fence) {
                *depth += 1;
                lease.renewed(sent, claim.ttl);
                drop(depth);
                let guard = Guard::new(&engine, &lease, &order, lease.fence, 0, sent);
                return Ok(Some(guard));
            }
            // The lease had ended unnoticed; a grant of this depth would be a new one.
            engine.lose(&lease, Loss::Gone);
            if matches!(answer, Answer::Granted(_)) {
                claim.depth = 1;
                engine.driver.withdraw(&claim).await?;
            }
            Ok(None)
        })
        .await
    }

    /// Sends the first request of a line, and stands at its front if the answer is to wait.
    async fn ask_first(self: Arc<Self>, ticket: Arc<Ticket>) -> Result<First> {
        let name = &ticket.claim.name;
        let asked = self.ask_until_known(&ticket.claim, ticket.first_sent).await;
        let answer = match asked {
            Ok((sent, Answer::Granted(fence))) => Ok((fence, sent)),
            Ok((_, Answer::Queued { ask_again })) => {
                // In line before news can serve the ticket, so that it serves this caller.
                let standing = self.lines.stand_first(&ticket);
                self.queued(&ticket, ask_again);
                self.attend(name.clone());
                return Ok(First::Stand(standing));
            }
            Ok((_, Answer::Busy)) => Err(self.broken("it refused a claim that may wait")),
            Err(error) => Err(error),
        };
        let granted = answer.map(|(fence, start)| {
            let guard = self.guard(ticket.claim.clone(), &ticket.order, fence, start);
            First::Granted(guard)
        });
        ticket.end();
        if self.lines.spend_first(&ticket) {
            self.attend(name.clone());
        }
        granted
    }

    /// Looks after a line until nobody waits in it any more.
    fn attend(self: &Arc<Self>, name: Name) {
        let engine = Arc::clone(self);
        self.background.spawn(async move {
            let mut trouble = Trouble::default();
            loop {
                match engine.lines.wanted(&name, engine.clock.now()) {
                    Wanted::Nothing => return,
                    Wanted::Undo(ticket) => {
                        if ticket.end() {
                            engine.undo(ticket.claim.clone());
                        }
                    }
                    Wanted::Attend(ticket) => engine.advance(&ticket, &mut trouble).await,
                }
            }
        });
    }

    /// Brings a ticket one step further.
    async fn advance(self: &Arc<Self>, ticket: &Arc<Ticket>, trouble: &mut Trouble) {
        match ticket.phase() {
            Phase::Ask if self.is_held_here(ticket) => {
                if ticket.end() {
                    self.tell_first(ticket, Turn::Again);
                }
            }
            Phase::Ask => {
                if ticket.begin() {
                    let sent = self.clock.now();
                    let answer = self.driver.acquire(&ticket.claim).await;
                    self.answered(ticket, sent, answer, trouble);
                }
            }
            Phase::Queued(until) if self.clock.now() >= until => ticket.ask_again(),
            Phase::Queued(until) => {
                let nap = until.since(self.clock.now());
                // Late if the machine sleeps meanwhile, which costs a waiter time and nothing else.
                tokio::select! {
                    biased;
                    () = ticket.changed.notified() => {}
                    () = self.clock.sleep(nap) => {}
                }
            }
            // Somebody serves it at this moment, and rings when it is out of the line.
            Phase::Asking { .. } | Phase::Granted { .. } | Phase::Spent => {
                ticket.changed.notified().await;
            }
        }
    }

    fn answered(
        self: &Arc<Self>,
        ticket: &Arc<Ticket>,
        sent: Tick,
        answer: Result<Answer>,
        trouble: &mut Trouble,
    ) {
        match answer {
            Ok(Answer::Granted(fence)) => {
                trouble.over();
                if ticket.end() {
                    self.serve(ticket, fence, sent);
                }
            }
            Ok(Answer::Queued { ask_again }) => {
                trouble.over();
                self.queued(ticket, ask_again);
            }
            Ok(Answer::Busy) => {
                let error = self.broken("it refused a claim that may wait");
                self.give_up(ticket, error);
            }
            Err(error)
                if error.is_outage() && trouble.bearable(&ticket.claim, self.clock.now()) =>
            {
                tracing::debug!(name = %ticket.claim.name, %error, "asking again");
                self.queued(ticket, trouble.backoff.pause());
            }
            Err(error) => {
                trouble.over();
                self.give_up(ticket, error);
            }
        }
    }

    /// Takes a ticket back, and tells its waiter why.
    fn give_up(self: &Arc<Self>, ticket: &Arc<Ticket>, error: Error) {
        if ticket.end() {
            self.undo(ticket.claim.clone());
            self.tell_first(ticket, Turn::Failed(error));
        }
    }

    /// Notes that a ticket stands in line, or serves it if news of its grant came meanwhile.
    fn queued(self: &Arc<Self>, ticket: &Arc<Ticket>, ask_again: Duration) {
        let jitter = (ask_again / 100)
            .min(LONGEST_JITTER)
            .mul_f64(fastrand::f64())
            + A_MOMENT;
        let until = self.clock.now() + ask_again + jitter;
        let mut granted = None;
        ticket.advance(|phase| match phase {
            Phase::Granted { fence, start } if self.is_certain(ticket, start) => {
                granted = Some((fence, start));
                Phase::Spent
            }
            Phase::Granted { .. } | Phase::Asking { again: true } => Phase::Ask,
            Phase::Spent => Phase::Spent,
            Phase::Ask | Phase::Asking { .. } | Phase::Queued(_) => Phase::Queued(until),
        });
        if let Some((fence, start)) = granted {
            self.serve(ticket, fence, start);
        }
    }

    /// Takes in what the store tells of its own accord.
    pub(crate) fn hear(self: &Arc<Self>, news: News) {
        match news {
            News::AskAgain(only) => {
                self.lines.ask_again(only.as_ref());
                if only.is_none() {
                    self.call_all_back();
                    self.leases.renew_all();
                }
            }
            News::Granted {
                name,
                owner,
                fence,
                after,
            } => {
                self.hear_granted(&name, &owner, fence, after);
            }
            News::Lost {
                name,
                owner,
                fence,
                loss,
            } => {
                let lease = self.leases.find(&name, &owner);
                if let Some(lease) = lease.filter(|lease| lease.fence == fence) {
                    self.lose(&lease, loss);
                }
            }
            News::Wanted { name, owner, fence } => self.call_back(&name, &owner, fence),
        }
    }

    fn hear_granted(self: &Arc<Self>, name: &Name, owner: &Owner, fence: Fence, after: Duration) {
        let Some(ticket) = self.lines.ticket(name, owner) else {
            // The ticket was taken back, or served by the answer to a repeated request.
            let known = self
                .leases
                .find(name, owner)
                .is_some_and(|lease| lease.fence == fence);
            if !known {
                self.release_stray(name, owner, fence);
            }
            return;
        };
        let start = ticket.start(after);
        let certain = self.is_certain(&ticket, start);
        let mut serve = false;
        ticket.advance(|phase| match phase {
            Phase::Asking { .. } | Phase::Granted { .. } => Phase::Granted { fence, start },
            Phase::Spent => Phase::Spent,
            Phase::Ask | Phase::Queued(_) if certain => {
                serve = true;
                Phase::Spent
            }
            Phase::Ask | Phase::Queued(_) => Phase::Ask,
        });
        if serve {
            self.serve(&ticket, fence, start);
        }
    }

    /// Whether news of a grant can be believed as it is.
    ///
    /// Old news may reach a new claim of the same owner, unless owners are never used twice; and
    /// a grant that is half over is better renewed first. Asking again settles both.
    fn is_certain(&self, ticket: &Ticket, start: Tick) -> bool {
        let over = start + safe(ticket.claim.ttl);
        ticket.order.owner.is_none() && over.since(self.clock.now()) > ticket.claim.ttl / 2
    }

    /// Gives a ticket's grant to the first in line; the caller has ended the ticket.
    fn serve(self: &Arc<Self>, ticket: &Arc<Ticket>, fence: Fence, start: Tick) {
        let mut guard = self.guard(ticket.claim.clone(), &ticket.order, fence, start);
        while let Some(first) = self
            .lines
            .first_served_by(&ticket.claim.name, &ticket.order)
        {
            guard.set_order(&first.order);
            match first.tell(Turn::Go(guard)) {
                Err(Turn::Go(returned)) => guard = returned,
                _ => return self.lines.spend(ticket),
            }
        }
        self.lines.spend(ticket);
        drop(guard);
    }

    /// Tells the waiter that a ticket was made for how asking ended.
    fn tell_first(&self, ticket: &Arc<Ticket>, mut turn: Turn) {
        self.lines.spend(ticket);
        while let Some(first) = self.lines.first(&ticket.claim.name) {
            match first.tell(turn) {
                Ok(()) => return,
                Err(returned) => turn = returned,
            }
        }
    }

    /// Whether the ticket's owner got the lock in this client by another way.
    fn is_held_here(&self, ticket: &Ticket) -> bool {
        let Some(owner) = &ticket.order.owner else {
            return false;
        };
        self.leases.find(&ticket.claim.name, owner).is_some()
    }

    /// Asks, and asks again while the outcome is unknown; what stays unknown is undone.
    ///
    /// Returns when the request went out that was answered; `now` is for the first.
    async fn ask_until_known(self: &Arc<Self>, claim: &Claim, now: Tick) -> Result<(Tick, Answer)> {
        let (mut sent, mut tries) = (now, 1);
        let mut backoff = Backoff::default();
        loop {
            match self.driver.acquire(claim).await {
                Ok(answer) => return Ok((sent, answer)),
                Err(error) if !error.nothing_changed() && tries < TRIES => {
                    tracing::debug!(name = %claim.name, %error, "asking again");
                }
                Err(error) => {
                    // An earlier try may have taken effect even if this one did not.
                    if tries > 1 || !error.nothing_changed() {
                        self.undo(claim.clone());
                    }
                    return Err(match error {
                        Error::Unavailable { driver, source } if tries > 1 => {
                            Error::Indeterminate { driver, source }
                        }
                        other => other,
                    });
                }
            }
            self.clock.sleep(backoff.pause()).await;
            tries += 1;
            sent = self.clock.now();
        }
    }

    /// Withdraws a claim in the background, until the store confirms it or the ttl has passed.
    pub(crate) fn undo(self: &Arc<Self>, claim: Claim) {
        let engine = Arc::clone(self);
        self.background.spawn(async move {
            let give_up = engine.clock.now() + claim.ttl;
            let mut backoff = Backoff::default();
            while let Err(error) = engine.driver.withdraw(&claim).await {
                if engine.clock.now() >= give_up || !error.is_outage() {
                    tracing::warn!(name = %claim.name, %error, "a claim could not be withdrawn");
                    return;
                }
                engine.clock.sleep(backoff.pause()).await;
            }
        });
    }

    /// Registers a grant, and makes the guard for it.
    fn guard(
        self: &Arc<Self>,
        claim: Claim,
        order: &Arc<Order>,
        fence: Fence,
        start: Tick,
    ) -> Guard {
        let lease = Arc::new(HeldLease::new(claim, fence, start, order.max_hold));
        self.leases.add(&lease);
        self.hear_early_call(&lease);
        self.meter.granted();
        tracing::debug!(name = %lease.claim.name, %fence, "granted");
        Guard::new(self, &lease, order, fence, 0, start)
    }

    fn ended(&self) -> Error {
        Error::Unavailable {
            driver: self.driver.kind(),
            source: "the client has ended".into(),
        }
    }

    /// An answer that the contract does not have.
    pub(crate) fn broken(&self, what: &'static str) -> Error {
        Error::Indeterminate {
            driver: self.driver.kind(),
            source: what.into(),
        }
    }
}

/// What comes of the first request of a line.
#[derive(Debug)]
enum First {
    Granted(Guard),
    Stand(Standing),
}

/// How long the store has not answered somebody who stands in line.
#[derive(Debug, Default)]
struct Trouble {
    since: Option<Tick>,
    backoff: Backoff,
}

impl Trouble {
    fn over(&mut self) {
        *self = Self::default();
    }

    /// Whether to go on: a place in line is worth an outage of one ttl.
    fn bearable(&mut self, claim: &Claim, now: Tick) -> bool {
        let since = *self.since.get_or_insert(now);
        now.since(since) < claim.ttl
    }
}

const TRIES: u32 = 3;
/// Enough to spread those who were told the same time, and no reason to keep a free lock waiting.
const LONGEST_JITTER: Duration = Duration::from_millis(10);
/// A little later than the time that the store named: just before, it would say no again.
const A_MOMENT: Duration = Duration::from_millis(1);

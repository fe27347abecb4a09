//! Requests for a lock: the first one, waiting for news, and what to do after a fault.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Tick;
use crate::driver::{Answer, Claim, Grant, Loss, News};
use crate::engine::backoff::Backoff;
use crate::engine::give_back::GiveBack;
use crate::engine::lease::HeldLease;
use crate::engine::line::{Joined, NextStep, Standing, Tried, Turn};
use crate::engine::lock_request::LockRequest;
use crate::engine::ticket::{Action, Event, Granted, LONG_SILENCE, Place, Ticket};
use crate::engine::{Engine, to_end::to_end};
use crate::error::{Error, Result};
use crate::guard::Guard;
use crate::name::{ClaimId, Fence, Name};

impl Engine {
    /// Waits for the lock, for as long as it takes.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a dropped call leaves the line and gives back what was granted meanwhile.
    pub(crate) async fn lock(self: &Arc<Self>, request: &Arc<LockRequest>) -> Result<Guard> {
        let mut start = self.clock.now();
        let waiting = self.meter.wait(start);
        let entry = self.reentry(request);
        let over = |guard| Self::admit(entry.as_ref(), waiting.over(guard, &self.clock));
        loop {
            if let Some(guard) = self.reenter(entry.as_ref(), request)? {
                return Ok(waiting.over(guard, &self.clock));
            }
            let mut standing = match self.lines.join(request, start) {
                Joined::Behind(standing) => standing,
                Joined::Kept(kept) => {
                    if let Some(guard) = self.take(kept, request, start).await {
                        return Ok(over(guard));
                    }
                    start = self.clock.now();
                    continue;
                }
                Joined::First(ticket) => {
                    let attendant = Attendant::of(self, &ticket.request);
                    match to_end(&self.background, attendant.ask_first(ticket)).await? {
                        First::Granted(guard) => return Ok(over(guard)),
                        First::Stand(standing) => standing,
                    }
                }
            };
            match self.turn(&mut standing, entry.as_ref()).await {
                Some(Turn::Go(guard)) => return Ok(over(guard)),
                Some(Turn::Again) => start = self.clock.now(),
                Some(Turn::Failed(error)) => return Err(error),
                None => {
                    return Err(
                        self.unavailable("the runtime of the client has ended: open another")
                    );
                }
            }
        }
    }

    /// Takes the lock if it is free right now.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a grant that nobody waits for any more is given back.
    pub(crate) async fn try_lock(
        self: &Arc<Self>,
        request: &Arc<LockRequest>,
    ) -> Result<Option<Guard>> {
        let entry = self.reentry(request);
        if let Some(guard) = self.reenter(entry.as_ref(), request)? {
            return Ok(Some(guard));
        }
        let ticket = loop {
            let now = self.clock.now();
            match self.lines.try_join(request, now) {
                Tried::Ask(ticket) => break ticket,
                Tried::Busy => return Ok(None),
                Tried::Kept(kept) => {
                    if let Some(guard) = self.take(kept, request, now).await {
                        return Ok(Some(Self::admit(entry.as_ref(), guard)));
                    }
                }
            }
        };
        let engine = Arc::clone(self);
        let guard = to_end(&self.background, async move {
            Ok(match engine.ask_until_known(&ticket).await? {
                (start, Answer::Granted(grant)) => {
                    Some(engine.guard(&ticket, Granted { grant, start }))
                }
                (_, Answer::Busy | Answer::Queued { .. }) => {
                    tracing::debug!(name = %ticket.claim.name, "busy");
                    None
                }
            })
        })
        .await?;
        Ok(guard.map(|guard| Self::admit(entry.as_ref(), guard)))
    }

    /// Waits for the lock, for at most `patience`.
    ///
    /// Asks the store once more shortly before the end, because the store may have become unavailable
    /// since it reported that others hold the lock.
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](Self::lock).
    pub(crate) async fn lock_timeout(
        self: &Arc<Self>,
        request: &Arc<LockRequest>,
        patience: Duration,
    ) -> Result<Guard> {
        let end = self.clock.now() + patience;
        let last_look = (patience / 4).min(LONGEST_LAST_LOOK);
        // The call is still in line when the time is up, so that the line knows the cause.
        let mut lock = std::pin::pin!(self.lock(request));
        if last_look > LONG_SILENCE {
            tokio::select! {
                biased;
                guard = &mut lock => return guard,
                () = self.clock.sleep(patience - last_look) => {
                    self.lines.expect_answer(request, self.clock.now());
                }
            }
        }
        tokio::select! {
            biased;
            guard = &mut lock => guard,
            () = self.clock.sleep(end.since(self.clock.now())) => {
                Err(self.too_late(request, patience))
            }
        }
    }

    /// Explains why a caller that has waited this long did not get the lock.
    fn too_late(&self, request: &LockRequest, waited: Duration) -> Error {
        match self.lines.silence(request, self.clock.now()) {
            Some(why) => {
                let why = format!("{why}; gave up after {waited:?}");
                Error::indeterminate(self.driver.kind(), why)
            }
            None => Error::TimedOut {
                name: request.name.clone(),
                waited,
            },
        }
    }

    /// Takes the next step for a ticket.
    async fn advance(self: &Arc<Self>, ticket: &Arc<Ticket>, outage: &mut Outage) {
        let now = self.clock.now();
        match ticket.on(Event::Look, now) {
            Action::Send => {
                let answer = self.driver.acquire(&ticket.claim).await;
                self.answered(ticket, now, answer, outage);
            }
            // A suspended machine delays this timer, which only costs the waiter time.
            Action::Sleep(until) => tokio::select! {
                biased;
                () = ticket.changed.notified() => {}
                () = self.clock.sleep(until.since(now)) => {}
            },
            // A request is in flight, or the ticket is being served and sends a notification when it
            // leaves the line.
            Action::Wait | Action::Serve(_) | Action::Withdraw => ticket.changed.notified().await,
        }
    }

    fn answered(
        self: &Arc<Self>,
        ticket: &Arc<Ticket>,
        sent: Tick,
        answer: Result<Answer>,
        outage: &mut Outage,
    ) {
        match answer {
            Ok(Answer::Granted(grant)) => {
                outage.over();
                let granted = Granted { grant, start: sent };
                self.act(ticket, Event::AnsweredGranted(granted));
            }
            Ok(Answer::Queued { ask_again }) => {
                outage.over();
                tracing::debug!(name = %ticket.claim.name, "still waiting in line");
                ticket.hear(Ok(()));
                self.queued(ticket, sent, ask_again);
            }
            Ok(Answer::Busy) => self.give_up(ticket, self.refused(ticket)),
            Err(error) if error.is_outage() && outage.bearable(&ticket.claim, self.clock.now()) => {
                tracing::debug!(name = %ticket.claim.name, %error, "asking again");
                ticket.hear(Err(&error));
                // Nothing newer shows that the claim was not granted yet, so it counts from the first
                // request.
                self.queued(ticket, ticket.first_sent, Some(outage.backoff.pause()));
            }
            Err(error) => {
                outage.over();
                self.give_up(ticket, error);
            }
        }
    }

    /// Withdraws a ticket, and tells its waiter why.
    fn give_up(self: &Arc<Self>, ticket: &Arc<Ticket>, error: Error) {
        if ticket.on(Event::End, self.clock.now()) == Action::Withdraw {
            self.withdraw(&ticket.claim);
            self.lines.spend(ticket);
            let mut turn = Turn::Failed(error);
            while let Some(first) = self.lines.first(&ticket.request) {
                match first.tell(turn) {
                    Ok(()) => return,
                    Err(returned) => turn = returned,
                }
            }
        }
    }

    /// Records that a ticket is in line, according to the reply to a request that was sent at `asked`.
    fn queued(self: &Arc<Self>, ticket: &Arc<Ticket>, asked: Tick, ask_again: Option<Duration>) {
        let until = ask_again.map_or(Tick::NEVER, |ask_again| {
            let jitter = (ask_again / 100)
                .min(LONGEST_JITTER)
                .mul_f64(fastrand::f64());
            self.clock.now() + ask_again + jitter + A_MOMENT
        });
        self.act(ticket, Event::AnsweredQueued(Place { asked, until }));
    }

    /// Applies an event to a ticket, and does what follows from it.
    fn act(self: &Arc<Self>, ticket: &Arc<Ticket>, event: Event) {
        match ticket.on(event, self.clock.now()) {
            Action::Serve(granted) => self.serve(ticket, granted),
            Action::Withdraw => self.withdraw(&ticket.claim),
            // The attendant checks the ticket by itself.
            Action::Wait | Action::Sleep(_) | Action::Send => {}
        }
    }

    /// Handles news of the store.
    pub(crate) fn hear(self: &Arc<Self>, news: News) {
        match news {
            News::AskAgain(only) => {
                self.lines.ask_again(only.as_ref(), self.clock.now());
                if only.is_none() {
                    self.call_all_back();
                    self.leases.renew_all();
                }
            }
            News::Granted {
                name,
                claim,
                grant,
                after,
            } => self.hear_granted(&name, &claim, grant, after),
            News::Lost {
                name,
                claim,
                fence,
                loss,
            } => self.hear_lost(&name, &claim, fence, loss),
            News::SessionLost(loss) => {
                for lease in self.leases.all() {
                    self.lose(&lease, loss);
                }
                self.lines.ask_again(None, self.clock.now());
            }
            News::Wanted { claim, fence, .. } => self.call_back(&claim, fence),
        }
    }

    fn hear_granted(self: &Arc<Self>, name: &Name, claim: &ClaimId, grant: Grant, after: Duration) {
        if let Some(ticket) = self.lines.ticket(name, claim) {
            let granted = ticket.told(grant, after);
            self.act(&ticket, Event::ToldGranted(granted));
            return;
        }
        let lease = self.leases.find(claim);
        if lease.is_none_or(|lease| lease.fence != grant.fence) {
            // The ticket was withdrawn before it was granted.
            self.release_stray(name, claim, grant.fence);
        }
    }

    fn hear_lost(self: &Arc<Self>, name: &Name, claim: &ClaimId, fence: Fence, loss: Loss) {
        // Recorded before the search: the task that adds the lease checks in the opposite order.
        self.early.note_loss(claim, fence, loss);
        let lease = self.leases.find(claim);
        if let Some(lease) = lease.filter(|lease| lease.fence == fence) {
            self.lose(&lease, loss);
        } else if let Some(ticket) = self.lines.ticket(name, claim) {
            ticket.on(Event::AskAgain, self.clock.now());
        }
    }

    /// Passes a ticket's grant to the first in line; the caller has spent the ticket.
    fn serve(self: &Arc<Self>, ticket: &Arc<Ticket>, granted: Granted) {
        let guard = self.guard(ticket, granted);
        let untaken = self.offer(&ticket.request, guard);
        self.lines.spend(ticket);
        drop(untaken);
    }

    /// Offers a guard to the waiters that it serves, one after the other; returns it if nobody takes it.
    pub(super) fn offer(&self, request: &LockRequest, mut guard: Guard) -> Option<Guard> {
        while let Some(first) = self.lines.first_served_by(request) {
            guard.set_request(&first.request);
            match first.tell(Turn::Go(guard)) {
                Err(Turn::Go(returned)) => guard = returned,
                _ => return None,
            }
        }
        Some(guard)
    }

    /// Sends the request, and retries while the outcome is unknown; withdraws the claim if it stays
    /// unknown.
    ///
    /// Returns the answer, and when its request was sent.
    async fn ask_until_known(self: &Arc<Self>, ticket: &Arc<Ticket>) -> Result<(Tick, Answer)> {
        let owed = self.owe(Arc::clone(ticket));
        let claim = &ticket.claim;
        let (mut sent, mut tries) = (ticket.first_sent, 1);
        let mut backoff = Backoff::default();
        loop {
            match self.driver.acquire(claim).await {
                Ok(answer) => {
                    owed.paid();
                    return Ok((sent, answer));
                }
                Err(error) if !error.nothing_changed() && tries < TRIES => {
                    ticket.hear(Err(&error));
                    tracing::debug!(name = %claim.name, %error, "asking again");
                }
                Err(error) => {
                    // An earlier attempt may have taken effect even if this one did not.
                    if tries > 1 || !error.nothing_changed() {
                        self.withdraw(claim);
                    }
                    owed.paid();
                    return Err(if tries > 1 { error.in_doubt() } else { error });
                }
            }
            self.clock.sleep(backoff.pause()).await;
            tries += 1;
            sent = self.clock.now();
        }
    }

    /// Withdraws a claim in the background, until the store confirms it or the ttl has passed.
    fn withdraw(self: &Arc<Self>, claim: &Claim) {
        self.give_back_in_background(GiveBack::Withdraw(claim.clone()), claim.ttl);
    }

    /// Registers a grant, and makes the guard for it.
    fn guard(self: &Arc<Self>, ticket: &Ticket, granted: Granted) -> Guard {
        let (claim, request) = (ticket.claim.clone(), &ticket.request);
        let lease = Arc::new(HeldLease::new(claim, granted, request.max_hold));
        let fence = granted.grant.fence;
        self.leases.add(&lease);
        self.hear_early_news(&lease);
        self.meter.granted();
        tracing::debug!(name = %lease.claim.name, %fence, "granted");
        // The lease may have started long before its holder got it.
        Guard::new(self, &lease, request, 0, self.clock.now())
    }

    pub(super) fn unavailable(&self, why: &'static str) -> Error {
        Error::unavailable(self.driver.kind(), why)
    }

    fn refused(&self, ticket: &Ticket) -> Error {
        tracing::debug!(name = %ticket.claim.name, "a claim that may wait was refused");
        self.broken("it refused a claim that may wait")
    }

    /// Returns the error for an answer that breaks the contract of drivers.
    pub(crate) fn broken(&self, what: &'static str) -> Error {
        Error::indeterminate(self.driver.kind(), what)
    }
}

/// Attends to a line from its first request on.
///
/// If the runtime ends first, dropping the attendant closes the line.
#[derive(Debug)]
struct Attendant {
    engine: Arc<Engine>,
    request: Arc<LockRequest>,
    is_done: bool,
}

impl Attendant {
    fn of(engine: &Arc<Engine>, request: &Arc<LockRequest>) -> Self {
        Self {
            engine: Arc::clone(engine),
            request: Arc::clone(request),
            is_done: false,
        }
    }

    /// Sends the first request of a line, and joins it at the front if the answer is to wait.
    async fn ask_first(self, ticket: Arc<Ticket>) -> Result<First> {
        let engine = &self.engine;
        let answer = match engine.ask_until_known(&ticket).await {
            Ok((start, Answer::Granted(grant))) => Ok(Granted { grant, start }),
            Ok((sent, Answer::Queued { ask_again })) => {
                // Joins before news can serve the ticket, so that it serves this caller.
                let standing = engine.lines.stand_first(&ticket);
                tracing::debug!(name = %ticket.claim.name, "waiting in line");
                ticket.hear(Ok(()));
                engine.queued(&ticket, sent, ask_again);
                self.attend();
                return Ok(First::Stand(standing));
            }
            Ok((_, Answer::Busy)) => Err(engine.refused(&ticket)),
            Err(error) => Err(error),
        };
        let served = answer.map(|granted| First::Granted(engine.guard(&ticket, granted)));
        ticket.on(Event::End, engine.clock.now());
        match engine.lines.spend_first(&ticket) {
            true => self.attend(),
            false => self.leave(),
        }
        served
    }

    /// Attends to the line until nobody waits in it any more.
    fn attend(self) {
        let background = self.engine.background.clone();
        background.spawn(async move {
            let (engine, mut outage) = (&self.engine, Outage::default());
            loop {
                match engine.lines.next_step(&self.request, engine.clock.now()) {
                    NextStep::Nothing => break,
                    NextStep::Withdraw(ticket) => engine.act(&ticket, Event::End),
                    NextStep::Attend(ticket) => engine.advance(&ticket, &mut outage).await,
                }
            }
            self.leave();
        });
    }

    /// Ends the work: nobody waits in the line any more.
    fn leave(mut self) {
        self.is_done = true;
    }
}

impl Drop for Attendant {
    fn drop(&mut self) {
        if !self.is_done
            && let Some(ticket) = self.engine.lines.close(&self.request)
        {
            drop(self.engine.owe(ticket));
        }
    }
}

/// The result of the first request of a line.
#[derive(Debug)]
enum First {
    Granted(Guard),
    Stand(Standing),
}

/// Tracks how long the store has not answered a ticket in line.
#[derive(Debug, Default)]
struct Outage {
    since: Option<Tick>,
    backoff: Backoff,
}

impl Outage {
    fn over(&mut self) {
        *self = Self::default();
    }

    /// Returns whether to keep trying: a ticket keeps its place in line through an outage of up to one
    /// ttl.
    fn bearable(&mut self, claim: &Claim, now: Tick) -> bool {
        let since = *self.since.get_or_insert(now);
        now.since(since) < claim.ttl
    }
}

/// The longest time before the end of a limited wait at which the store is asked once more.
const LONGEST_LAST_LOOK: Duration = Duration::from_secs(1);
const TRIES: u32 = 3;
/// Enough to spread clients that were told the same time, without leaving a free lock idle for long.
const LONGEST_JITTER: Duration = Duration::from_millis(10);
/// Added to the time that the store named: just before that time, it would refuse again.
const A_MOMENT: Duration = Duration::from_millis(1);

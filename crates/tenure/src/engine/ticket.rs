//! The ticket: this client's place in a store's line for a name, or the request for one.
//!
//! All states and transitions are here. A transition is a pure function of a state and an [`Event`]; it
//! returns what has to be done, and `ask.rs` does that.
//!
//! ```text
//!                Look: send              answer: queued
//!      ┌────► Due ──────────► Asking ───────────────────────► Queued
//!      │       ▲               │  ▲ any news:                  │  │
//!      │       │ answer:       │  │ noted                      │  │
//!      │       │ queued, but   ├──┘                            │  │
//!      │       │ news came     │                               │  │
//!      │       └───────────────┤                               │  │
//!      │                       │                               │  │
//!      │   news: ask again, or granted but uncertain; Look: time is up
//!      └───────────────────────┼───────────────────────────────┘  │
//!                              │ answer: granted                  │ news: granted
//!                              ▼                                  │
//!                            Spent: serve the grant ◄─────────────┘
//!   any state but Spent ── End ──► Spent: withdraw the claim
//! ```
//!
//! News that arrives while a request is in flight may be older or newer than the answer. So only a grant
//! in the answer is trusted; asking again settles the rest.
//!
//! The code that makes a ticket [`Spent`](State::Spent) serves its grant or withdraws its claim; no other
//! code may.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::Tick;
use crate::driver::{Claim, Grant};
use crate::engine::lock_request::LockRequest;
use crate::error::Error;
use crate::sync::Mutex;

/// A claim on its way through a store's line.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(crate) request: Arc<LockRequest>,
    pub(crate) claim: Claim,
    /// When the first request was sent: the store did not queue the claim earlier.
    pub(crate) first_sent: Tick,
    state: Mutex<State>,
    heard: Mutex<Heard>,
    /// Notified at every transition, for the attendant of the line.
    pub(crate) changed: Notify,
}

/// The result of the last request about a ticket.
#[derive(Debug)]
enum Heard {
    /// None yet; a reply has been expected since this time.
    Nothing { since: Tick },
    /// An answer.
    Answer,
    /// A fault.
    Fault(String),
}

/// How far a ticket has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// A request is to be sent.
    Due,
    /// A request is in flight.
    Asking {
        /// Whether news arrived meanwhile: the answer may be older than that.
        again: bool,
    },
    /// The claim is in the store's line.
    Queued(Place),
    /// It was served or withdrawn.
    Spent,
}

/// A place in the store's line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// When the request for this answer was sent: the claim was not granted before.
    pub(crate) asked: Tick,
    /// When to ask again if no news came.
    pub(crate) until: Tick,
}

/// What happens to a ticket.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Event {
    /// The attendant asks what to do next.
    Look,
    /// The store said to ask again.
    AskAgain,
    /// The answer: it is in line.
    AnsweredQueued(Place),
    /// The answer: it is granted.
    AnsweredGranted(Granted),
    /// News: it is granted.
    ToldGranted(Granted),
    /// Nobody wants it any more, or asking failed for good.
    End,
}

/// A grant, and the earliest moment at which the store may have made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Granted {
    pub(crate) grant: Grant,
    pub(crate) start: Tick,
}

/// What has to be done after a transition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Nothing before the next event.
    Wait,
    /// Look again at this time, or at the next event.
    Sleep(Tick),
    /// Send a request.
    Send,
    /// Give the grant to the first in the local line.
    Serve(Granted),
    /// Withdraw the claim.
    Withdraw,
}

impl Ticket {
    /// Makes a ticket whose first request the caller is about to send.
    pub(crate) fn asking(request: &Arc<LockRequest>, claim: Claim, now: Tick) -> Arc<Self> {
        Self::new(request, claim, now, State::Asking { again: false })
    }

    /// Makes a ticket whose first request its attendant sends.
    pub(crate) fn due(request: &Arc<LockRequest>, claim: Claim, now: Tick) -> Arc<Self> {
        Self::new(request, claim, now, State::Due)
    }

    fn new(request: &Arc<LockRequest>, claim: Claim, now: Tick, state: State) -> Arc<Self> {
        Arc::new(Self {
            request: Arc::clone(request),
            claim,
            first_sent: now,
            state: Mutex::new(state),
            heard: Mutex::new(Heard::Nothing { since: now }),
            changed: Notify::new(),
        })
    }

    /// Applies the event, and returns what has to be done.
    pub(crate) fn on(&self, event: Event, now: Tick) -> Action {
        let mut state = self.state.lock();
        let (next, action) = state.on(event, now);
        let changed = *state != next;
        *state = next;
        drop(state);
        if changed && !matches!(event, Event::Look) {
            self.changed.notify_one();
        }
        action
    }

    /// Returns a grant that news reported, made by the store `after` it had queued the claim.
    ///
    /// Its start is a little early: the longer the wait, the further the two clocks may have drifted
    /// apart.
    pub(crate) fn told(&self, grant: Grant, after: Duration) -> Granted {
        let start = self.first_sent + after - after / 1000;
        Granted { grant, start }
    }

    /// Records the result of a request about it.
    pub(crate) fn hear(&self, answer: Result<(), &Error>) {
        *self.heard.lock() = match answer {
            Ok(()) => Heard::Answer,
            Err(error) => Heard::Fault(error.why()),
        };
    }

    /// Asks again, and expects an answer from now on.
    pub(crate) fn expect_answer(&self, now: Tick) {
        let mut heard = self.heard.lock();
        if matches!(*heard, Heard::Answer) {
            *heard = Heard::Nothing { since: now };
        }
        drop(heard);
        self.on(Event::AskAgain, now);
    }

    /// Explains why nothing is known about its place in line, if the store does not answer.
    pub(crate) fn silence(&self, now: Tick) -> Option<String> {
        match &*self.heard.lock() {
            Heard::Nothing { since } if now.since(*since) >= LONG_SILENCE => {
                Some("the store has not answered".to_owned())
            }
            Heard::Nothing { .. } | Heard::Answer => None,
            Heard::Fault(why) => Some(why.clone()),
        }
    }
}

impl State {
    fn on(self, event: Event, now: Tick) -> (Self, Action) {
        match event {
            Event::Look => self.look(now),
            Event::AskAgain => (self.ask_again(), Action::Wait),
            Event::AnsweredQueued(place) => (self.answered_queued(place), Action::Wait),
            Event::AnsweredGranted(granted) => self.unless_spent(Action::Serve(granted)),
            Event::ToldGranted(granted) => self.told_granted(granted, now),
            Event::End => self.unless_spent(Action::Withdraw),
        }
    }

    fn look(self, now: Tick) -> (Self, Action) {
        match self {
            Self::Queued(place) if now < place.until => (self, Action::Sleep(place.until)),
            Self::Due | Self::Queued(_) => (Self::Asking { again: false }, Action::Send),
            Self::Asking { .. } | Self::Spent => (self, Action::Wait),
        }
    }

    fn ask_again(self) -> Self {
        match self {
            Self::Queued(_) => Self::Due,
            Self::Asking { .. } => Self::Asking { again: true },
            Self::Due | Self::Spent => self,
        }
    }

    fn answered_queued(self, place: Place) -> Self {
        match self {
            Self::Asking { again: true } => Self::Due,
            Self::Asking { again: false } | Self::Due | Self::Queued(_) => Self::Queued(place),
            Self::Spent => self,
        }
    }

    fn told_granted(self, granted: Granted, now: Tick) -> (Self, Action) {
        match self {
            Self::Queued(place) if granted.is_certain(place, now) => {
                let start = place.asked;
                (Self::Spent, Action::Serve(Granted { start, ..granted }))
            }
            other => (other.ask_again(), Action::Wait),
        }
    }

    fn unless_spent(self, action: Action) -> (Self, Action) {
        match self {
            Self::Spent => (self, Action::Wait),
            _ => (Self::Spent, action),
        }
    }
}

impl Granted {
    /// Returns whether news of a grant can be trusted without asking again.
    ///
    /// The store's clock gives the time of the grant, and it may have jumped while the claim waited. So
    /// the news is trusted only if the last answer that the claim is in line is recent, and the lease
    /// counts from that answer, which is not later than the grant. A grant that seems older than that
    /// answer is old news. A grant that seems to be from the future shows that the clock jumped. Asking
    /// again settles all of these cases.
    fn is_certain(&self, place: Place, now: Tick) -> bool {
        let in_between = place.asked <= self.start && self.start <= now;
        in_between && now.since(place.asked) <= self.grant.valid / 4
    }
}

/// A reply may still be in flight for this long.
pub(crate) const LONG_SILENCE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Fence;

    const TTL: Duration = Duration::from_secs(10);

    fn granted(start_ms: u64) -> Granted {
        Granted {
            grant: Grant::new(Fence::new(7).unwrap(), TTL),
            start: at(start_ms),
        }
    }

    fn at(ms: u64) -> Tick {
        Tick::default() + Duration::from_millis(ms)
    }

    fn place(until_ms: u64) -> Place {
        Place {
            asked: at(500),
            until: at(until_ms),
        }
    }

    fn queued(until_ms: u64) -> State {
        State::Queued(place(until_ms))
    }

    /// Applies the events one second after the first tick, and returns the last action.
    fn after(mut state: State, events: &[Event]) -> (State, Action) {
        let mut action = Action::Wait;
        for event in events {
            (state, action) = state.on(*event, at(1000));
        }
        (state, action)
    }

    #[test]
    fn a_due_ticket_is_sent_once() {
        let (state, action) = after(State::Due, &[Event::Look]);
        assert_eq!(action, Action::Send);
        assert_eq!(after(state, &[Event::Look]), (state, Action::Wait));
    }

    #[test]
    fn a_queued_ticket_sleeps_until_its_time() {
        let queued = queued(5000);
        assert_eq!(
            queued.on(Event::Look, at(4999)).1,
            Action::Sleep(at(5000)),
            "not yet"
        );
        assert_eq!(queued.on(Event::Look, at(5000)).1, Action::Send);
    }

    #[test]
    fn a_call_to_ask_again_that_overtakes_the_answer_is_not_forgotten() {
        let asking = State::Asking { again: false };
        let events = [Event::AskAgain, Event::AnsweredQueued(place(9000))];
        assert_eq!(after(asking, &events), (State::Due, Action::Wait));
    }

    #[test]
    fn a_place_in_line_and_news_of_a_grant_contradict_each_other_until_asked_again() {
        let asking = State::Asking { again: false };
        let events = [
            Event::ToldGranted(granted(900)),
            Event::AnsweredQueued(place(9000)),
        ];
        assert_eq!(after(asking, &events), (State::Due, Action::Wait));
    }

    #[test]
    fn a_grant_in_the_answer_is_believed_whatever_news_said() {
        let asking = State::Asking { again: false };
        let events = [
            Event::ToldGranted(granted(100)),
            Event::AnsweredGranted(granted(900)),
        ];
        assert_eq!(after(asking, &events).1, Action::Serve(granted(900)));
    }

    #[test]
    fn a_grant_that_is_told_counts_from_the_answer_before() {
        let told = Event::ToldGranted(granted(900));
        let served = (State::Spent, Action::Serve(granted(500)));
        assert_eq!(after(queued(20_000), &[told]), served);
    }

    #[test]
    fn a_grant_long_after_the_last_answer_before_it_or_from_the_future_is_asked_for_again() {
        let queued = queued(20_000);
        let told = |start_ms| Event::ToldGranted(granted(start_ms));
        assert!(matches!(queued.on(told(900), at(3000)).1, Action::Serve(_)));
        assert_eq!(queued.on(told(900), at(3001)), (State::Due, Action::Wait));
        assert_eq!(after(queued, &[told(499)]), (State::Due, Action::Wait));
        assert_eq!(after(queued, &[told(1001)]), (State::Due, Action::Wait));
    }

    #[test]
    fn a_ticket_is_spent_once_whatever_happens_next() {
        let all = [
            Event::Look,
            Event::AskAgain,
            Event::AnsweredQueued(place(9000)),
            Event::AnsweredGranted(granted(900)),
            Event::ToldGranted(granted(900)),
            Event::End,
        ];
        let states = [
            State::Due,
            State::Asking { again: false },
            State::Asking { again: true },
            queued(9000),
        ];
        for state in states {
            assert_eq!(after(state, &[Event::End]).1, Action::Withdraw);
            for event in all {
                let events = [Event::End, event];
                assert_eq!(after(state, &events), (State::Spent, Action::Wait));
            }
        }
    }
}

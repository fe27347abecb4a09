//! A small ZooKeeper client: one session on one connection at a time, with pipelining.
//!
//! | file | content |
//! |---|---|
//! | `jute` | how numbers, texts and bytes are written |
//! | `operation` | the operations that locks need, and their answers |
//! | `link` | one connection: requests that wait for their answers |
//! | `handshake` | how a connection is made and takes up the session |
//! | `tls` | certificates |
//!
//! Requests that are given together go out in one write and are answered in order. A request that gets no answer in
//! time closes the connection, so that after the next one has taken up the session, nothing of it can still be under
//! way: the servers refuse what is left of an old connection. There are no pings: whoever uses this sends `sync`
//! often enough, because only the leader can tell that a session lives.
//!
//! Why not a crate: `docs/decisions/0015-zookeeper-client.md`.

mod handshake;
mod jute;
mod link;
mod operation;
#[cfg(feature = "zookeeper-tls")]
mod tls;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};

use crate::clock::{Clock, Tick};
use crate::error::BoxError;
use crate::store::zookeeper::settings::Settings;
use crate::sync::{Mutex, until};

use handshake::Connected;
use link::Link;
pub(crate) use operation::{Access, Answer, Code, NodeKind, Operation, Stat, Watch};

/// One session, on one connection after the other.
#[derive(Debug)]
pub(crate) struct Wire {
    shared: Arc<Shared>,
    task: AbortHandle,
}

#[derive(Debug)]
struct Shared {
    settings: Arc<Settings>,
    clock: Arc<Clock>,
    state: Mutex<State>,
    /// Rung when a connection begins or ends, and when the last request is answered.
    changed: Notify,
    /// Rung when there is something to write.
    write: Notify,
    events: mpsc::UnboundedSender<Event>,
}

#[derive(Debug)]
struct State {
    link: Option<Link>,
    session: Session,
    /// The latest change that this client has seen: a server that has not seen it yet refuses the session.
    last_zxid: i64,
    /// When the latest request was sent whose answer proves that the session lived.
    proved: Tick,
    /// Why there is no connection.
    fault: String,
    is_closing: bool,
}

/// A session, and what proves that it is ours.
#[derive(Debug, Clone, Default)]
pub(crate) struct Session {
    pub(crate) id: i64,
    password: Vec<u8>,
    /// After how long without a sign of life the servers end it.
    pub(crate) timeout: Duration,
}

/// What happens without a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// The connection ended.
    Disconnected,
    /// Another connection has taken up the session; what was watched is not watched any more.
    Reconnected,
    /// The servers have ended the session, and another one has begun.
    Expired,
    /// A node that was watched, or its data, has changed.
    Changed(String),
    /// The children of a node that was watched have changed.
    ChildrenChanged(String),
    /// A node that was watched is gone.
    Deleted(String),
}

/// The answers to requests that were sent together.
#[derive(Debug)]
pub(crate) struct Flown {
    pub(crate) answers: Vec<Result<Answer, Code>>,
    /// The session that sent them.
    pub(crate) session: i64,
}

/// Requests that were not answered.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// They were not sent.
    NotSent(BoxError),
    /// They may have taken effect, all or some of them.
    Unknown(BoxError),
}

/// What became of requests that were sent together.
pub(crate) type Flight = Result<Flown, Unanswered>;

/// Whether requests wait for a connection if there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// For as long as an answer may take.
    Usual,
    /// Not at all.
    None,
}

impl Wire {
    /// Begins a session, or takes up one that another wire has begun.
    pub(crate) async fn open(
        settings: Arc<Settings>,
        clock: Arc<Clock>,
        session: Option<Session>,
    ) -> Result<(Self, mpsc::UnboundedReceiver<Event>), BoxError> {
        let takes_up = session.is_some();
        let begun = clock.now();
        let first = handshake::connect_any(&settings, &session.unwrap_or_default(), 0).await?;
        if first.is_new && takes_up {
            return Err("the session has expired".into());
        }
        let (events, news) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            settings,
            clock,
            state: Mutex::new(State {
                link: None,
                session: first.session.clone(),
                last_zxid: 0,
                proved: begun,
                fault: String::new(),
                is_closing: false,
            }),
            changed: Notify::new(),
            write: Notify::new(),
            events,
        });
        // Requests may follow at once.
        shared.state.lock().link = Some(Link::new(first.session.id));
        let task = tokio::spawn(keep(Arc::clone(&shared), first)).abort_handle();
        Ok((Self { shared, task }, news))
    }

    /// The session as it is now.
    pub(crate) fn session(&self) -> Session {
        self.shared.state.lock().session.clone()
    }

    /// When the latest request was sent whose answer proves that the session lived.
    pub(crate) fn proved(&self) -> Tick {
        self.shared.state.lock().proved
    }

    /// The same for one session; `None` if that has ended.
    pub(crate) fn proved_in(&self, session: i64) -> Option<Tick> {
        let state = self.shared.state.lock();
        (state.session.id == session).then_some(state.proved)
    }

    /// Sends requests together, and waits for all answers.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: requests that were sent go on.
    pub(crate) async fn fly(&self, operations: Vec<Operation>, patience: Patience) -> Flight {
        if operations.is_empty() {
            let (answers, session) = (Vec::new(), self.session().id);
            return Ok(Flown { answers, session });
        }
        let end = Instant::now() + self.shared.settings.timeout;
        let mut operations = operations;
        let answered = loop {
            match self.shared.send(operations) {
                Ok(answered) => break answered,
                Err(_) if patience == Patience::None => return Err(self.shared.not_connected()),
                Err(returned) => operations = returned,
            }
            let connected = until(&self.shared.changed, || {
                self.shared.state.lock().link.is_some().then_some(())
            });
            if timeout_at(end, connected).await.is_err() {
                return Err(self.shared.not_connected());
            }
        };
        match answered.await {
            Ok(flown) => flown,
            // The task was ended, with the runtime or with this client.
            Err(_) => Err(Unanswered::Unknown("the client has ended".into())),
        }
    }

    /// Waits until no request is in flight.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: waiting changes nothing.
    pub(crate) async fn settled(&self) {
        until(&self.shared.changed, || {
            let state = self.shared.state.lock();
            let is_idle = state.link.as_ref().is_none_or(Link::is_idle);
            is_idle.then_some(())
        })
        .await;
    }
}

/// Ends the session in the background, and with it all its ephemeral nodes.
impl Drop for Wire {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.is_closing = true;
        match &mut state.link {
            Some(link) => link.close_session(),
            // Nobody is there to tell.
            None => self.task.abort(),
        }
        drop(state);
        self.shared.write.notify_one();
    }
}

impl Shared {
    /// Puts requests on the connection; gives them back if there is none.
    fn send(
        &self,
        operations: Vec<Operation>,
    ) -> Result<oneshot::Receiver<Flight>, Vec<Operation>> {
        let mut state = self.state.lock();
        // After the lock, so that requests are in the order of their times.
        let (now, deadline) = (self.clock.now(), Instant::now() + self.settings.timeout);
        let access = self.settings.access();
        let Some(link) = state.link.as_mut() else {
            return Err(operations);
        };
        let answered = link.send(operations, access, now, deadline);
        drop(state);
        self.write.notify_one();
        Ok(answered)
    }

    fn not_connected(&self) -> Unanswered {
        let fault = self.state.lock().fault.clone();
        let why = match fault.is_empty() {
            true => "not connected".to_owned(),
            false => format!("not connected: {fault}"),
        };
        Unanswered::NotSent(why.into())
    }

    /// Tells the one who uses the wire; nobody listens any more once it is dropped.
    fn tell(&self, event: Event) {
        let _ = self.events.send(event);
    }
}

/// Keeps a connection for as long as the wire is used.
async fn keep(shared: Arc<Shared>, first: Connected) {
    let mut connected = first;
    loop {
        let fault = link::run(&shared, connected.stream).await;
        let (is_closing, ended) = {
            let mut state = shared.state.lock();
            state.fault = fault.to_string();
            (state.is_closing, state.link.take())
        };
        shared.changed.notify_waiters();
        if let Some(ended) = ended {
            ended.fail(&fault);
        }
        if is_closing {
            return;
        }
        tracing::debug!(%fault, "the connection to ZooKeeper ended");
        shared.tell(Event::Disconnected);
        connected = reconnect(&shared).await;
        let event = {
            let mut state = shared.state.lock();
            state.link = Some(Link::new(connected.session.id));
            state.session = connected.session.clone();
            match connected.is_new {
                true => {
                    state.last_zxid = 0;
                    state.proved = connected.begun;
                    Event::Expired
                }
                false => Event::Reconnected,
            }
        };
        shared.tell(event);
        shared.changed.notify_waiters();
    }
}

/// Connects until it succeeds.
async fn reconnect(shared: &Shared) -> Connected {
    let mut pause = SHORTEST_PAUSE;
    loop {
        let (session, last_zxid) = {
            let state = shared.state.lock();
            (state.session.clone(), state.last_zxid)
        };
        let begun = shared.clock.now();
        match handshake::connect_any(&shared.settings, &session, last_zxid).await {
            Ok(connected) => return Connected { begun, ..connected },
            Err(fault) => shared.state.lock().fault = fault.to_string(),
        }
        tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

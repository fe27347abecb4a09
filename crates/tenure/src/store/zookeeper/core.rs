//! What all parts of a client share: the wire, the claims, and how to reach nodes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};

use crate::clock::{Clock, Tick};
use crate::driver::News;
use crate::error::{BoxError, Error, Lasting, Result};
use crate::name::{ClaimId, Name};
use crate::store::session::pulse::Lifetime;
use crate::store::session::segment;
use crate::store::session::timers::Timers;
use crate::store::zookeeper::claims::Claims;
use crate::store::zookeeper::node::Node;
use crate::store::zookeeper::settings::{Settings, is_refused};
use crate::store::zookeeper::wire::{
    Answer, Code, Event, Flown, NodeKind, Operation, Patience, Session, Watch, Wire,
};
use crate::store::zookeeper::{KIND, fault};
use crate::sync::Mutex;

/// One client of the locks in ZooKeeper.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) settings: Arc<Settings>,
    pub(super) clock: Arc<Clock>,
    pub(super) wire: Wire,
    pub(super) claims: Arc<Claims>,
    pub(super) news: mpsc::UnboundedSender<News>,
    pub(super) timers: Mutex<Timers>,
    /// Rung when the first timer is another one.
    pub(super) earlier: Notify,
    /// When names were last used whose nodes this client has seen.
    pub(super) parents: Mutex<HashMap<Name, Tick>>,
    /// Names that were found taken, and when.
    pub(super) busy: Mutex<HashMap<Name, Tick>>,
    /// Held by whoever proves that the session lives.
    pulse: tokio::sync::Mutex<()>,
    pub(super) server_clock: tokio::sync::Mutex<Option<ServerClock>>,
}

/// The leader's wall clock, as of a moment on ours.
#[derive(Debug, Clone, Copy)]
pub(super) struct ServerClock {
    pub(super) millis: i64,
    pub(super) at: Tick,
}

impl Core {
    /// Begins a session, and makes the root if it is missing; or takes up a session.
    pub(super) async fn open(
        settings: Arc<Settings>,
        clock: Arc<Clock>,
        claims: Arc<Claims>,
        session: Option<Session>,
    ) -> Result<(
        Arc<Self>,
        mpsc::UnboundedReceiver<Event>,
        mpsc::UnboundedReceiver<News>,
    )> {
        let opened = Wire::open(Arc::clone(&settings), Arc::clone(&clock), session).await;
        let (wire, events) = opened.map_err(|error| Error::unavailable(KIND, error))?;
        let (news, heard) = mpsc::unbounded_channel();
        let core = Self {
            settings,
            clock,
            wire,
            claims,
            news,
            timers: Mutex::default(),
            earlier: Notify::new(),
            parents: Mutex::default(),
            busy: Mutex::default(),
            pulse: tokio::sync::Mutex::default(),
            server_clock: tokio::sync::Mutex::default(),
        };
        Ok((Arc::new(core), events, heard))
    }

    /// Refuses a session that is not what the URL asks for.
    pub(super) fn check_session(&self) -> Result<()> {
        let (wanted, given) = (self.settings.session, self.wire.session().timeout);
        if !self.settings.session_is_named || wanted == given {
            return Ok(());
        }
        let (limit, setting) = match given < wanted {
            true => ("at most", "maxSessionTimeout"),
            false => ("at least", "minSessionTimeout"),
        };
        let why: BoxError = format!(
            "session={wanted:?} was asked for, and the servers allow {limit} {given:?}: \
             change the URL, or {setting} of the servers"
        )
        .into();
        Err(Error::unavailable(KIND, Lasting(why)))
    }

    /// Makes the node under which all locks are, if it is missing.
    pub(super) async fn make_root(&self) -> Result<()> {
        let root = &self.settings.root;
        let parts = root.match_indices('/').skip(1).map(|(at, _)| &root[..at]);
        let parts: Vec<_> = parts.chain([root.as_str()]).collect();
        let create = |path: &&str| Operation::Create {
            path: (*path).to_owned(),
            data: Vec::new(),
            kind: NodeKind::Persistent,
        };
        let flown = self.fly(parts.iter().map(create).collect()).await?;
        // A node that is there may be one where this user has no right to make it.
        match flown.answers.last() {
            Some(Ok(_) | Err(Code::NODE_EXISTS)) | None => Ok(()),
            Some(Err(Code::NO_AUTH)) => {
                let path = root.clone();
                let watch = Watch::No;
                match self.one(Operation::Data { path, watch }).await? {
                    Ok(_) => Ok(()),
                    Err(code) => Err(fault::refused(code, root)),
                }
            }
            Some(Err(code)) => Err(fault::refused(*code, root)),
        }
    }

    /// Sends requests together, and waits for their answers.
    pub(super) async fn fly(&self, operations: Vec<Operation>) -> Result<Flown> {
        let flown = self.wire.fly(operations, Patience::Usual).await;
        flown.map_err(fault::unanswered)
    }

    /// Sends one request, and waits for its answer.
    pub(super) async fn one(&self, operation: Operation) -> Result<Result<Answer, Code>> {
        let mut flown = self.fly(vec![operation]).await?;
        flown
            .answers
            .pop()
            .ok_or_else(|| fault::in_doubt("one request without an answer"))
    }

    /// The children of a name, in order; none if it has no node.
    pub(super) async fn nodes(&self, name: &Name) -> Result<Vec<Node>> {
        let path = self.parent(name);
        let listed = self.one(children(&path, Watch::No)).await?;
        nodes_in(listed, &path)
    }

    /// The same, no older than this call.
    pub(super) async fn fresh_nodes(&self, name: &Name) -> Result<Vec<Node>> {
        let path = self.parent(name);
        let flown = self.fly(vec![sync(&path), children(&path, Watch::No)]);
        let mut answers = flown.await?.answers;
        let listed = answers.pop();
        nodes_in(listed.unwrap_or(Err(Code::NO_NODE)), &path)
    }

    /// The node of a name.
    pub(super) fn parent(&self, name: &Name) -> String {
        let segment = segment::encode(name.as_str(), is_refused);
        format!("{}/{segment}", self.settings.root)
    }

    /// The path of a child of the node of a name.
    pub(super) fn path(&self, name: &Name, child: &str) -> String {
        format!("{}/{child}", self.parent(name))
    }

    /// The name that a path is about, and the child, if it is one's.
    pub(super) fn name_of<'a>(&self, path: &'a str) -> Option<(Name, Option<&'a str>)> {
        let rest = path.strip_prefix(self.settings.root.as_str())?;
        let rest = rest.strip_prefix('/')?;
        let (segment, child) = match rest.split_once('/') {
            Some((segment, child)) => (segment, Some(child)),
            None => (rest, None),
        };
        Some((segment::decode(segment, is_refused)?, child))
    }

    pub(super) fn lifetime(&self) -> Lifetime {
        Lifetime::of(self.wire.session().timeout)
    }

    /// Returns for how long a lease of a session is good from `since` on, of the `wanted` time; proves that the session
    /// lives if it must.
    pub(super) async fn good_for(
        &self,
        session: i64,
        since: Tick,
        wanted: Duration,
        patience: Patience,
    ) -> Result<Duration> {
        let ended = || Error::unavailable(KIND, EXPIRED);
        let lifetime = self.lifetime();
        let proved = self.wire.proved_in(session).ok_or_else(ended)?;
        if lifetime.needs_proof(proved, since, wanted) {
            self.prove(since, patience).await?;
        }
        let proved = self.wire.proved_in(session).ok_or_else(ended)?;
        let left = lifetime.left(proved, since, wanted);
        match left.is_zero() {
            true => Err(Error::unavailable(
                KIND,
                "the session is not proved to live",
            )),
            false => Ok(left),
        }
    }

    /// Proves that the session lives, unless that was proved after `since`.
    pub(super) async fn prove(&self, since: Tick, patience: Patience) -> Result<()> {
        let _single_flight = self.pulse.lock().await;
        if self.wire.proved() > since {
            return Ok(());
        }
        let flown = self.wire.fly(vec![sync(&self.settings.root)], patience);
        match flown.await.map_err(fault::unanswered)?.answers.first() {
            Some(Err(code)) => Err(fault::refused(*code, &self.settings.root)),
            _ => Ok(()),
        }
    }

    /// Has a claim looked at, at a later moment.
    pub(super) fn remind(&self, at: Tick, name: &Name, claim: &ClaimId) {
        if self.timers.lock().add(at, name, claim) {
            self.earlier.notify_one();
        }
    }

    /// Tells the engine.
    pub(super) fn tell(&self, news: News) {
        // Nobody listens any more once the driver is dropped.
        let _ = self.news.send(news);
    }
}

/// The session ended while a request was under way.
pub(super) const EXPIRED: &str = "the session has expired";

pub(super) fn sync(path: &str) -> Operation {
    let path = path.to_owned();
    Operation::Sync { path }
}

pub(super) fn children(path: &str, watch: Watch) -> Operation {
    let path = path.to_owned();
    Operation::Children { path, watch }
}

pub(super) fn data(path: &str, watch: Watch) -> Operation {
    let path = path.to_owned();
    Operation::Data { path, watch }
}

pub(super) fn delete(path: &str, version: Option<i32>) -> Operation {
    let path = path.to_owned();
    Operation::Delete { path, version }
}

/// The nodes of a listing, in order; none if there is nothing to list.
pub(super) fn nodes_in(listed: Result<Answer, Code>, path: &str) -> Result<Vec<Node>> {
    match listed {
        Ok(Answer::Children(children)) => Ok(Node::parse_all(&children)),
        Ok(_) | Err(Code::NO_NODE) => Ok(Vec::new()),
        Err(code) => Err(fault::refused(code, path)),
    }
}

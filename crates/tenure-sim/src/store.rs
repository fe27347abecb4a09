//! The server side: the sessions of a memory store, a database, or one server that votes. It can go
//! down, forget, freeze, and notice the end of clients.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure::driver::{Answer, Claim, Entry, News, Released, TimeSource};
use tenure::store::memory::Memory;
use tenure::store::redlock::simulation::{Number, Voter};
use tenure::{ClaimId, Fence, Name};
use tokio::time::Instant;

use crate::clock::SimClock;
use crate::contract::{Reply, Request, next_news};
use crate::network::Arrived;
use crate::sql::{Change, Server};

/// One server of a run.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) clock: Arc<SimClock>,
    first_started: Instant,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    data: Data,
    started: Instant,
    has_forgotten: bool,
    is_down: bool,
    /// The requests that wait while the server is frozen.
    backlog: Option<Vec<Arrived>>,
    /// The claims that were reported as freed.
    freed: BTreeSet<ClaimId>,
}

#[derive(Debug)]
enum Data {
    /// A server that decides alone.
    Single {
        /// A session that belongs to no client, for inspection.
        root: Memory,
        /// One for each client that has ever connected, by its link.
        sessions: BTreeMap<usize, Memory>,
    },
    /// A database.
    Sql(Box<Server>),
    /// One of several servers that vote.
    Voter { voter: Voter, hand_over: Duration },
}

impl Store {
    /// Returns a server that decides alone.
    pub(crate) fn single(ppm: i64) -> Self {
        let clock = Arc::new(SimClock::new(ppm));
        let data = Data::Single {
            root: Memory::with_clock(Arc::<SimClock>::clone(&clock)),
            sessions: BTreeMap::new(),
        };
        Self::new(clock, data)
    }

    /// Returns a database that has been up for a long time.
    pub(crate) fn sql(ppm: i64) -> Self {
        let clock = Arc::new(SimClock::new(ppm));
        let up_since = micros(clock.now().saturating_sub(UP_BEFORE));
        Self::new(clock, Data::Sql(Box::new(Server::new(up_since))))
    }

    /// Returns one of several servers that vote, which has been up for a long time.
    pub(crate) fn voter(clock: SimClock, hand_over: Duration) -> Self {
        let voter = Voter::new(hand_over);
        Self::new(Arc::new(clock), Data::Voter { voter, hand_over })
    }

    fn new(clock: Arc<SimClock>, data: Data) -> Self {
        let now = Instant::now();
        let first_started = now.checked_sub(UP_BEFORE).unwrap_or(now);
        let inner = Inner {
            data,
            started: first_started,
            has_forgotten: false,
            is_down: false,
            backlog: None,
            freed: BTreeSet::new(),
        };
        Self {
            clock,
            first_started,
            inner: Mutex::new(inner),
        }
    }

    /// Opens the session of a client.
    pub(crate) fn connect(&self, link: usize) {
        if let Data::Single { root, sessions } = &mut self.inner().data {
            sessions.insert(link, root.another());
        }
    }

    /// Ends the session of a client, and everything that belongs to it.
    pub(crate) fn disconnect(&self, link: usize) {
        let session = match &mut self.inner().data {
            Data::Single { sessions, .. } => sessions.remove(&link),
            Data::Sql(server) => {
                server.lose_bells(link);
                None
            }
            Data::Voter { .. } => None,
        };
        drop(session);
    }

    /// Decides a request; returns `None` if the store is down or the session is gone.
    pub(crate) fn decide(&self, link: usize, request: &Request) -> Option<Reply> {
        let mut inner = self.inner();
        if inner.is_down {
            return None;
        }
        let started = inner.started;
        match &mut inner.data {
            Data::Single { sessions, .. } => Some(request.decide(sessions.get(&link)?)),
            Data::Sql(server) => match request {
                Request::Sql(ask) => {
                    let told = server.answer(link, ask, micros(self.clock.now()));
                    told.map(Reply::Sql)
                }
                _ => unreachable!("a database executes statements"),
            },
            Data::Voter { voter, .. } => {
                Some(request.decide_at(voter, session(link), self.clock.now(), started))
            }
        }
    }

    /// Decides a request as if every client had sent it.
    pub(crate) fn decide_for_all(&self, mut request: impl FnMut() -> Request) {
        if let Data::Single { sessions, .. } = &self.inner().data {
            for session in sessions.values() {
                request().decide(session);
            }
        }
    }

    /// Records a release that was reported as successful; returns whether it had been reported
    /// before.
    ///
    /// A late duplicate of its acquire may grant a claim once more, which can then be freed again.
    pub(crate) fn is_freed_twice(&self, request: &Request, reply: &Reply) -> bool {
        match (request, reply) {
            (Request::Acquire(claim), Reply::Acquired(Ok(Answer::Granted(_)))) => {
                self.inner().freed.remove(&claim.id);
                false
            }
            (Request::Release(release), Reply::Released(Ok(Released::Freed { .. }))) => {
                !self.inner().freed.insert(release.claim.clone())
            }
            _ => false,
        }
    }

    /// Takes all news of the sessions, with the links that it is for.
    pub(crate) fn news(&self) -> Vec<(usize, News)> {
        let mut inner = self.inner();
        let inner = &mut *inner;
        let mut all = Vec::new();
        match &mut inner.data {
            Data::Single { sessions, .. } => {
                for (link, session) in sessions {
                    while let Some(news) = next_news(session) {
                        if let News::Granted { claim, .. } = &news {
                            inner.freed.remove(claim);
                        }
                        all.push((*link, news));
                    }
                }
            }
            Data::Sql(_) => {}
            Data::Voter { voter, .. } => {
                let news = voter.take_news().into_iter();
                all.extend(news.filter_map(|(session, news)| Some((link(session)?, news))));
            }
        }
        all
    }

    /// Takes all notifications of a database, with the link and the connection that they are for.
    pub(crate) fn letters(&self) -> Vec<(usize, u64, String)> {
        self.with_sql(|server, _| std::mem::take(&mut server.letters))
            .unwrap_or_default()
    }

    /// Takes the changes that statements have made.
    pub(crate) fn take_changes(&self) -> Vec<Change> {
        self.with_sql(|server, _| std::mem::take(&mut server.changes))
            .unwrap_or_default()
    }

    /// Loses the connections of a database for notifications to a client.
    pub(crate) fn lose_bells(&self, link: usize) {
        self.with_sql(|server, _| server.lose_bells(link));
    }

    /// Calls `act` with the database and the time of its clock in microseconds.
    pub(crate) fn with_sql<T>(&self, act: impl FnOnce(&mut Server, i64) -> T) -> Option<T> {
        let now_us = micros(self.clock.now());
        match &mut self.inner().data {
            Data::Sql(server) => Some(act(server, now_us)),
            _ => None,
        }
    }

    /// Returns who holds and who waits now.
    pub(crate) fn look(&self, only: Option<&Name>) -> Vec<Entry> {
        match &self.inner().data {
            Data::Single { root, .. } => match Request::List(only.cloned()).decide(root) {
                Reply::Listed(Ok(entries)) => entries,
                _ => Vec::new(),
            },
            Data::Sql(server) => server.table.entries(micros(self.clock.now()), only),
            Data::Voter { voter, .. } => voter.list(self.clock.now(), only),
        }
    }

    /// Returns a fence that is larger than all granted ones and smaller than all future ones.
    pub(crate) fn watermark(&self) -> u64 {
        match &self.inner().data {
            Data::Single { root, .. } => watermark(root, 1),
            Data::Sql(server) => {
                let next = (server.table.last_fence() + 1).max(micros(self.clock.now()));
                next.unsigned_abs()
            }
            Data::Voter { voter, .. } => voter.last_fence() + 1,
        }
    }

    /// Goes down.
    pub(crate) fn go_down(&self) {
        self.inner().is_down = true;
        self.with_sql(Server::crash);
    }

    /// Comes up again, with its data.
    pub(crate) fn come_up(&self) {
        self.with_sql(|server, now_us| server.up_since_us = now_us);
        let mut inner = self.inner();
        inner.is_down = false;
        inner.started = Instant::now();
    }

    pub(crate) fn is_down(&self) -> bool {
        self.inner().is_down
    }

    /// Freezes: requests wait.
    pub(crate) fn freeze(&self) {
        self.inner().backlog = Some(Vec::new());
    }

    /// Continues; returns the requests that have waited.
    pub(crate) fn go_on(&self) -> Vec<Arrived> {
        self.inner().backlog.take().unwrap_or_default()
    }

    /// Keeps a request waiting if the server is frozen; otherwise returns it.
    pub(crate) fn hold_up(&self, request: Arrived) -> Option<Arrived> {
        match &mut self.inner().backlog {
            Some(backlog) => {
                backlog.push(request);
                None
            }
            None => Some(request),
        }
    }

    /// Forgets everything. A single server still knows its last fences, unless `fences_too`.
    pub(crate) fn forget(&self, fences_too: bool) {
        let mut inner = self.inner();
        inner.has_forgotten = true;
        inner.freed.clear();
        match &mut inner.data {
            Data::Single { root, sessions } => {
                let last = watermark(root, 1);
                *root = Memory::with_clock(Arc::<SimClock>::clone(&self.clock));
                if !fences_too {
                    watermark(root, u32::try_from(last).unwrap_or(u32::MAX) + 1);
                }
                for session in sessions.values_mut() {
                    *session = root.another();
                }
            }
            Data::Sql(server) => server.fail_over(),
            Data::Voter { voter, hand_over } => *voter = Voter::new(*hand_over),
        }
    }

    /// Returns when it was first started.
    pub(crate) fn first_started(&self) -> Instant {
        self.first_started
    }

    /// Returns whether it has ever lost its data.
    pub(crate) fn has_forgotten(&self) -> bool {
        self.inner().has_forgotten
    }

    /// Asks for a name as an additional client, to check whether it is still available.
    ///
    /// Returns when to retry if it is taken.
    pub(crate) fn probe(&self, name: &Name, id: &ClaimId) -> Option<Duration> {
        let claim = probe(name.clone(), id.clone(), 1);
        let withdraw = Request::Withdraw(claim.clone());
        let (mut inner, now) = (self.inner(), self.clock.now());
        if let Data::Sql(server) = &mut inner.data {
            return server.probe(name, micros(now));
        }
        let answer = match &mut inner.data {
            Data::Single { root, .. } => match Request::Acquire(claim).decide(root) {
                Reply::Acquired(Ok(answer)) => answer,
                _ => Answer::Busy,
            },
            Data::Sql(_) => Answer::Busy,
            Data::Voter { voter, .. } => {
                let vote = voter.vote(NOBODY_ELSE, now, &claim, Number::AtLeast(0));
                vote.map_or(Answer::Busy, |vote| vote.answer)
            }
        };
        if let Answer::Queued { ask_again } = answer {
            return Some(ask_again.unwrap_or_default());
        }
        match &mut inner.data {
            Data::Single { root, .. } => drop(withdraw.decide(root)),
            Data::Sql(_) => {}
            Data::Voter { voter, .. } => {
                withdraw.decide_at(voter, NOBODY_ELSE, now, Instant::now());
            }
        }
        None
    }

    /// Drops all sessions.
    pub(crate) fn close(&self) {
        let mut inner = self.inner();
        let sessions = match &mut inner.data {
            Data::Single { sessions, .. } => std::mem::take(sessions),
            Data::Sql(_) | Data::Voter { .. } => BTreeMap::new(),
        };
        let backlog = inner.backlog.take();
        drop(inner);
        drop((sessions, backlog));
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// Returns the session of a link at a server that votes.
fn session(link: usize) -> u128 {
    u128::try_from(link).unwrap_or(NOBODY_ELSE) + 1
}

fn link(session: u128) -> Option<usize> {
    usize::try_from(session.checked_sub(1)?).ok()
}

/// The session that checks whether a name is free.
const NOBODY_ELSE: u128 = u128::MAX / 2;

/// How long servers have been up when a run starts: longer than any `restart_delay`.
const UP_BEFORE: Duration = Duration::from_secs(60);

/// Takes and frees a separate name with this many fences, and returns the first of them.
fn watermark(root: &Memory, fences: u32) -> u64 {
    let Ok(name) = Name::new("~watermark") else {
        return 0;
    };
    let id = ClaimId::unique();
    let claim = probe(name, id, fences);
    let reply = Request::Acquire(claim.clone()).decide(root);
    let Reply::Acquired(Ok(Answer::Granted(grant))) = reply else {
        return 0;
    };
    Request::Withdraw(claim).decide(root);
    grant.fence.get()
}

fn probe(name: Name, id: ClaimId, fences: u32) -> Claim {
    Claim::new(name, Duration::from_secs(60))
        .with_id(id)
        .with_fences(fences)
}

/// Returns a fence from its number.
pub(crate) fn fence(number: u64) -> Fence {
    Fence::new(number.max(1)).unwrap_or_else(|| unreachable!("at least 1"))
}

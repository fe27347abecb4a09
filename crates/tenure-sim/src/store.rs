//! The server side: the sessions of a memory store, which can go down, forget, and see clients end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure::driver::{Answer, Claim, Entry, News, Released};
use tenure::store::memory::Memory;
use tenure::{ClaimId, Fence, Name};

use crate::clock::SimClock;
use crate::contract::{Reply, Request, next_news};

/// The store of a run.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) clock: Arc<SimClock>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// A session of nobody, for looking in.
    root: Memory,
    /// One for each client that has ever connected, by its link.
    sessions: BTreeMap<usize, Memory>,
    is_down: bool,
    /// Which claims were reported as freed.
    freed: BTreeSet<ClaimId>,
}

impl Store {
    pub(crate) fn new(ppm: i64) -> Self {
        let clock = Arc::new(SimClock::new(ppm));
        let inner = Inner {
            root: Memory::with_clock(Arc::<SimClock>::clone(&clock)),
            sessions: BTreeMap::new(),
            is_down: false,
            freed: BTreeSet::new(),
        };
        Self {
            clock,
            inner: Mutex::new(inner),
        }
    }

    /// Opens the session of a client.
    pub(crate) fn connect(&self, link: usize) {
        let mut inner = self.inner();
        let session = inner.root.another();
        inner.sessions.insert(link, session);
    }

    /// Ends the session of a client, and all that belongs to it.
    pub(crate) fn disconnect(&self, link: usize) {
        let session = self.inner().sessions.remove(&link);
        drop(session);
    }

    /// Decides a request; `None` if the store is down or the session is gone.
    pub(crate) fn decide(&self, link: usize, request: &Request) -> Option<Reply> {
        let inner = self.inner();
        if inner.is_down {
            return None;
        }
        Some(request.decide(inner.sessions.get(&link)?))
    }

    /// Decides a request as if another client had sent it.
    pub(crate) fn decide_for_all(&self, mut request: impl FnMut() -> Request) {
        let inner = self.inner();
        for session in inner.sessions.values() {
            request().decide(session);
        }
    }

    /// Notes a release that was reported as successful; returns whether it was so before.
    ///
    /// A late duplicate of its acquire may grant a claim once more, which then can be freed again.
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

    /// Takes all news that sessions have, with the links they are for.
    pub(crate) fn news(&self) -> Vec<(usize, News)> {
        let mut inner = self.inner();
        let inner = &mut *inner;
        let mut all = Vec::new();
        for (link, session) in &inner.sessions {
            while let Some(news) = next_news(session) {
                if let News::Granted { claim, .. } = &news {
                    inner.freed.remove(claim);
                }
                all.push((*link, news));
            }
        }
        all
    }

    /// Who holds and who waits now.
    pub(crate) fn look(&self, only: Option<&Name>) -> Vec<Entry> {
        match Request::List(only.cloned()).decide(&self.inner().root) {
            Reply::Listed(Ok(entries)) => entries,
            _ => Vec::new(),
        }
    }

    /// A fence that is larger than all that were granted, and smaller than all that will be.
    pub(crate) fn watermark(&self) -> u64 {
        watermark(&self.inner().root, 1)
    }

    /// Goes down.
    pub(crate) fn go_down(&self) {
        self.inner().is_down = true;
    }

    /// Comes up again, with its data.
    pub(crate) fn come_up(&self) {
        self.inner().is_down = false;
    }

    pub(crate) fn is_down(&self) -> bool {
        self.inner().is_down
    }

    /// Forgets everything but how far its fences had come, unless `fences_too`.
    pub(crate) fn forget(&self, fences_too: bool) {
        let mut inner = self.inner();
        let last = watermark(&inner.root, 1);
        let root = Memory::with_clock(Arc::<SimClock>::clone(&self.clock));
        if !fences_too {
            watermark(&root, u32::try_from(last).unwrap_or(u32::MAX) + 1);
        }
        let links: Vec<_> = inner.sessions.keys().copied().collect();
        inner.sessions = links
            .into_iter()
            .map(|link| (link, root.another()))
            .collect();
        inner.root = root;
        inner.freed.clear();
    }

    /// Asks for a name as nobody else does, to see whether it can still be had.
    ///
    /// Returns when to try again if it is taken.
    pub(crate) fn probe(&self, name: &Name, id: &ClaimId) -> Option<Duration> {
        let inner = self.inner();
        let claim = probe(name.clone(), id.clone(), 1);
        match Request::Acquire(claim.clone()).decide(&inner.root) {
            Reply::Acquired(Ok(Answer::Queued { ask_again })) => {
                Some(ask_again.unwrap_or_default())
            }
            _ => {
                Request::Withdraw(claim).decide(&inner.root);
                None
            }
        }
    }

    /// Drops all sessions.
    pub(crate) fn close(&self) {
        let sessions = std::mem::take(&mut self.inner().sessions);
        drop(sessions);
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes and frees a name of its own with so many fences, to see the first of them.
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

/// A fence of a number that came from one.
pub(crate) fn fence(number: u64) -> Fence {
    Fence::new(number.max(1)).unwrap_or_else(|| unreachable!("at least 1"))
}

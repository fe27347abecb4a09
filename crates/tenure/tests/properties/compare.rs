//! Compares the news and the lists of a store with those of the model.

use std::time::Duration;

use tenure::driver::{Entry, Holder, Life, Loss, Mode, News};
use tenure::{ClaimId, Fence, Name, Owner};
use tokio::task::coop::unconstrained;
use tokio::time::{Instant, sleep, timeout};

use crate::model::{Held, Told, depth};
use crate::run::{Run, pid};
use crate::steps::{CLIENTS, Clock, NAMES};

impl Run<'_> {
    /// Checks that every client got the same news as in the model, in the same order.
    pub(crate) async fn compare_news(&mut self) {
        let patience = match self.clock {
            Clock::Real => PATIENCE,
            // It is already there.
            Clock::Paused | Clock::Moved => Duration::ZERO,
        };
        for client in 0..CLIENTS {
            let mut told = std::mem::take(&mut self.model.told[client]);
            told.retain(|told| !self.passes_over_told(told));
            while let Some(expected) = told.first().copied() {
                let Some(news) = self.next_news(client, patience).await else {
                    panic!("{}: client {client} misses {expected:?}", self.so_far);
                };
                let next = self.next_of(&told, &news);
                self.same_news(told.remove(next), news);
            }
            if self.clock != Clock::Real {
                let more = self.next_news(client, Duration::ZERO).await;
                assert_eq!(more, None, "{}: more news for {client}", self.so_far);
            }
        }
    }

    /// Returns the client's next news that is compared.
    async fn next_news(&self, client: usize, patience: Duration) -> Option<News> {
        let client = &self.clients[client];
        loop {
            let news = match self.clock {
                // Does not wait, because that would advance the paused time.
                Clock::Paused => tokio::select! {
                    biased;
                    // A long run without a wait would use up Tokio's budget for one task, and news
                    // that is there would seem to be missing.
                    news = unconstrained(client.news()) => Some(news),
                    () = std::future::ready(()) => None,
                },
                Clock::Real | Clock::Moved => timeout(patience, client.news()).await.ok(),
            };
            let pass_over = news.as_ref().is_some_and(|news| self.passes_over(news));
            if !pass_over {
                return news;
            }
        }
    }

    /// Returns whether news is not compared. The time at which a waiter should ask again depends on
    /// a real clock. Whether a holder is notified of a place depends on when the store forgets a
    /// client.
    fn passes_over(&self, news: &News) -> bool {
        let names = || self.names.iter().zip(&self.model.locks);
        self.clock != Clock::Paused
            && match news {
                News::AskAgain(_) => true,
                News::Wanted { name, .. } => {
                    names().any(|(other, lock)| other == name && lock.left_behind)
                }
                _ => false,
            }
    }

    fn passes_over_told(&self, told: &Told) -> bool {
        self.clock != Clock::Paused
            && match told {
                Told::AskAgain { .. } => true,
                Told::Wanted { claim, .. } => {
                    self.model.locks[self.model.claims[*claim].name].left_behind
                }
                _ => false,
            }
    }

    /// Returns the index of the expected news that this must be. It is the first. On a server it
    /// may also be any of several leases of a client that an eviction ended, whose order has no
    /// meaning.
    fn next_of(&self, told: &[Told], news: &News) -> usize {
        let News::Lost { claim: lost, .. } = news else {
            return 0;
        };
        let mut evicted = told.iter();
        let same =
            |told: &Told| matches!(told, Told::Evicted { claim, .. } if self.ids[*claim] == *lost);
        let position = evicted.position(same).unwrap_or(0);
        let all_evicted = told[..position]
            .iter()
            .all(|told| matches!(told, Told::Evicted { .. }));
        if self.clock == Clock::Moved && all_evicted {
            position
        } else {
            0
        }
    }

    fn same_news(&mut self, expected: Told, news: News) {
        match (expected, news) {
            (Told::AskAgain { name }, News::AskAgain(Some(found))) => {
                assert_eq!(found, self.names[name], "{}", self.so_far);
            }
            (
                Told::Granted {
                    claim,
                    given,
                    after,
                },
                News::Granted {
                    name,
                    claim: found,
                    grant,
                    after: found_after,
                },
            ) => {
                self.same_claim(claim, &name, &found);
                self.same_grant(claim, given, grant);
                self.same_time("after", after, found_after);
            }
            (
                Told::Evicted { claim, fence },
                News::Lost {
                    name,
                    claim: found,
                    fence: found_fence,
                    loss: Loss::Evicted,
                },
            )
            | (
                Told::Wanted { claim, fence },
                News::Wanted {
                    name,
                    claim: found,
                    fence: found_fence,
                },
            ) => {
                self.same_claim(claim, &name, &found);
                self.same_fence(self.model.claims[claim].name, fence, found_fence);
            }
            (expected, news) => panic!("{}: told {news:?}, not {expected:?}", self.so_far),
        }
    }

    fn same_claim(&self, expected: usize, name: &Name, found: &ClaimId) {
        assert_eq!(name, self.name(expected), "{}", self.so_far);
        let claim = self.ids.iter().position(|id| id == found);
        assert_eq!(claim, Some(expected), "{}: another claim", self.so_far);
    }

    /// Checks that the list has the model's holders and waiters.
    pub(crate) async fn compare_lists(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        let listed = loop {
            let listed = self.list().await;
            // A real store may need a moment to notice that a client has ended.
            let agrees = (0..NAMES).all(|name| self.has_as_many(name, &listed));
            if agrees || self.clock != Clock::Real || Instant::now() > deadline {
                break listed;
            }
            sleep(Duration::from_millis(5)).await;
        };
        for name in 0..NAMES {
            let (holders, waiters) = match listed.iter().find(|e| e.name == self.names[name]) {
                Some(entry) => (entry.holders.clone(), entry.waiters.clone()),
                None => Default::default(),
            };
            self.compare_holders(name, &self.model.holders(name), &holders);
            let line = self.model.waiters(name);
            assert_eq!(waiters.len(), line.len(), "{}: {waiters:?}", self.so_far);
            for (waiter, expected) in waiters.iter().zip(line) {
                self.same_claim(expected.claim, &self.names[name], &waiter.claim);
                self.same_owner(expected.claim, &waiter.owner);
                assert_eq!(waiter.mode, expected.mode, "{}", self.so_far);
                assert_eq!(waiter.about.pid, pid(expected.claim), "{}", self.so_far);
                self.same_time("waited", self.model.now - expected.since, waiter.waited);
            }
        }
    }

    /// Checks the owner; a claim without an owner is its own.
    fn same_owner(&self, claim: usize, found: &Owner) {
        let expected = match self.model.claims[claim].owner {
            Some(owner) => self.owners[owner].as_str(),
            None => self.ids[claim].as_str(),
        };
        assert!(found.as_str() == expected, "{}: owner", self.so_far);
    }

    async fn list(&self) -> Vec<Entry> {
        if self.clock != Clock::Moved {
            let listed = self.clients[0].list(None).await;
            return listed.expect("the store answers");
        }
        // Does not list what earlier cases left behind on the same server.
        let mut all = Vec::new();
        for name in &self.names {
            let listed = self.clients[0].list(Some(name)).await;
            all.extend(listed.expect("the store answers"));
        }
        all
    }

    fn has_as_many(&self, name: usize, listed: &[Entry]) -> bool {
        let entry = listed.iter().find(|entry| entry.name == self.names[name]);
        let found = entry.map_or((0, 0), |entry| (entry.holders.len(), entry.waiters.len()));
        let expected = self.model.holders(name).len();
        found == (expected, self.model.waiters(name).len())
    }

    pub(crate) fn compare_holders(&mut self, name: usize, expected: &[Held], found: &[Holder]) {
        assert_eq!(
            found.len(),
            expected.len(),
            "{}: {found:?}, not {expected:?}",
            self.so_far
        );
        let mut found = found.to_vec();
        if self.clock == Clock::Moved {
            // Claims that were granted by one request have the same microsecond, and none is older.
            let order = |holder: &Holder| {
                let mut claims = expected.iter();
                claims.position(|held| self.ids[held.claim] == holder.claim)
            };
            for twins in found.chunk_by_mut(|a, b| a.held == b.held) {
                twins.sort_by_key(order);
            }
        }
        for (holder, held) in found.iter().zip(expected) {
            self.same_claim(held.claim, &self.names[name], &holder.claim);
            self.same_owner(held.claim, &holder.owner);
            assert_eq!(holder.mode, held.mode, "{}", self.so_far);
            let depth = match held.owner {
                _ if held.stays => 0,
                None => 1,
                owner => depth(expected, owner),
            };
            assert_eq!(holder.depth, depth, "{}: depth", self.so_far);
            let life = held.client.map_or(Life::Ttl, |_| Life::Client);
            assert_eq!(holder.life, life, "{}", self.so_far);
            assert_eq!(holder.about.pid, pid(held.claim), "{}", self.so_far);
            self.same_fence(name, held.fence, holder.fence);
            let now = self.model.now;
            // A server derives from the fence since when a lone holder has the name, and fences
            // stay the same when time is moved.
            if self.clock != Clock::Moved || held.mode != Mode::Exclusive {
                self.same_time("held", now - held.since, holder.held);
            }
            self.same_time("expires in", held.ends - now, holder.expires_in);
        }
    }

    /// Checks a fence. It need not be the model's number, but must grow like it and leave as much
    /// room.
    pub(crate) fn same_fence(&mut self, name: usize, expected: u64, found: Fence) {
        let known = &mut self.fences[name];
        if let Some(known) = known.get(&expected) {
            assert_eq!(*known, found, "{}: another fence of one grant", self.so_far);
            return;
        }
        if let Some((before, smaller)) = known.range(..expected).next_back() {
            let room = expected - before;
            assert!(
                found.get() >= smaller.get() + room,
                "{}: {found} after {smaller}, which must leave room for {room}",
                self.so_far
            );
        }
        if let Some((after, larger)) = known.range(expected..).next() {
            let room = after - expected;
            assert!(
                found.get() + room <= larger.get(),
                "{}: {found} before {larger}",
                self.so_far
            );
        }
        known.insert(expected, found);
    }

    pub(crate) fn same_time(&self, what: &str, expected: u64, found: Duration) {
        let expected = self.time(expected);
        let slack = match self.clock {
            Clock::Paused => Duration::ZERO,
            Clock::Real | Clock::Moved => ROUGHLY,
        };
        assert!(
            found.abs_diff(expected) <= slack,
            "{}: {what} is {found:?}, not {expected:?}",
            self.so_far
        );
    }
}

/// How far off times may be that pass while a case runs on a real clock.
const ROUGHLY: Duration = Duration::from_secs(600);

/// How long a real store may take to do what the model does at once.
const PATIENCE: Duration = Duration::from_secs(10);

//! A driver outside the crate: everything that it needs to build can be built from here.
//!
//! The store is a map in memory. It has exclusive locks only, and the first claim that asks after a
//! release gets the lock. It keeps every rule that its capabilities do not exclude.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use tenure::conformance::Fixture;
use tenure::driver::{
    Answer, Capabilities, Claim, Clock, Driver, Entry, Fairness, Grant, Holder, Loss, News,
    Release, Released, Renewal, Renewed, Wait, Waiter,
};
use tenure::{Client, Fence, Name, Result};
use tokio::sync::broadcast;
use tokio::time::Instant;

mod rules {
    tenure::conformance!(std::future::ready(super::Store::default()));
}

#[async_trait]
impl Fixture for Store {
    async fn client(&self) -> Arc<dyn Driver> {
        Arc::new(Tiny::open(self))
    }
}

#[tokio::test]
async fn a_program_uses_a_driver_of_its_own() {
    let store = Store::default();
    let locks = Client::with_driver(Arc::new(Tiny::open(&store)));
    let guard = locks.mutex("a").lock().await.unwrap();
    assert!(locks.mutex("a").try_lock().await.unwrap().is_none());
    guard.release().await.unwrap();
    assert!(locks.list(None).await.unwrap().is_empty());
}

/// The state that all clients share.
#[derive(Debug, Clone)]
struct Store {
    state: Arc<Mutex<State>>,
    news: broadcast::Sender<(usize, News)>,
}

#[derive(Debug, Default)]
struct State {
    leases: BTreeMap<Name, Lease>,
    /// The waiting claims with their clients, and since when they wait.
    waiting: Vec<(usize, Claim, Instant)>,
    last_fence: u64,
    clients: usize,
}

#[derive(Debug)]
struct Lease {
    claim: Claim,
    client: usize,
    fence: Fence,
    since: Instant,
    ends: Instant,
}

/// One client.
#[derive(Debug)]
struct Tiny {
    store: Store,
    client: usize,
    inbox: tokio::sync::Mutex<broadcast::Receiver<(usize, News)>>,
}

impl Default for Store {
    fn default() -> Self {
        let (news, _) = broadcast::channel(1024);
        Self {
            state: Arc::default(),
            news,
        }
    }
}

impl Tiny {
    fn open(store: &Store) -> Self {
        let mut state = store.state.lock().unwrap();
        state.clients += 1;
        Self {
            store: store.clone(),
            client: state.clients,
            inbox: tokio::sync::Mutex::new(store.news.subscribe()),
        }
    }

    /// Returns the state without expired leases.
    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.store.state.lock().unwrap();
        let now = Instant::now();
        state.leases.retain(|_, lease| lease.ends > now);
        state
    }

    fn tell(&self, client: usize, news: News) {
        // This fails only if nobody listens.
        let _ = self.store.news.send((client, news));
    }

    /// Returns the lease that a request names, or why there is none.
    fn held<'a>(&self, state: &'a mut State, wanted: &Release) -> Result<&'a mut Lease, Loss> {
        let lease = state.leases.get_mut(&wanted.name).ok_or(Loss::Gone)?;
        if lease.claim.id != wanted.claim {
            return Err(Loss::TakenOver);
        }
        let is_mine = lease.client == self.client && lease.claim.life == wanted.life;
        let is_meant = wanted.fence.is_none_or(|fence| fence == lease.fence);
        if is_mine && is_meant {
            Ok(lease)
        } else {
            Err(Loss::Gone)
        }
    }

    fn stop_waiting(&self, state: &mut State, claim: &Claim) {
        let is_other = |(client, other, _): &(usize, Claim, Instant)| {
            *client != self.client || other.id != claim.id
        };
        state.waiting.retain(is_other);
    }

    fn free(&self, state: &mut State, name: &Name) {
        state.leases.remove(name);
        self.tell(EVERYBODY, News::AskAgain(Some(name.clone())));
    }
}

const EVERYBODY: usize = 0;

#[async_trait]
impl Driver for Tiny {
    fn kind(&self) -> &'static str {
        "tiny"
    }

    fn clock(&self) -> Clock {
        Clock::Tokio
    }

    fn capabilities(&self) -> Capabilities {
        let mut can = Capabilities::all();
        can.shared = false;
        can.permits = false;
        can.by_hand = false;
        can.shared_owners = false;
        can.fairness = Fairness::Any;
        can.calls = false;
        can.sees_clients_end = false;
        can.stays_taken = false;
        can
    }

    async fn acquire(&self, claim: &Claim) -> Result<Answer> {
        let mut state = self.state();
        let now = Instant::now();
        let ends = now + claim.ttl;
        if let Some(lease) = state.leases.get_mut(&claim.name) {
            if lease.claim.id != claim.id || lease.client != self.client {
                let ask_again = Some(lease.ends - now);
                if claim.wait != Wait::InLine {
                    return Ok(Answer::Busy);
                }
                self.stop_waiting(&mut state, claim);
                state.waiting.push((self.client, claim.clone(), now));
                return Ok(Answer::Queued { ask_again });
            }
            lease.ends = ends;
            let grant = Grant::new(lease.fence, claim.ttl);
            return Ok(Answer::Granted(grant.with_fences(claim.fences)));
        }
        self.stop_waiting(&mut state, claim);
        let fence = Fence::new(state.last_fence + 1).unwrap();
        state.last_fence += u64::from(claim.fences);
        let lease = Lease {
            claim: claim.clone(),
            client: self.client,
            fence,
            since: now,
            ends,
        };
        state.leases.insert(claim.name.clone(), lease);
        let grant = Grant::new(fence, claim.ttl);
        Ok(Answer::Granted(grant.with_fences(claim.fences)))
    }

    async fn withdraw(&self, claim: &Claim) -> Result<()> {
        self.stop_waiting(&mut self.state(), claim);
        self.release(&Release::of(claim)).await.map(drop)
    }

    async fn renew(&self, renewals: &[Renewal]) -> Result<Vec<Renewed>> {
        let mut state = self.state();
        let renew = |renewal: &Renewal| {
            let wanted = Release::new(renewal.name.clone(), renewal.claim.clone(), renewal.life);
            match self.held(&mut state, &wanted.with_fence(renewal.fence)) {
                Ok(lease) => {
                    lease.ends = Instant::now() + renewal.ttl;
                    Renewed::Extended {
                        fence: lease.fence,
                        valid: renewal.ttl,
                    }
                }
                Err(loss) => Renewed::Lost(loss),
            }
        };
        Ok(renewals.iter().map(renew).collect())
    }

    async fn release(&self, release: &Release) -> Result<Released> {
        let mut state = self.state();
        if let Err(loss) = self.held(&mut state, release) {
            return Ok(Released::NotHeld(loss));
        }
        self.free(&mut state, &release.name);
        Ok(Released::Freed { left: 0 })
    }

    async fn news(&self) -> News {
        let mut inbox = self.inbox.lock().await;
        loop {
            match inbox.recv().await {
                Ok((client, news)) if [EVERYBODY, self.client].contains(&client) => return news,
                Ok(_) => {}
                Err(_) => return News::AskAgain(None),
            }
        }
    }

    async fn list(&self, only: Option<&Name>) -> Result<Vec<Entry>> {
        let state = self.state();
        let wanted = state.leases.iter();
        let wanted = wanted.filter(|(name, _)| only.is_none_or(|only| only == *name));
        let entries = wanted.map(|(name, lease)| {
            let mut entry = Entry::new(name.clone());
            entry.holders.push(holder(lease));
            let waiting = state.waiting.iter().filter(|(_, it, _)| it.name == *name);
            entry.waiters.extend(waiting.map(|(_, claim, since)| {
                let mut waiter = Waiter::new(claim.id.clone(), claim.about.clone());
                waiter.waited = since.elapsed();
                waiter
            }));
            entry
        });
        Ok(entries.collect())
    }

    async fn evict(&self, name: &Name) -> Result<Vec<Holder>> {
        let mut state = self.state();
        state.last_fence += 1;
        let Some(lease) = state.leases.get(name) else {
            return Ok(Vec::new());
        };
        let lost = News::Lost {
            name: name.clone(),
            claim: lease.claim.id.clone(),
            fence: lease.fence,
            loss: Loss::Evicted,
        };
        let (evicted, client) = (holder(lease), lease.client);
        self.free(&mut state, name);
        self.tell(client, lost);
        Ok(vec![evicted])
    }

    async fn settled(&self) {}
}

fn holder(lease: &Lease) -> Holder {
    let (id, about) = (lease.claim.id.clone(), lease.claim.about.clone());
    let mut holder = Holder::new(id, lease.fence, about, lease.ends - Instant::now());
    holder.held = lease.since.elapsed();
    holder
}

//! What all parts of a run share: the plan, the store, the network, the record and the beliefs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure::Name;
use tenure::driver::Answer;
use tenure_checker::What;

use crate::beliefs::Beliefs;
use crate::bugs::{Bug, Planted};
use crate::clock::SimClock;
use crate::contract::{Reply, Request};
use crate::network::{Link, Wire};
use crate::plan::{FaultKind, MessageTrouble, NodeClock, Plan, StorePlan};
use crate::record::Recorder;
use crate::sql::Change;
use crate::store::Store;

/// One run.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) names: Vec<Name>,
    pub(crate) recorder: Recorder,
    /// A single server, or those that vote.
    pub(crate) stores: Vec<Store>,
    pub(crate) wire: Wire,
    pub(crate) planted: Planted,
    pub(crate) beliefs: Mutex<Beliefs>,
    links: Mutex<Vec<Arc<Link>>>,
    labels: Mutex<BTreeMap<String, usize>>,
}

impl World {
    pub(crate) fn new(plan: &Plan, bug: Option<Bug>, with_lines: bool) -> Arc<Self> {
        let names = (0..plan.names.len()).filter_map(|number| Name::new(name(number)).ok());
        Arc::new(Self {
            names: names.collect(),
            recorder: Recorder::new(with_lines),
            stores: stores(plan),
            wire: Wire::default(),
            planted: Planted::new(bug),
            beliefs: Mutex::default(),
            links: Mutex::default(),
            labels: Mutex::default(),
            plan: plan.clone(),
        })
    }

    /// Connects a new process of a client to each server, in the order in which it lists them.
    pub(crate) fn open_links(self: &Arc<Self>, client: usize, process: u32) -> Vec<Arc<Link>> {
        let mut links = self.links();
        let plan = &self.plan.clients[client];
        let clock = Arc::new(SimClock::new(plan.ppm));
        let opened = plan.order.iter().map(|store| {
            let link = Link::new(self, links.len(), (client, process), &clock, *store);
            self.stores[*store].connect(link.id);
            let link = Arc::new(link);
            links.push(Arc::clone(&link));
            link
        });
        opened.collect()
    }

    pub(crate) fn link(&self, id: usize) -> Option<Arc<Link>> {
        self.links().get(id).cloned()
    }

    /// Returns the links of all living processes.
    pub(crate) fn live_links(&self) -> Vec<Arc<Link>> {
        let links = self.links();
        let live = links.iter().filter(|link| !link.clock.has_ended());
        live.cloned().collect()
    }

    /// Returns the links of the current process of a client.
    pub(crate) fn links_of(&self, client: usize) -> Vec<Arc<Link>> {
        let mut live = self.live_links();
        live.retain(|link| link.client == client);
        live
    }

    /// Returns the servers that a fault hits.
    pub(crate) fn hit(&self, fault: &FaultKind) -> Vec<usize> {
        match fault.nodes() {
            [] => (0..self.stores.len()).collect(),
            some => some.to_vec(),
        }
    }

    /// Returns how many servers are a majority.
    pub(crate) fn majority(&self) -> usize {
        self.stores.len() / 2 + 1
    }

    /// Returns a fence that is larger than all granted ones.
    pub(crate) fn watermark(&self) -> u64 {
        self.stores.iter().map(Store::watermark).max().unwrap_or(0)
    }

    /// Has a server decide a request that has arrived.
    pub(crate) fn decide(&self, link: &Link, request: Request) -> Option<Reply> {
        let store = &self.stores[link.store];
        if store.is_down() {
            return None;
        }
        let reply = self.planted.decide(store, link.id, &request)?;
        self.recorder.line(|| {
            let asked = request.told(|owner| self.label(owner));
            let who = link.called();
            let (place, told) = (
                self.called(link.store),
                reply.told(|owner| self.label(owner)),
            );
            format!("{place}: client {who} asks: {asked}: {told}")
        });
        if let Request::Evict(name) = &request {
            self.evicted(name);
        }
        if self.plan.is_sql() {
            self.note_changes(link);
        }
        if self.plan.store != StorePlan::Single {
            return Some(reply);
        }
        if store.is_freed_twice(&request, &reply) {
            self.recorder.breach("one-release", || {
                let asked = request.told(|owner| self.label(owner));
                format!(
                    "the store freed a lease twice for client {}: {asked}",
                    link.called()
                )
            });
        }
        if let (Request::Acquire(claim), Reply::Acquired(Ok(Answer::Queued { .. }))) =
            (&request, &reply)
            && let Some(claim) = self.only_pending(link.process, &claim.name)
        {
            self.recorder.note(0, What::Queued { claim });
        }
        Some(reply)
    }

    /// Records what a statement of a client has changed.
    fn note_changes(&self, link: &Link) {
        for change in self.stores[link.store].take_changes() {
            match change {
                Change::Evicted { name, below } => self.evicted_below(&name, below),
                Change::Queued { name } => {
                    if let Some(claim) = self.only_pending(link.process, &name) {
                        self.recorder.note(0, What::Queued { claim });
                    }
                }
            }
        }
    }

    /// Sends all news that the store has.
    pub(crate) fn tell_news(&self) {
        for (link, bell, text) in self.stores.iter().flat_map(Store::letters) {
            if let Some(link) = self.link(link) {
                link.send_letter(bell, &text);
            }
        }
        for (link, news) in self.stores.iter().flat_map(Store::news) {
            let Some(link) = self.link(link) else {
                continue;
            };
            if let Some(news) = self.planted.news(news) {
                link.tell(news);
            }
        }
    }

    /// Returns what goes wrong with the nth request of a client, or the nth news to it.
    pub(crate) fn trouble(&self, link: &Link, nth: u64, is_news: bool) -> Option<MessageTrouble> {
        let mut all = self.plan.messages.iter();
        let found = all.find(|fault| {
            let news = fault.what.is_of_news();
            let servers = self.stores.len() as u64;
            let (place, at) = (fault.nth % servers, fault.nth / servers);
            fault.client == link.client
                && place == link.store as u64
                && at == nth
                && news == is_news
        })?;
        let healed_us = self.plan.healed().as_micros();
        if u128::from(self.recorder.now_us()) >= healed_us {
            return None;
        }
        let kind = found.what.class();
        self.recorder.line(|| {
            format!(
                "client {}: fault on its next message: {kind}",
                link.called()
            )
        });
        self.fault(kind, None);
        Some(found.what)
    }

    /// Records a fault that has happened.
    pub(crate) fn fault(&self, kind: &str, target: Option<u32>) {
        let kind = kind.to_owned();
        self.recorder.note(0, What::Fault { kind, target });
    }

    /// Returns a short text for an owner.
    pub(crate) fn label(&self, owner: &str) -> String {
        if owner.starts_with("job-") {
            return owner.to_owned();
        }
        let mut labels = self.labels.lock().unwrap_or_else(PoisonError::into_inner);
        let next = labels.len() + 1;
        let number = *labels.entry(owner.to_owned()).or_insert(next);
        format!("#{number}")
    }

    /// Drops everything, so that nothing keeps the world alive.
    pub(crate) fn close(&self) {
        for link in self.links().iter() {
            link.clock.end();
        }
        self.wire.close();
        self.stores.iter().for_each(Store::close);
        self.links().clear();
    }

    /// Returns the name of a server.
    pub(crate) fn called(&self, store: usize) -> String {
        match self.plan.is_redlock() {
            true => format!("node {}", store + 1),
            false => "store".to_owned(),
        }
    }

    fn links(&self) -> MutexGuard<'_, Vec<Arc<Link>>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the servers of a plan.
fn stores(plan: &Plan) -> Vec<Store> {
    match &plan.store {
        StorePlan::Single => vec![Store::single(plan.setting.store_ppm)],
        StorePlan::Sql { .. } => vec![Store::sql(plan.setting.store_ppm)],
        StorePlan::Redlock {
            nodes,
            hand_over_ms,
            ..
        } => {
            let node = |clock: &NodeClock| {
                let shows = SimClock::new(clock.ppm);
                shows.jump(i64::try_from(clock.ahead_ms).unwrap_or(0));
                Store::voter(shows, Duration::from_millis(*hand_over_ms))
            };
            nodes.iter().map(node).collect()
        }
    }
}

/// Returns the text of a name.
pub(crate) fn name(number: usize) -> &'static str {
    ["a", "b", "c", "d"][number % 4]
}

//! What all parts of a run share: the plan, the store, the network, the record and who believes what.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenure::Name;
use tenure::driver::Answer;
use tenure_checker::What;

use crate::beliefs::Beliefs;
use crate::bugs::{Bug, Planted};
use crate::contract::{Reply, Request};
use crate::network::{Link, Wire};
use crate::plan::{MessageTrouble, Plan};
use crate::record::Recorder;
use crate::store::Store;

/// One run.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) names: Vec<Name>,
    pub(crate) recorder: Recorder,
    pub(crate) store: Store,
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
            store: Store::new(plan.setting.store_ppm),
            wire: Wire::default(),
            planted: Planted::new(bug),
            beliefs: Mutex::default(),
            links: Mutex::default(),
            labels: Mutex::default(),
            plan: plan.clone(),
        })
    }

    /// Connects a new process of a client.
    pub(crate) fn open_link(self: &Arc<Self>, client: usize, process: u32, ppm: i64) -> Arc<Link> {
        let mut links = self.links();
        let link = Arc::new(Link::new(self, links.len(), client, process, ppm));
        self.store.connect(link.id);
        links.push(Arc::clone(&link));
        link
    }

    pub(crate) fn link(&self, id: usize) -> Option<Arc<Link>> {
        self.links().get(id).cloned()
    }

    /// The links of all processes that live.
    pub(crate) fn live_links(&self) -> Vec<Arc<Link>> {
        let links = self.links();
        let live = links.iter().filter(|link| !link.clock.has_ended());
        live.cloned().collect()
    }

    /// The link of the process that a client has now.
    pub(crate) fn link_of(&self, client: usize) -> Option<Arc<Link>> {
        let mut live = self.live_links().into_iter();
        live.rfind(|link| link.client == client)
    }

    /// Lets the store decide a request that has arrived.
    pub(crate) fn decide(&self, link: &Link, request: Request) -> Option<Reply> {
        if self.store.is_down() {
            return None;
        }
        let reply = self.planted.decide(&self.store, link.id, &request)?;
        self.recorder.line(|| {
            let asked = request.told(|owner| self.label(owner));
            format!(
                "store: client {} asks: {asked}: {}",
                link.called(),
                reply.told()
            )
        });
        if self.store.is_freed_twice(&request, &reply) {
            self.recorder.breach("one-release", || {
                let asked = request.told(|owner| self.label(owner));
                format!(
                    "the store freed a lease twice for client {}: {asked}",
                    link.called()
                )
            });
        }
        match (&request, &reply) {
            (Request::Evict(name), Reply::Evicted(Ok(_))) => self.evicted(name),
            (Request::Acquire(claim), Reply::Acquired(Ok(Answer::Queued { .. }))) => {
                if let Some(claim) = self.only_pending(link.process, &claim.name) {
                    self.recorder.note(0, What::Queued { claim });
                }
            }
            _ => {}
        }
        Some(reply)
    }

    /// Sends all news that the store has.
    pub(crate) fn tell_news(&self) {
        for (link, news) in self.store.news() {
            let Some(link) = self.link(link) else {
                continue;
            };
            if let Some(news) = self.planted.news(news) {
                link.tell(news);
            }
        }
    }

    /// What goes wrong with the nth request of a client, or the nth news to it.
    pub(crate) fn trouble(&self, link: &Link, nth: u64, is_news: bool) -> Option<MessageTrouble> {
        let mut all = self.plan.messages.iter();
        let found = all.find(|fault| {
            let news = matches!(fault.what, MessageTrouble::SlowNews(_));
            fault.client == link.client && fault.nth == nth && news == is_news
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

    /// Notes a fault that has landed.
    pub(crate) fn fault(&self, kind: &str, target: Option<u32>) {
        let kind = kind.to_owned();
        self.recorder.note(0, What::Fault { kind, target });
    }

    /// A short text for an owner.
    pub(crate) fn label(&self, owner: &str) -> String {
        if owner.starts_with("job-") {
            return owner.to_owned();
        }
        let mut labels = self.labels.lock().unwrap_or_else(PoisonError::into_inner);
        let next = labels.len() + 1;
        let number = *labels.entry(owner.to_owned()).or_insert(next);
        format!("#{number}")
    }

    /// Lets go of everything, so that nothing keeps the world alive.
    pub(crate) fn close(&self) {
        for link in self.links().iter() {
            link.clock.end();
        }
        self.wire.close();
        self.store.close();
        self.links().clear();
    }

    fn links(&self) -> MutexGuard<'_, Vec<Arc<Link>>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The text of a name.
pub(crate) fn name(number: usize) -> &'static str {
    ["a", "b", "c", "d"][number % 4]
}

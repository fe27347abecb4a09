//! The tasks of a client: the pulse of its session, timers of its leases, and what the wire tells.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::driver::{Loss, News};
use crate::error::Result;
use crate::name::{ClaimId, Name};
use crate::store::zookeeper::claims::Stage;
use crate::store::zookeeper::core::{Core, data, delete};
use crate::store::zookeeper::fault;
use crate::store::zookeeper::settings::Layout;
use crate::store::zookeeper::wire::{Code, Event, Patience, Watch};

/// Proves that the session lives, often enough that it does.
pub(super) async fn keep_alive(core: Arc<Core>) {
    loop {
        let interval = core.lifetime().interval();
        let due = core.wire.proved() + interval;
        let now = core.clock.now();
        if due > now {
            tokio::time::sleep(due.since(now).min(LONGEST_NAP)).await;
            continue;
        }
        if let Err(error) = core.prove(now, Patience::Usual).await {
            tracing::debug!(%error, "the session could not be proved to live");
            tokio::time::sleep(interval.min(PAUSE)).await;
        }
    }
}

/// Does what has to be done for claims at their times.
pub(super) async fn serve_timers(core: Arc<Core>) {
    loop {
        let next = core.timers.lock().next();
        let now = core.clock.now();
        match next {
            Some(at) if at <= now => {
                let due = core.timers.lock().take(now);
                if let Some((name, claim)) = due {
                    core.look_after(&name, &claim).await;
                }
            }
            _ => {
                // A timer stands still while the machine sleeps, so it is not trusted for long.
                let nap = next.map_or(LONGEST_NAP, |at| at.since(now).min(LONGEST_NAP));
                tokio::select! {
                    () = core.earlier.notified() => {}
                    () = tokio::time::sleep(nap) => {}
                }
            }
        }
    }
}

/// Deletes nodes of names that are not used any more.
pub(super) async fn sweep(core: Arc<Core>) {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        core.sweep_once().await;
    }
}

/// Acts on what the wire tells.
pub(super) async fn listen(core: Arc<Core>, mut events: mpsc::UnboundedReceiver<Event>) {
    let mut looks = JoinSet::new();
    loop {
        tokio::select! {
            event = events.recv() => {
                let Some(event) = event else {
                    return;
                };
                for (name, claim) in core.hear(event) {
                    let core = Arc::clone(&core);
                    looks.spawn(async move { core.look_again(name, claim).await });
                }
            }
            Some(_) = looks.join_next() => {}
        }
    }
}

impl Core {
    /// Acts on an event; returns the claims that may go in now.
    fn hear(&self, event: Event) -> Vec<(Name, ClaimId)> {
        match event {
            Event::Disconnected => {
                self.claims.each_held(|held| held.is_watched = false);
                // The leases are at risk, and their holders learn of it by a renewal that fails.
                self.tell(News::AskAgain(None));
            }
            Event::Reconnected => {
                let now = self.clock.now();
                for (name, claim) in self.claims.each_held(|held| held.is_watched = false) {
                    self.remind(now, &name, &claim);
                }
                self.tell(News::AskAgain(None));
            }
            Event::Expired => {
                self.claims.keep_only(self.wire.session().id);
                self.tell(News::SessionLost(Loss::Expired));
            }
            Event::Changed(path) => match self.name_of(&path) {
                Some((name, None)) => self.hear_ring(&name),
                Some((name, Some(child))) => return self.hear_change(name, child),
                None => {}
            },
            Event::ChildrenChanged(path) => {
                let name = self.name_of(&path).map(|(name, _)| name);
                return name.map_or(Vec::new(), |name| self.waiting(name));
            }
            Event::Deleted(path) => {
                if let Some((name, Some(child))) = self.name_of(&path) {
                    return self.hear_deleted(name, child);
                }
            }
        }
        Vec::new()
    }

    /// Somebody else wants a name.
    fn hear_ring(&self, name: &Name) {
        for (claim, fence) in self.claims.ring(name) {
            let name = name.clone();
            self.tell(News::Wanted { name, claim, fence });
        }
    }

    /// The data of a node have changed, so it is not watched any more.
    fn hear_change(&self, name: Name, child: &str) -> Vec<(Name, ClaimId)> {
        for entry in self.claims.of(&name) {
            if entry.child.as_deref() == Some(child) {
                let id = &entry.claim.id;
                self.claims.change(&name, id, |entry| {
                    if let Stage::Held(held) = &mut entry.stage {
                        held.is_watched = false;
                    }
                });
                self.remind(self.clock.now(), &name, id);
                return Vec::new();
            }
        }
        // Somebody before us has written to its node, which is watched again by looking.
        self.waiting(name)
    }

    fn hear_deleted(&self, name: Name, child: &str) -> Vec<(Name, ClaimId)> {
        let own = self.claims.of(&name).into_iter();
        let own = own.filter(|entry| entry.child.as_deref() == Some(child));
        for entry in own {
            self.evicted(&name, &entry.claim.id);
        }
        self.waiting(name)
    }

    /// The node of a lease is gone, although the session lives.
    fn evicted(&self, name: &Name, id: &ClaimId) {
        let Some(held) = self.claims.find(name, id).and_then(|entry| entry.held()) else {
            return;
        };
        self.claims.remove(name, id);
        self.tell(News::Lost {
            name: name.clone(),
            claim: id.clone(),
            fence: held.fence,
            loss: Loss::Evicted,
        });
    }

    /// The claims that wait for a name.
    fn waiting(&self, name: Name) -> Vec<(Name, ClaimId)> {
        let claims = self.claims.of(&name).into_iter();
        let waiting = claims.filter(|entry| entry.stage == Stage::Waiting);
        waiting
            .map(|entry| (name.clone(), entry.claim.id))
            .collect()
    }

    /// Watches a lease, ends it in time, or deletes what is left of it.
    async fn look_after(&self, name: &Name, id: &ClaimId) {
        let Some(entry) = self.claims.find(name, id) else {
            return;
        };
        let now = self.clock.now();
        match entry.stage {
            Stage::New | Stage::Asked | Stage::Waiting => {}
            Stage::Held(held) if held.ends > now => {
                if !held.is_watched
                    && let Err(error) = self.watch_own(name, id, Patience::None).await
                {
                    tracing::debug!(%name, %error, "a lease is not watched");
                    return self.remind(now + PAUSE, name, id);
                }
                self.remind(held.ends, name, id);
            }
            Stage::Held(_) | Stage::Leaving => {
                let _turn = entry.turn.lock().await;
                // Asked for again meanwhile.
                if !self
                    .claims
                    .find(name, id)
                    .is_some_and(|entry| entry.is_over(now))
                {
                    return;
                }
                // Tried again later if it fails.
                if let Err(error) = self.leave(name, id).await {
                    tracing::debug!(%name, %error, "the node of a lease that is over is still there");
                }
            }
        }
    }

    /// Watches the node of a lease, so that its end is noticed.
    pub(super) async fn watch_own(
        &self,
        name: &Name,
        id: &ClaimId,
        patience: Patience,
    ) -> Result<()> {
        let Some(child) = self.claims.find(name, id).and_then(|entry| entry.child) else {
            return Ok(());
        };
        let watch = data(&self.path(name, &child), Watch::Once);
        let flown = self.wire.fly(vec![watch], patience).await;
        match flown.map_err(fault::unanswered)?.answers.first() {
            Some(Err(Code::NO_NODE)) => self.evicted(name, id),
            _ => {
                self.claims.change(name, id, |entry| {
                    if let Stage::Held(held) = &mut entry.stage {
                        held.is_watched = true;
                    }
                });
            }
        }
        Ok(())
    }

    async fn sweep_once(&self) {
        if self.settings.layout == Layout::Kazoo {
            return;
        }
        let now = self.clock.now();
        let idle = {
            let mut parents = self.parents.lock();
            let after = match parents.len() > MANY_PARENTS {
                true => Duration::ZERO,
                false => IDLE_AFTER,
            };
            let idle = parents.iter().filter(|(_, used)| now.since(**used) > after);
            let idle: Vec<Name> = idle.map(|(name, _)| name.clone()).collect();
            for name in &idle {
                parents.remove(name);
            }
            idle
        };
        let idle: Vec<_> = idle
            .into_iter()
            .filter(|name| !self.claims.has(name))
            .collect();
        for batch in idle.chunks(BATCH) {
            let deletes = batch.iter().map(|name| delete(&self.parent(name), None));
            // Those that others use stay; the servers delete the rest some time later, if this fails.
            if self.fly(deletes.collect()).await.is_err() {
                return;
            }
        }
    }
}

/// Timers stand still while the machine is suspended.
const LONGEST_NAP: Duration = Duration::from_secs(1);

/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(250);

const SWEEP_EVERY: Duration = Duration::from_secs(2);

/// How long a name is unused before its node is deleted.
const IDLE_AFTER: Duration = Duration::from_secs(10);

/// With so many names, each is used once.
const MANY_PARENTS: usize = 10_000;

const BATCH: usize = 100;

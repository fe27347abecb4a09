//! The claims of this client, and the nodes that they have.

use std::collections::HashMap;
use std::sync::Arc;

use crate::clock::Tick;
use crate::driver::{Claim, Life};
use crate::name::{ClaimId, Fence, Name};
use crate::sync::Mutex;

/// The claims of this client that have a node, or may have one.
#[derive(Debug, Default)]
pub(super) struct Claims(Mutex<HashMap<Name, Vec<Entry>>>);

/// One claim.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) claim: Claim,
    /// When it was asked for first.
    pub(super) asked: Tick,
    pub(super) stage: Stage,
    /// The child of the node of its name; `None` while it is not known whether there is one, and which.
    pub(super) child: Option<String>,
    /// The session of that node, if there is one.
    pub(super) session: i64,
    /// Whether its holder wants to hear who else wants the name, and has not been told yet.
    pub(super) tells: bool,
    /// Whether somebody else has rung for the name.
    pub(super) is_rung: bool,
    /// Held by whoever finds out what has become of it.
    pub(super) turn: Arc<tokio::sync::Mutex<()>>,
}

/// What has become of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Nothing was sent.
    New,
    /// A request is under way, or was not answered.
    Asked,
    /// It stands in line.
    Waiting,
    /// It holds the name.
    Held(Held),
    /// It has ended here, and its node has to go.
    Leaving,
}

/// A lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    /// The session that it hangs on.
    pub(super) session: i64,
    pub(super) fence: Fence,
    pub(super) fences: u32,
    pub(super) since: Tick,
    /// When it ends unless it is renewed.
    pub(super) ends: Tick,
    /// Whether the end of its node will be noticed.
    pub(super) is_watched: bool,
}

impl Claims {
    /// Notes a claim that is about to ask, unless it is known, and returns it.
    pub(super) fn expect(&self, claim: &Claim, now: Tick) -> Entry {
        let mut claims = self.0.lock();
        let of_name = claims.entry(claim.name.clone()).or_default();
        if let Some(known) = of_name.iter().find(|entry| entry.claim.id == claim.id) {
            return known.clone();
        }
        let entry = Entry {
            claim: claim.clone(),
            asked: now,
            stage: Stage::New,
            child: None,
            session: 0,
            tells: claim.tell_if_wanted && claim.life == Life::Client,
            is_rung: false,
            turn: Arc::default(),
        };
        of_name.push(entry.clone());
        entry
    }

    /// Forgets a claim of which nothing was sent.
    pub(super) fn forget_new(&self, name: &Name, id: &ClaimId) {
        let stage = self.find(name, id).map(|entry| entry.stage);
        if stage == Some(Stage::New) {
            self.remove(name, id);
        }
    }

    pub(super) fn find(&self, name: &Name, id: &ClaimId) -> Option<Entry> {
        let claims = self.0.lock();
        let mut of_name = claims.get(name)?.iter();
        of_name.find(|entry| entry.claim.id == *id).cloned()
    }

    /// Changes a claim, and returns what `change` returns; `None` if it is not known, because its session has ended.
    pub(super) fn change<T>(
        &self,
        name: &Name,
        id: &ClaimId,
        change: impl FnOnce(&mut Entry) -> T,
    ) -> Option<T> {
        let mut claims = self.0.lock();
        let mut of_name = claims.get_mut(name)?.iter_mut();
        of_name.find(|entry| entry.claim.id == *id).map(change)
    }

    pub(super) fn remove(&self, name: &Name, id: &ClaimId) {
        let mut claims = self.0.lock();
        if let Some(of_name) = claims.get_mut(name) {
            of_name.retain(|entry| entry.claim.id != *id);
            if of_name.is_empty() {
                claims.remove(name);
            }
        }
    }

    /// Forgets those whose session has ended. One whose request was not answered may belong to either.
    pub(super) fn keep_only(&self, session: i64) {
        let mut claims = self.0.lock();
        for of_name in claims.values_mut() {
            of_name.retain(|entry| entry.child.is_none() || entry.session == session);
        }
        claims.retain(|_, of_name| !of_name.is_empty());
    }

    /// The claims on a name.
    pub(super) fn of(&self, name: &Name) -> Vec<Entry> {
        self.0.lock().get(name).cloned().unwrap_or_default()
    }

    pub(super) fn has(&self, name: &Name) -> bool {
        self.0.lock().contains_key(name)
    }

    /// Changes all leases; returns those whose change says so.
    pub(super) fn each_held(&self, mut change: impl FnMut(&mut Held)) -> Vec<(Name, ClaimId)> {
        let mut found = Vec::new();
        for (name, of_name) in self.0.lock().iter_mut() {
            for entry in of_name {
                if let Stage::Held(held) = &mut entry.stage {
                    change(held);
                    found.push((name.clone(), entry.claim.id.clone()));
                }
            }
        }
        found
    }

    /// Notes that somebody has rung for a name; returns the leases that are to be told of it.
    pub(super) fn ring(&self, name: &Name) -> Vec<(ClaimId, Fence)> {
        let mut claims = self.0.lock();
        let of_name = claims.get_mut(name).into_iter().flatten();
        of_name.filter_map(Entry::ring).collect()
    }
}

impl Entry {
    /// The lease, if it is one.
    pub(super) fn held(&self) -> Option<Held> {
        match self.stage {
            Stage::Held(held) => Some(held),
            Stage::New | Stage::Asked | Stage::Waiting | Stage::Leaving => None,
        }
    }

    /// Whether only its node is left to be deleted.
    pub(super) fn is_over(&self, now: Tick) -> bool {
        match self.stage {
            Stage::Held(held) => held.ends <= now,
            Stage::Leaving => true,
            Stage::New | Stage::Asked | Stage::Waiting => false,
        }
    }

    /// Notes that somebody has rung; returns what to tell its holder.
    pub(super) fn ring(&mut self) -> Option<(ClaimId, Fence)> {
        if !self.tells {
            return None;
        }
        match self.stage {
            Stage::Held(held) => {
                self.tells = false;
                Some((self.claim.id.clone(), held.fence))
            }
            Stage::New | Stage::Asked | Stage::Waiting => {
                self.is_rung = true;
                None
            }
            Stage::Leaving => None,
        }
    }
}

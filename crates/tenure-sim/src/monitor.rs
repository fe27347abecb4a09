//! Inspects the store while nothing goes wrong, for errors that no history shows.
//!
//! Without a fault, messages take no longer than the setting says. What clients want and what the
//! store has must therefore agree again within a few messages.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tenure::driver::Entry;

use crate::world::World;

/// Checks repeatedly until the run is over.
pub(crate) async fn watch(world: Arc<World>) {
    let mut patience_us = 1000 * (world.plan.slowest_way_ms(6) + 50);
    let mut locks = world.plan.locks().into_iter();
    if locks.any(|lock| matches!(lock.owner, crate::plan::OwnerSpec::Named(_))) {
        // Calls of one owner in one client may change its lease one after another.
        patience_us *= 4;
    }
    let mut since: BTreeMap<String, u64> = BTreeMap::new();
    loop {
        tokio::time::sleep(EVERY).await;
        world.sample();
        let now_us = world.recorder.now_us();
        let odd = oddities(&world, now_us.saturating_sub(patience_us));
        since.retain(|oddity, _| odd.contains(oddity));
        for oddity in odd {
            let first_us = *since.entry(oddity.clone()).or_insert(now_us);
            if now_us - first_us >= patience_us {
                world.recorder.breach("agreement", || oddity);
                return;
            }
        }
    }
}

/// Checks once, when every client is at rest: only leases by hand and names that stay taken may be
/// left.
pub(crate) fn look_at_rest(world: &World) {
    let stores = world.stores.iter().enumerate();
    for (store, entry) in stores.flat_map(|(number, store)| {
        let entries = store.look(None).into_iter();
        entries.map(move |entry| (number, entry))
    }) {
        let by_hand = world.planned_by_hand(entry.name.as_str());
        let held = entry
            .holders
            .iter()
            .filter(|holder| holder.depth > 0)
            .count();
        // A place in line that could not be withdrawn ends when its turn has come.
        let may_wait = !world.plan.is_calm();
        if (held > 0 && !by_hand) || (!entry.waiters.is_empty() && !may_wait) {
            let (name, waiters) = (&entry.name, entry.waiters.len());
            world.recorder.breach("nothing-left", || {
                let called = world.called(store);
                format!("all clients are at rest, and {called} has {held} holders and {waiters} waiters of \"{name}\"")
            });
        }
    }
}

/// Returns what looks wrong at this moment, and is a breach if it lasts.
fn oddities(world: &World, long_ago_us: u64) -> Vec<String> {
    let entries = world.stores[0].look(None);
    let empty = |name: &tenure::Name| Entry::new(name.clone());
    let mut odd = Vec::new();
    for name in &world.names {
        let entry = entries.iter().find(|entry| entry.name == *name).cloned();
        look_at(
            world,
            &entry.unwrap_or_else(|| empty(name)),
            long_ago_us,
            &mut odd,
        );
    }
    odd
}

fn look_at(world: &World, entry: &Entry, long_ago_us: u64, odd: &mut Vec<String>) {
    let name = &entry.name;
    let beliefs = world.beliefs();
    let pending = || beliefs.pending.iter().filter(|(_, it)| it.name == *name);
    let held = || beliefs.held.values().filter(|it| it.name == *name);
    for (claim, waiter) in pending().filter(|(_, it)| it.waits && it.since_us < long_ago_us) {
        let holds_here = held().any(|it| it.process == waiter.process);
        if entry.holders.is_empty() {
            odd.push(format!(
                "claim {claim} waits for \"{name}\", which nobody holds"
            ));
        } else if entry.waiters.is_empty() && !holds_here {
            odd.push(format!(
                "claim {claim} waits for \"{name}\", and its line in the store is empty"
            ));
        }
    }
    if !entry.waiters.is_empty() && pending().next().is_none() {
        odd.push(format!(
            "the store has a waiter for \"{name}\", and nobody waits"
        ));
    }
    if world.planned_by_hand(name.as_str()) || world.planned_once(name.as_str()) {
        return;
    }
    let is_kept = world.planned_kept(name.as_str());
    for holder in entry.holders.iter().filter(|holder| holder.depth > 0) {
        let owner = holder.owner.as_str();
        let known = held().any(|it| it.store_owner().as_deref() == Some(owner));
        let may_be_kept = is_kept && entry.waiters.is_empty();
        if !known && !may_be_kept {
            let fence = holder.fence;
            odd.push(format!(
                "the store has a holder of \"{name}\" with fence {fence} that no client knows"
            ));
        }
    }
}

impl World {
    /// Returns whether any lease of this name is by hand.
    fn planned_by_hand(&self, name: &str) -> bool {
        self.plan
            .has_step(name, |step| matches!(step, crate::plan::Step::ByHand(_)))
    }

    fn planned_once(&self, name: &str) -> bool {
        self.plan
            .has_step(name, |step| matches!(step, crate::plan::Step::Once { .. }))
    }

    fn planned_kept(&self, name: &str) -> bool {
        let mut locks = self.plan.locks().into_iter();
        locks.any(|lock| lock.keep_ms > 0 && crate::world::name(lock.name) == name)
    }
}

const EVERY: Duration = Duration::from_millis(25);

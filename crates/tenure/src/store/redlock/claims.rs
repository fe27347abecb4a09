//! What this client has asked for, and which nodes have it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use crate::clock::Tick;
use crate::driver::Claim;
use crate::name::{ClaimId, Fence, Name};
use crate::random::SeededMap;

/// All claims of this client that wait or hold, and those that it takes back.
#[derive(Debug)]
pub(crate) struct Claims {
    /// A bit for each node.
    all: u64,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    held: SeededMap<ClaimId, Held>,
    leaving: SeededMap<ClaimId, Leaving>,
    /// When so many are there, those that are over are thrown out.
    sweep_at: usize,
}

/// One claim, and what became of it.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) claim: Arc<Claim>,
    /// When it was first asked for.
    began: Instant,
    /// The fence of the grant, once the claim has won.
    pub(crate) fence: Option<Fence>,
    /// How many fences are set aside for the grant.
    pub(crate) fences: u32,
    /// Until when the grant is safely ours.
    pub(crate) until: Tick,
    /// The nodes that have granted it, a bit each, as far as is known.
    has: u64,
    /// The nodes that have something of it or may have, a bit each, as far as is known.
    touched: u64,
    /// Whether somebody else wants the name, and whether that was told.
    wanted: bool,
    told: bool,
    /// How often it has given way to others after a split vote.
    gave_way: u32,
    /// How often it has stayed after a split vote since it last gave way.
    stayed: u32,
}

/// A claim that is taken back; of the nodes, a bit each.
#[derive(Debug, Default)]
struct Leaving {
    /// Those that have something of the claim, or may have.
    touched: u64,
    /// Those that were sent a withdrawal or a release and have not confirmed it. Were the claim
    /// asked for again, it might take away what the node grants then.
    unconfirmed: u64,
    /// Those of them whose answer is still to come: it sees to what late answers tell of.
    in_flight: u64,
    /// Those of them that may have granted the claim after they took it back.
    overtaken: u64,
    until: Tick,
}

/// What a node has said to a withdrawal or a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Undone {
    /// Nothing of the claim is left there.
    Gone,
    /// It had no lease; it may still have a place in line.
    NotHeld,
    /// Nothing that was heard.
    Unknown,
}

/// What was known of a claim when it is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    /// When it was first asked for.
    pub(crate) began: Instant,
    /// When it was asked for.
    pub(crate) at: Tick,
    pub(crate) is_new: bool,
}

impl Claims {
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            all: u64::MAX >> (u64::BITS as usize - nodes),
            table: Mutex::default(),
        }
    }

    /// Notes that a claim is asked for.
    pub(crate) fn begin(&self, claim: &Arc<Claim>, now: Tick) -> Asked {
        let mut table = self.lock();
        table.sweep(now);
        let is_over = |held: &Held| held.fence.is_some() && held.until <= now;
        if table.held.get(&claim.id).is_some_and(is_over) {
            // This is another grant, if it is one.
            table.held.remove(&claim.id);
        }
        let mut is_new = false;
        let held = table.held.entry(claim.id.clone()).or_insert_with(|| {
            is_new = true;
            Held::new(claim, now)
        });
        Asked {
            began: held.began,
            at: now,
            is_new,
        }
    }

    /// Notes that a claim is over and is to be taken back.
    pub(crate) fn leave(&self, id: &ClaimId, until: Tick) {
        let mut table = self.lock();
        // Of a claim that is not known here, any node may have something.
        let held = table.held.remove(id);
        let touched = held.map_or(self.all, |held| held.touched);
        table.leave(id, touched, until);
    }

    /// Notes that a claim is to be taken back to let others pass; returns how often it was so.
    pub(crate) fn give_way(&self, id: &ClaimId, until: Tick) -> u32 {
        let mut table = self.lock();
        let Some(held) = table.held.get_mut(id) else {
            return 1;
        };
        held.lost();
        // What it gets from now on is new.
        held.began = Instant::now();
        (held.gave_way, held.stayed) = (held.gave_way + 1, 0);
        let (times, touched) = (held.gave_way, held.touched);
        table.leave(id, touched, until);
        times
    }

    /// Notes that a claim stays after a split vote; returns how often it has since it last gave way.
    pub(crate) fn stay(&self, id: &ClaimId) -> u32 {
        let stayed = self.change(id, |held| {
            held.stayed += 1;
            held.stayed
        });
        stayed.unwrap_or(1)
    }

    /// Notes that a withdrawal or a release is sent to a node.
    pub(crate) fn sent(&self, id: &ClaimId, node: usize) {
        if let Some(leaving) = self.lock().leaving.get_mut(id) {
            leaving.unconfirmed |= 1 << node;
            leaving.in_flight |= 1 << node;
        }
    }

    /// Notes what the node has said to it; returns whether it may still have something of the claim.
    pub(crate) fn settled(&self, id: &ClaimId, node: usize, undone: Undone) -> bool {
        let mut table = self.lock();
        let Some(leaving) = table.leaving.get_mut(id) else {
            return false;
        };
        let others = !(1 << node);
        let is_overtaken = leaving.overtaken & !others != 0;
        let is_left = is_overtaken || (undone != Undone::Gone && leaving.touched & !others != 0);
        leaving.in_flight &= others;
        leaving.overtaken &= others;
        if undone != Undone::Unknown {
            leaving.unconfirmed &= others;
        }
        if !is_left {
            leaving.touched &= others;
        }
        if leaving.touched | leaving.unconfirmed == 0 {
            table.leaving.remove(id);
        }
        is_left
    }

    /// Notes that a node turned out to have something of a claim that is over; returns whether what
    /// is on its way there sees to it.
    pub(crate) fn is_seen_to(&self, id: &ClaimId, node: usize, overtaken: bool) -> bool {
        let mut table = self.lock();
        let leaving = table.leaving.get_mut(id);
        leaving.is_some_and(|leaving| {
            leaving.touched |= 1 << node;
            let is_in_flight = leaving.in_flight & (1 << node) != 0;
            if is_in_flight && overtaken {
                leaving.overtaken |= 1 << node;
            }
            is_in_flight
        })
    }

    /// Notes that a node may have something of a claim, if the claim is over; returns whether it is.
    pub(crate) fn is_over(&self, id: &ClaimId, node: usize, until: Tick) -> bool {
        let mut table = self.lock();
        let is_over = !table.held.contains_key(id);
        if is_over {
            table.leave(id, 1 << node, until);
        }
        is_over
    }

    /// The nodes that may still take back what they grant to the claim, a bit each.
    pub(crate) fn unconfirmed(&self, id: &ClaimId) -> u64 {
        let table = self.lock();
        table
            .leaving
            .get(id)
            .map_or(0, |leaving| leaving.unconfirmed)
    }

    pub(crate) fn find(&self, id: &ClaimId) -> Option<Held> {
        self.lock().held.get(id).cloned()
    }

    /// Changes a claim, unless it is over; returns what `change` returns.
    pub(crate) fn change<T>(&self, id: &ClaimId, change: impl FnOnce(&mut Held) -> T) -> Option<T> {
        self.lock().held.get_mut(id).map(change)
    }

    /// The claims of this client on a name.
    pub(crate) fn on(&self, name: &Name) -> Vec<Held> {
        let table = self.lock();
        let of_name = table.held.values().filter(|held| held.claim.name == *name);
        of_name.cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // Nothing panics while the table is half changed.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn leave(&mut self, id: &ClaimId, touched: u64, until: Tick) {
        let leaving = self.leaving.entry(id.clone()).or_default();
        leaving.touched |= touched;
        leaving.until = until.max(leaving.until);
    }

    fn sweep(&mut self, now: Tick) {
        if self.held.len() + self.leaving.len() < self.sweep_at {
            return;
        }
        // A lease by ttl may run out without a word.
        self.held
            .retain(|_, held| held.fence.is_none() || held.until > now);
        self.leaving.retain(|_, leaving| leaving.until > now);
        self.sweep_at = 2 * (self.held.len() + self.leaving.len()).max(64);
    }
}

impl Held {
    fn new(claim: &Arc<Claim>, now: Tick) -> Self {
        Self {
            claim: Arc::clone(claim),
            began: Instant::now(),
            fence: None,
            fences: 1,
            until: now,
            has: 0,
            touched: 0,
            wanted: false,
            told: false,
            gave_way: 0,
            stayed: 0,
        }
    }

    /// Whether a node has the grant.
    pub(crate) fn is_at(&self, node: usize) -> bool {
        self.has & (1 << node) != 0
    }

    /// Notes that a node has granted it.
    pub(crate) fn granted_at(&mut self, node: usize) {
        self.has |= 1 << node;
        self.touched |= 1 << node;
    }

    /// Notes that some nodes have granted it, or let it stand in line, or may have.
    pub(crate) fn touch(&mut self, nodes: u64) {
        self.touched |= nodes;
    }

    /// Notes that nothing is left of what nodes granted, as far as this client knows.
    fn lost(&mut self) {
        (self.fence, self.has) = (None, 0);
    }

    /// Notes that a node has lost the grant; returns at how many it still is.
    pub(crate) fn lost_at(&mut self, node: usize) -> usize {
        self.has &= !(1 << node);
        self.has.count_ones() as usize
    }

    /// Notes that the claim has won; returns whether to tell that others want the name.
    pub(crate) fn won(
        &mut self,
        claim: &Arc<Claim>,
        fence: Fence,
        fences: u32,
        until: Tick,
    ) -> bool {
        self.claim = Arc::clone(claim);
        (self.fence, self.fences) = (Some(fence), fences);
        self.until = self.until.max(until);
        (self.gave_way, self.stayed) = (0, 0);
        self.call_back()
    }

    /// Notes that others want the name; returns whether to tell it now.
    pub(crate) fn wanted(&mut self) -> bool {
        self.wanted = true;
        self.call_back()
    }

    fn call_back(&mut self) -> bool {
        let tell = self.fence.is_some() && self.wanted && !self.told;
        if tell {
            (self.told, self.wanted) = (true, false);
        }
        tell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: std::time::Duration = std::time::Duration::from_secs(1);

    /// A claim at three nodes that is being taken back; a withdrawal is on its way to the first two.
    fn leaving() -> (Claims, ClaimId) {
        let (claims, id) = (Claims::new(3), ClaimId::unique());
        claims.leave(&id, Tick::default() + SECOND);
        claims.sent(&id, 0);
        claims.sent(&id, 1);
        (claims, id)
    }

    #[test]
    fn a_withdrawal_is_doubtful_until_it_is_confirmed() {
        let (claims, id) = leaving();
        assert_eq!(claims.unconfirmed(&id), 0b011);
        assert!(!claims.settled(&id, 0, Undone::Gone));
        assert!(
            claims.settled(&id, 1, Undone::Unknown),
            "it may have something"
        );
        assert_eq!(claims.unconfirmed(&id), 0b010);
        assert!(
            claims.settled(&id, 2, Undone::Unknown),
            "it was not even told"
        );
        for node in [1, 2] {
            claims.sent(&id, node);
            assert!(!claims.settled(&id, node, Undone::Gone));
        }
        assert_eq!(claims.unconfirmed(&id), 0);
        assert!(claims.lock().leaving.is_empty());
    }

    #[test]
    fn a_place_in_line_is_left_where_there_was_no_lease() {
        let (claims, id) = leaving();
        assert!(claims.settled(&id, 0, Undone::NotHeld));
        assert_eq!(claims.unconfirmed(&id), 0b010);
        claims.sent(&id, 0);
        assert!(!claims.settled(&id, 0, Undone::Gone));
        assert!(!claims.settled(&id, 0, Undone::NotHeld), "it has nothing");
    }

    #[test]
    fn what_is_on_its_way_sees_to_a_late_grant() {
        let (claims, id) = leaving();
        assert!(claims.is_seen_to(&id, 0, false));
        assert!(!claims.settled(&id, 0, Undone::Gone));
        assert!(!claims.is_seen_to(&id, 0, false), "it has been there");
        assert!(!claims.is_seen_to(&id, 2, false), "nothing is on its way");
    }

    #[test]
    fn a_grant_that_was_overtaken_is_taken_back_once_more() {
        let (claims, id) = leaving();
        assert!(claims.is_seen_to(&id, 0, true));
        assert!(claims.settled(&id, 0, Undone::Gone));
        claims.sent(&id, 0);
        assert!(!claims.settled(&id, 0, Undone::Gone));
    }

    #[test]
    fn what_was_never_confirmed_is_forgotten_in_time() {
        let (claims, id) = leaving();
        assert!(claims.settled(&id, 0, Undone::Unknown));
        claims.lock().sweep_at = 0;
        claims.lock().sweep(Tick::default() + SECOND / 2);
        assert_ne!(claims.unconfirmed(&id), 0);
        claims.lock().sweep_at = 0;
        claims.lock().sweep(Tick::default() + SECOND);
        assert_eq!(claims.unconfirmed(&id), 0);
    }
}

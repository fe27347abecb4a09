//! The claims of this client, and which nodes have them.

use std::sync::Arc;

use tokio::time::Instant;

use crate::clock::Tick;
use crate::driver::Claim;
use crate::name::{ClaimId, Fence, Name};
use crate::random::SeededMap;
use crate::sync::Mutex;

/// All claims of this client that wait or hold, and those that are being withdrawn.
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
    /// The size at which expired entries are removed.
    sweep_at: usize,
}

/// One claim and its state.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) claim: Arc<Claim>,
    /// When it was first requested.
    began: Instant,
    /// The fence of the grant, once the claim has won.
    pub(crate) fence: Option<Fence>,
    /// How many fences are reserved for the grant.
    pub(crate) fences: u32,
    /// Until when the grant is safely ours.
    pub(crate) until: Tick,
    /// The nodes that have granted it, a bit each, as far as is known.
    has: u64,
    /// The nodes that have or may have a lease or place of it, a bit each, as far as is known.
    touched: u64,
    /// Whether somebody else wants the name, and whether the holder was told.
    wanted: bool,
    told: bool,
    /// How often it has yielded to others after a split vote.
    gave_way: u32,
    /// How often it has stayed after a split vote since it last yielded.
    stayed: u32,
}

/// A claim that is being withdrawn; one bit per node.
#[derive(Debug, Default)]
struct Leaving {
    /// Nodes that have or may have a lease or place of the claim.
    touched: u64,
    /// Nodes that were sent a withdrawal or a release and have not confirmed it. If the claim is
    /// requested again, that may undo what the node grants then.
    unconfirmed: u64,
    /// Those of them whose reply is outstanding: it takes care of late votes.
    in_flight: u64,
    /// Those of them that may have granted the claim after they withdrew it.
    overtaken: u64,
    until: Tick,
}

/// The reply of a node to a withdrawal or a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Undone {
    /// Nothing of the claim is left there.
    Gone,
    /// It had no lease; it may still have a place in line.
    NotHeld,
    /// No reply arrived.
    Unknown,
}

/// What is known about a claim when it is requested.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    /// When it was first requested.
    pub(crate) began: Instant,
    /// When it was requested.
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

    /// Records that a claim is requested.
    pub(crate) fn begin(&self, claim: &Arc<Claim>, now: Tick) -> Asked {
        let mut table = self.table.lock();
        table.sweep(now);
        let is_over = |held: &Held| held.fence.is_some() && held.until <= now;
        if table.held.get(&claim.id).is_some_and(is_over) {
            // A grant now would be a new one.
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

    /// Records that a claim is over and is being withdrawn.
    pub(crate) fn leave(&self, id: &ClaimId, until: Tick) {
        let mut table = self.table.lock();
        // Any node may have something of an unknown claim.
        let held = table.held.remove(id);
        let touched = held.map_or(self.all, |held| held.touched);
        table.leave(id, touched, until);
    }

    /// Records that a claim yields to others; returns how often it has.
    pub(crate) fn give_way(&self, id: &ClaimId, until: Tick) -> u32 {
        let mut table = self.table.lock();
        let Some(held) = table.held.get_mut(id) else {
            return 1;
        };
        held.lost();
        // Grants from now on are new.
        held.began = Instant::now();
        (held.gave_way, held.stayed) = (held.gave_way + 1, 0);
        let (times, touched) = (held.gave_way, held.touched);
        table.leave(id, touched, until);
        times
    }

    /// Records that a claim stays after a split vote; returns how often it has since it last yielded.
    pub(crate) fn stay(&self, id: &ClaimId) -> u32 {
        let stayed = self.change(id, |held| {
            held.stayed += 1;
            held.stayed
        });
        stayed.unwrap_or(1)
    }

    /// Records that a withdrawal or a release is sent to a node.
    pub(crate) fn sent(&self, id: &ClaimId, node: usize) {
        if let Some(leaving) = self.table.lock().leaving.get_mut(id) {
            leaving.unconfirmed |= 1 << node;
            leaving.in_flight |= 1 << node;
        }
    }

    /// Records the node's reply to it; returns whether the node may still have something of the claim.
    pub(crate) fn settled(&self, id: &ClaimId, node: usize, undone: Undone) -> bool {
        let mut table = self.table.lock();
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

    /// Records that a node turned out to have something of a claim that is over; returns whether a
    /// request in flight takes care of it.
    pub(crate) fn is_seen_to(&self, id: &ClaimId, node: usize, overtaken: bool) -> bool {
        let mut table = self.table.lock();
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

    /// Records that a node may have something of a claim, if the claim is over; returns whether it is.
    pub(crate) fn is_over(&self, id: &ClaimId, node: usize, until: Tick) -> bool {
        let mut table = self.table.lock();
        let is_over = !table.held.contains_key(id);
        if is_over {
            table.leave(id, 1 << node, until);
        }
        is_over
    }

    /// Returns the nodes that may still withdraw what they grant to the claim, a bit each.
    pub(crate) fn unconfirmed(&self, id: &ClaimId) -> u64 {
        let table = self.table.lock();
        table
            .leaving
            .get(id)
            .map_or(0, |leaving| leaving.unconfirmed)
    }

    pub(crate) fn find(&self, id: &ClaimId) -> Option<Held> {
        self.table.lock().held.get(id).cloned()
    }

    /// Changes a claim, unless it is over; returns what `change` returns.
    pub(crate) fn change<T>(&self, id: &ClaimId, change: impl FnOnce(&mut Held) -> T) -> Option<T> {
        self.table.lock().held.get_mut(id).map(change)
    }

    /// Returns the claims of this client on a name.
    pub(crate) fn on(&self, name: &Name) -> Vec<Held> {
        let table = self.table.lock();
        let of_name = table.held.values().filter(|held| held.claim.name == *name);
        of_name.cloned().collect()
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
        // A lease by hand may expire without notice.
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

    /// Returns whether a node has the grant.
    pub(crate) fn is_at(&self, node: usize) -> bool {
        self.has & (1 << node) != 0
    }

    /// Records that a node has granted it.
    pub(crate) fn granted_at(&mut self, node: usize) {
        self.has |= 1 << node;
        self.touched |= 1 << node;
    }

    /// Records that some nodes have granted or queued it, or may have.
    pub(crate) fn touch(&mut self, nodes: u64) {
        self.touched |= nodes;
    }

    /// Records that no grant is left, as far as this client knows.
    fn lost(&mut self) {
        (self.fence, self.has) = (None, 0);
    }

    /// Records that a node has lost the grant; returns how many nodes still have it.
    pub(crate) fn lost_at(&mut self, node: usize) -> usize {
        self.has &= !(1 << node);
        self.has.count_ones() as usize
    }

    /// Records that the claim has won; returns whether to tell the holder that others want the name.
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

    /// Records that others want the name; returns whether to tell the holder now.
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

    /// Returns a claim at three nodes that is being withdrawn; a withdrawal to the first two is in
    /// flight.
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
        assert!(claims.table.lock().leaving.is_empty());
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
        claims.table.lock().sweep_at = 0;
        claims.table.lock().sweep(Tick::default() + SECOND / 2);
        assert_ne!(claims.unconfirmed(&id), 0);
        claims.table.lock().sweep_at = 0;
        claims.table.lock().sweep(Tick::default() + SECOND);
        assert_eq!(claims.unconfirmed(&id), 0);
    }
}

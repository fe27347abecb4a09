//! What this client has asked for, and which nodes have it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use crate::clock::Tick;
use crate::driver::{Claim, Life};
use crate::name::{Fence, Name, Owner};

/// Which claim: an owner's on a name, of this client or of no client.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) name: Name,
    pub(crate) owner: Owner,
    by_ttl: bool,
}

impl Key {
    pub(crate) fn new(name: &Name, owner: &Owner, life: Life) -> Self {
        Self {
            name: name.clone(),
            owner: owner.clone(),
            by_ttl: life == Life::Ttl,
        }
    }

    pub(crate) fn of(claim: &Claim) -> Self {
        Self::new(&claim.name, &claim.owner, claim.life)
    }
}

/// All claims of this client that wait or hold.
#[derive(Debug, Default)]
pub(crate) struct Claims(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    held: HashMap<Key, Held>,
    doubtful: HashMap<Key, Doubt>,
    /// What is being released at this moment.
    going: HashSet<Key>,
    /// Numbers the records, so that late answers find their own.
    next: u64,
    /// When so many are there, those that are over are thrown out.
    sweep_at: usize,
}

/// What is known of the nodes that a withdrawal was sent to and did not come back from, a bit each.
#[derive(Debug)]
struct Doubt {
    /// Were the same owner to ask again, it might take away what the node grants then.
    nodes: u64,
    /// Those of them whose answer is still to come: it sees to what late answers tell of.
    flying: u64,
    /// Those of them that a late answer told of.
    touched: u64,
    until: Tick,
}

/// One claim, and what became of it.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    /// As it was asked for last.
    pub(crate) claim: Arc<Claim>,
    pub(crate) number: u64,
    /// When it was first asked for.
    began: Instant,
    /// The fence of the grant, once the claim has won.
    pub(crate) fence: Option<Fence>,
    /// Until when the grant is safely ours.
    pub(crate) until: Tick,
    /// The number that the grant has at each node, where it is known to be: mostly the fence.
    numbers: Vec<Option<Fence>>,
    /// The nodes that have something of it or may have, a bit each, as far as is known.
    pub(crate) touched: u64,
    /// Whether somebody else wants the name, and whether that was told.
    wanted: bool,
    told: bool,
    /// How often it has given way to others after a split vote.
    pub(crate) gave_way: u32,
}

/// What was known of a claim when it is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Before {
    pub(crate) number: u64,
    /// When it was first asked for.
    pub(crate) began: Instant,
    /// The fence that it holds now, safely.
    pub(crate) fence: Option<Fence>,
    pub(crate) is_new: bool,
    /// Whether it stands in line already, in the same mode.
    pub(crate) stands: bool,
    /// The nodes that do not count for it, a bit each.
    pub(crate) doubtful: u64,
}

impl Claims {
    /// Notes that a claim is asked for.
    ///
    /// What it asks for now is written down once nodes have agreed to it.
    pub(crate) fn begin(&self, claim: &Arc<Claim>, nodes: usize, now: Tick) -> Before {
        let mut table = self.lock();
        let table = &mut *table;
        if table.held.len() + table.doubtful.len() >= table.sweep_at {
            // A lease by ttl may run out without a word.
            table
                .held
                .retain(|_, held| held.fence.is_none() || held.until > now);
            table.doubtful.retain(|_, doubt| doubt.until > now);
            table.sweep_at = 2 * (table.held.len() + table.doubtful.len()).max(64);
        }
        let key = Key::of(claim);
        let is_over = |held: &Held| held.fence.is_some() && held.until <= now;
        if table.held.get(&key).is_some_and(is_over) {
            // This is another grant, if it is one.
            table.held.remove(&key);
        }
        let next = &mut table.next;
        let mut is_new = false;
        let held = table.held.entry(key.clone()).or_insert_with(|| {
            is_new = true;
            *next += 1;
            Held {
                claim: Arc::clone(claim),
                number: *next,
                began: Instant::now(),
                fence: None,
                until: now,
                numbers: vec![None; nodes],
                touched: 0,
                wanted: false,
                told: false,
                gave_way: 0,
            }
        });
        let doubtful = table.doubtful.get(&key);
        let doubtful = doubtful.filter(|doubt| doubt.until > now);
        Before {
            doubtful: doubtful.map_or(0, |doubt| doubt.nodes),
            number: held.number,
            began: held.began,
            fence: held.fence,
            is_new,
            stands: !is_new && held.fence.is_none() && held.claim.mode == claim.mode,
        }
    }

    /// Notes that a withdrawal, or a release by owner, is on its way to a node.
    pub(crate) fn doubt(&self, key: &Key, node: usize, until: Tick) {
        let mut table = self.lock();
        let doubt = table.doubtful.entry(key.clone()).or_insert(Doubt {
            nodes: 0,
            flying: 0,
            touched: 0,
            until,
        });
        doubt.nodes |= 1 << node;
        doubt.flying |= 1 << node;
        doubt.until = until.max(doubt.until);
    }

    /// Notes that it was carried out.
    pub(crate) fn trust(&self, key: &Key, node: usize) {
        let mut table = self.lock();
        if let Some(doubt) = table.doubtful.get_mut(key) {
            let others = !(1 << node);
            doubt.nodes &= others;
            doubt.flying &= others;
            doubt.touched &= others;
            if doubt.nodes == 0 {
                table.doubtful.remove(key);
            }
        }
    }

    /// Notes that it was not, as far as is known; returns whether the node has something of the claim.
    pub(crate) fn landed(&self, key: &Key, node: usize) -> bool {
        let mut table = self.lock();
        let doubt = table.doubtful.get_mut(key);
        doubt.is_some_and(|doubt| {
            doubt.flying &= !(1 << node);
            doubt.touched & (1 << node) != 0
        })
    }

    /// Notes that a node turned out to have something of a claim that is over; returns whether what
    /// is on its way there sees to it.
    pub(crate) fn is_seen_to(&self, key: &Key, node: usize) -> bool {
        let mut table = self.lock();
        let doubt = table.doubtful.get_mut(key);
        doubt.is_some_and(|doubt| {
            doubt.touched |= 1 << node;
            doubt.flying & (1 << node) != 0
        })
    }

    pub(crate) fn find(&self, key: &Key) -> Option<Held> {
        self.lock().held.get(key).cloned()
    }

    /// Changes a claim, unless it is over; returns what `change` returns.
    pub(crate) fn change<T>(&self, key: &Key, change: impl FnOnce(&mut Held) -> T) -> Option<T> {
        self.lock().held.get_mut(key).map(change)
    }

    /// The claim that a late answer belongs to, unless it is over.
    pub(crate) fn same(&self, key: &Key, number: u64) -> Option<Held> {
        self.find(key).filter(|held| held.number == number)
    }

    pub(crate) fn forget(&self, key: &Key) -> Option<Held> {
        self.lock().held.remove(key)
    }

    /// Forgets a claim that is being released, until the mark is dropped.
    pub(crate) fn let_go(&self, key: &Key) -> Going<'_> {
        let mut table = self.lock();
        table.held.remove(key);
        table.going.insert(key.clone());
        Going {
            claims: self,
            key: key.clone(),
        }
    }

    pub(crate) fn is_going(&self, key: &Key) -> bool {
        self.lock().going.contains(key)
    }

    /// The claims of this client on a name.
    pub(crate) fn on(&self, name: &Name) -> Vec<Held> {
        let table = self.lock();
        let of_name = table.held.iter().filter(|(key, _)| key.name == *name);
        of_name.map(|(_, held)| held.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // Nothing panics while the table is half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A release that is under way.
#[derive(Debug)]
pub(crate) struct Going<'a> {
    claims: &'a Claims,
    key: Key,
}

impl Drop for Going<'_> {
    fn drop(&mut self) {
        self.claims.lock().going.remove(&self.key);
    }
}

impl Held {
    /// The number that the grant has at a node.
    pub(crate) fn number(&self, node: usize) -> Option<Fence> {
        self.numbers[node]
    }

    /// Notes the number that a node has given it, which never falls: of two, the larger is the later.
    pub(crate) fn set_number(&mut self, node: usize, number: Fence) {
        self.numbers[node] = self.numbers[node].max(Some(number));
        self.touch(node);
    }

    /// Notes that nothing is left of what nodes granted, as far as this client knows.
    pub(crate) fn lost(&mut self) {
        self.fence = None;
        self.numbers.fill(None);
    }

    /// Notes that a node has granted it, or let it stand in line, or may have.
    pub(crate) fn touch(&mut self, node: usize) {
        self.touched |= 1 << node;
    }

    /// Notes that a node has lost the grant; returns at how many it still is.
    pub(crate) fn lost_at(&mut self, node: usize) -> usize {
        self.numbers[node] = None;
        self.numbers.iter().flatten().count()
    }

    /// Notes that the claim has won; returns whether to tell that others want the name.
    pub(crate) fn won(
        &mut self,
        claim: &Arc<Claim>,
        fence: Fence,
        has: &[(usize, Fence)],
        until: Tick,
    ) -> bool {
        self.claim = Arc::clone(claim);
        if self.fence != Some(fence) {
            if self.fence.is_some() {
                self.lost();
            }
            (self.fence, self.told) = (Some(fence), false);
        }
        for (node, number) in has {
            self.set_number(*node, *number);
        }
        self.until = self.until.max(until);
        self.gave_way = 0;
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
    use std::time::Duration;

    use super::*;
    use crate::driver::{About, Mode, Wait};

    fn claim() -> Arc<Claim> {
        Arc::new(Claim {
            name: Name::new("a").unwrap(),
            owner: Owner::unique(),
            mode: Mode::Exclusive,
            ttl: Duration::from_secs(60),
            depth: 1,
            wait: Wait::No,
            life: Life::Client,
            fences: 1,
            tell_if_wanted: false,
            about: About::this_process(None),
        })
    }

    fn number(number: u64) -> Fence {
        Fence::new(number).unwrap()
    }

    #[tokio::test]
    async fn numbers_are_noted_before_the_claim_has_won_and_never_fall() {
        let (claims, claim, now) = (Claims::default(), claim(), Tick::default());
        claims.begin(&claim, 3, now);
        let change = |change: &mut dyn FnMut(&mut Held)| claims.change(&Key::of(&claim), change);
        change(&mut |held| held.set_number(2, number(9)));
        let has = [(0, number(8)), (1, number(8))];
        change(&mut |held| _ = held.won(&claim, number(8), &has, now));
        change(&mut |held| held.set_number(2, number(7)));
        let held = claims.find(&Key::of(&claim)).unwrap();
        let numbers = [0, 1, 2].map(|node| held.number(node));
        assert_eq!(numbers, [8, 8, 9].map(Fence::new));
    }

    #[tokio::test]
    async fn another_grant_has_numbers_of_its_own() {
        let (claims, claim, now) = (Claims::default(), claim(), Tick::default());
        claims.begin(&claim, 3, now);
        let win = |fence, node| {
            let has = [(node, number(fence))];
            claims.change(&Key::of(&claim), |held| {
                held.won(&claim, number(fence), &has, now)
            });
        };
        win(8, 0);
        win(9, 1);
        let held = claims.find(&Key::of(&claim)).unwrap();
        let numbers = [0, 1, 2].map(|node| held.number(node));
        assert_eq!(numbers, [None, Fence::new(9), None]);
    }
}

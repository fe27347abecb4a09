//! A store of locks written in the most obvious way, to compare the real ones with.
//!
//! It shares no code with them. Names, owners, clients and claims are numbers, time is a number of
//! ticks, and every question is a loop over two lists: the leases and the line, both by claim.

use tenure::driver::{Life, Loss, Mode, Wait};

/// One claim. Its index in [`Model::claims`] is its id.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) client: usize,
    pub(crate) name: usize,
    /// The owner, whose claims hold together; `None` if it has no owner.
    pub(crate) owner: Option<usize>,
    pub(crate) mode: Mode,
    pub(crate) ttl: u64,
    pub(crate) wait: Wait,
    pub(crate) life: Life,
    pub(crate) fences: u32,
    /// Whether the client wants to be notified when another client asks for the name.
    pub(crate) tells: bool,
}

/// The lease that a renewal or a release names, and its sender.
#[derive(Debug, Clone)]
pub(crate) struct Which {
    pub(crate) claim: usize,
    pub(crate) client: usize,
    pub(crate) life: Life,
    pub(crate) fence: Option<u64>,
}

/// A grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) fence: u64,
    pub(crate) fences: u32,
    pub(crate) valid: u64,
}

/// The model's answer to a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    Busy,
    Conflict,
    Granted(Given),
    Queued { ask_again: u64 },
}

/// News to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    AskAgain {
        name: usize,
    },
    Granted {
        claim: usize,
        given: Given,
        after: u64,
    },
    Evicted {
        claim: usize,
        fence: u64,
    },
    Wanted {
        claim: usize,
        fence: u64,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) claim: usize,
    pub(crate) owner: Option<usize>,
    /// Whether it was released, and the name stays taken by nobody.
    pub(crate) stays: bool,
    /// `None` if it lasts for its ttl, whichever client ends.
    pub(crate) client: Option<usize>,
    pub(crate) mode: Mode,
    pub(crate) fence: u64,
    /// How many fences it may use, from this one on.
    pub(crate) fences: u32,
    pub(crate) since: u64,
    pub(crate) ends: u64,
    /// Whether its client still wants to be notified that another client wants the name.
    tells: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Waits {
    pub(crate) claim: usize,
    pub(crate) owner: Option<usize>,
    pub(crate) client: usize,
    pub(crate) mode: Mode,
    pub(crate) since: u64,
    asks_at: u64,
    /// Whether its client has ended, if the store passes over those.
    away: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Lock {
    held: Vec<Held>,
    line: Vec<Waits>,
    /// The largest reserved fence.
    fence: u64,
    /// Whether the store may still have places whose client has ended.
    pub(crate) left_behind: bool,
}

#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) now: u64,
    /// What each claim asks for, which never changes.
    pub(crate) claims: Vec<Ask>,
    pub(crate) locks: Vec<Lock>,
    /// The unread news of each client; clients that have ended come last.
    pub(crate) told: Vec<Vec<Told>>,
    ends: Ends,
}

/// What the store does when a client ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// Its leases and places end with it.
    Seen,
    /// Its leases last for their ttl. Its places are passed over while it does not listen, and a
    /// holder may be notified of them; they end when it does not ask again in time.
    PassedOver,
}

impl Model {
    pub(crate) fn new(claims: Vec<Ask>, names: usize, clients: usize, ends: Ends) -> Self {
        Self {
            now: 0,
            claims,
            locks: (0..names).map(|_| Lock::default()).collect(),
            told: vec![Vec::new(); clients],
            ends,
        }
    }

    pub(crate) fn acquire(&mut self, claim: usize) -> Said {
        let (name, client) = (self.claims[claim].name, self.claims[claim].client);
        self.let_in(name);
        let said = self.decide(claim);
        if said == Said::Busy {
            self.call_back(name, client);
        }
        // A claim whose turn comes because of this grant has the same owner and waits in a client
        // that has ended. A store that does not notice this may find it with the next request.
        if self.ends == Ends::Seen {
            self.let_in(name);
        }
        self.remind(name);
        said
    }

    /// Returns whether the claim is in line.
    pub(crate) fn waits(&self, claim: usize) -> bool {
        let line = &self.locks[self.claims[claim].name].line;
        line.iter().any(|waits| waits.claim == claim)
    }

    /// Withdraws a claim, if it belongs to this client or to none.
    pub(crate) fn withdraw(&mut self, claim: usize, client: usize) {
        let Ask { name, life, .. } = self.claims[claim];
        let lock = &mut self.locks[name];
        lock.line
            .retain(|waits| (waits.claim, waits.client) != (claim, client));
        let holder = holder_of(client, life);
        lock.held
            .retain(|held| held.stays || (held.claim, held.client) != (claim, holder));
        self.let_in(name);
        self.remind(name);
    }

    pub(crate) fn renew(&mut self, which: &Which, ttl: u64) -> Result<u64, Loss> {
        let name = self.claims[which.claim].name;
        self.let_in(name);
        let now = self.now;
        let lock = &mut self.locks[name];
        let renewed = lock.find(which).map(|mine| {
            lock.held[mine].ends = now + ttl;
            lock.held[mine].fence
        });
        self.remind(name);
        renewed
    }

    /// Releases a lease; returns how many others its owner still has.
    pub(crate) fn release(&mut self, which: &Which, stays: u64) -> Result<u32, Loss> {
        let Ask { name, owner, .. } = self.claims[which.claim];
        self.let_in(name);
        let now = self.now;
        let lock = &mut self.locks[name];
        let released = lock.find(which).map(|mine| {
            if stays == 0 {
                lock.held.remove(mine);
            } else {
                let held = &mut lock.held[mine];
                held.stays = true;
                held.client = None;
                held.tells = false;
                held.ends = now + stays;
                // Removes what stays of an earlier grant of the claim, if it was asked for after
                // its release.
                let claim = which.claim;
                let mut number = 0..;
                lock.held.retain(|held| {
                    number.next() == Some(mine) || !held.stays || held.claim != claim
                });
            }
            depth(&lock.held, owner)
        });
        self.let_in(name);
        self.remind(name);
        released
    }

    pub(crate) fn evict(&mut self, name: usize) -> Vec<Held> {
        self.let_in(name);
        let evicted = std::mem::take(&mut self.locks[name].held);
        for held in &evicted {
            if let Some(client) = held.client {
                self.told[client].push(Told::Evicted {
                    claim: held.claim,
                    fence: held.fence,
                });
            }
        }
        if !evicted.is_empty() {
            self.locks[name].fence += 1;
        }
        self.let_in(name);
        self.remind(name);
        evicted
    }

    /// Ends a client; another takes its number.
    pub(crate) fn end(&mut self, client: usize) {
        if self.ends == Ends::PassedOver {
            self.leave_behind(client);
            return;
        }
        self.told[client].clear();
        for name in 0..self.locks.len() {
            let lock = &mut self.locks[name];
            let before = (lock.held.len(), lock.line.len());
            lock.held.retain(|held| held.client != Some(client));
            lock.line.retain(|waits| waits.client != client);
            if (lock.held.len(), lock.line.len()) != before {
                self.let_in(name);
                self.remind(name);
            }
        }
    }

    /// Moves everything of an ended client to a number that nobody uses again.
    fn leave_behind(&mut self, client: usize) {
        let ended = self.told.len();
        let unread = std::mem::take(&mut self.told[client]);
        self.told.push(unread);
        for lock in &mut self.locks {
            for held in &mut lock.held {
                if held.client == Some(client) {
                    held.client = Some(ended);
                }
            }
            for waits in &mut lock.line {
                if waits.client == client {
                    waits.client = ended;
                    waits.away = true;
                    lock.left_behind = true;
                }
            }
        }
    }

    /// Returns who waits for the name and can be reached, first to last.
    pub(crate) fn waiters(&self, name: usize) -> Vec<&Waits> {
        let line = self.locks[name].line.iter();
        line.filter(|waits| !waits.away).collect()
    }

    /// Returns who holds the name now, oldest first.
    pub(crate) fn holders(&self, name: usize) -> Vec<Held> {
        let mut holders = self.locks[name].held.clone();
        holders.retain(|held| held.ends > self.now);
        holders
    }

    /// Fails if the model itself breaks a promise.
    pub(crate) fn check(&self) {
        for name in 0..self.locks.len() {
            let holders = self.holders(name);
            for (index, one) in holders.iter().enumerate() {
                assert!(one.fence <= self.locks[name].fence);
                for other in &holders[index + 1..] {
                    check_pair(one, other);
                }
                let waits = self.waits(one.claim);
                assert!(!waits || one.stays, "a claim holds and waits");
            }
            assert!(
                permits_suffice(&holders),
                "more permits taken than there are: {holders:?}"
            );
            let line = &self.locks[name].line;
            for (index, one) in line.iter().enumerate() {
                let mut others = line[index + 1..].iter();
                let twice = others.any(|other| one.claim == other.claim);
                assert!(!twice, "two places of one claim");
            }
        }
    }

    fn decide(&mut self, claim: usize) -> Said {
        let now = self.now;
        let ask = self.claims[claim].clone();
        let lock = &mut self.locks[ask.name];
        for held in &mut lock.held {
            if held.claim == claim && !held.stays {
                held.ends = now + ask.ttl;
                return Said::Granted(held.given(ask.ttl));
            }
        }
        let first_end = lock.first_end(now);
        for waits in &mut lock.line {
            if waits.claim == claim {
                waits.asks_at = first_end;
                return Said::Queued {
                    ask_again: first_end - now,
                };
            }
        }
        match lock.mode_of(ask.owner) {
            Some(mode) if covers(mode, ask.mode) => return Said::Granted(self.give(claim)),
            Some(_) => return Said::Conflict,
            None => {}
        }
        if lock.line.iter().all(|waits| waits.away) && lock.has_room(ask.mode) {
            return Said::Granted(self.give(claim));
        }
        if ask.wait == Wait::No {
            return Said::Busy;
        }
        lock.line.push(Waits {
            claim,
            owner: ask.owner,
            client: ask.client,
            mode: ask.mode,
            since: now,
            asks_at: first_end,
            away: false,
        });
        Said::Queued {
            ask_again: first_end - now,
        }
    }

    /// Ends expired leases, and grants to those whose turn it is, one after the other.
    fn let_in(&mut self, name: usize) {
        let now = self.now;
        self.locks[name].held.retain(|held| held.ends > now);
        while let Some(next) = self.locks[name].next() {
            let waits = self.locks[name].line.remove(next);
            if waits.away {
                continue;
            }
            let told = Told::Granted {
                claim: waits.claim,
                given: self.give(waits.claim),
                after: now - waits.since,
            };
            self.told[waits.client].push(told);
        }
    }

    /// Adds the lease of a claim, with the fence and the mode of its owner if that already holds
    /// the name.
    fn give(&mut self, claim: usize) -> Given {
        let ask = self.claims[claim].clone();
        let lock = &mut self.locks[ask.name];
        let mut others = lock.held.iter();
        let beside = others.find(|held| held.is_of(ask.owner)).cloned();
        let (mode, fence, fences) = match &beside {
            Some(other) => (other.mode, other.fence, 1),
            None => {
                lock.fence += u64::from(ask.fences);
                let first = lock.fence + 1 - u64::from(ask.fences);
                (ask.mode, first, ask.fences)
            }
        };
        let held = Held {
            claim,
            owner: ask.owner,
            stays: false,
            client: holder_of(ask.client, ask.life),
            mode,
            fence,
            fences,
            since: self.now,
            ends: self.now + ask.ttl,
            tells: ask.tells && ask.life == Life::Client,
        };
        let given = held.given(ask.ttl);
        lock.held.push(held);
        if beside.is_some() && ask.life == Life::Client {
            // It bypassed the line.
            for waits in &self.locks[ask.name].line {
                self.told[waits.client].push(Told::AskAgain { name: ask.name });
            }
        }
        given
    }

    /// Notifies those holders in other clients that asked for it: this client wants the name.
    fn call_back(&mut self, name: usize, asks: usize) {
        for held in &mut self.locks[name].held {
            let Some(client) = held.client.filter(|client| held.tells && *client != asks) else {
                continue;
            };
            held.tells = false;
            self.told[client].push(Told::Wanted {
                claim: held.claim,
                fence: held.fence,
            });
        }
    }

    /// Notifies holders of who waits, and tells the first in line to ask again if it would
    /// otherwise ask after a lease may have ended.
    fn remind(&mut self, name: usize) {
        for place in 0..self.locks[name].line.len() {
            self.call_back(name, self.locks[name].line[place].client);
        }
        let lock = &mut self.locks[name];
        let first_end = lock.first_end(self.now);
        let mut line = lock.line.iter_mut();
        if let Some(first) = line.find(|waits| !waits.away)
            && first.asks_at > first_end
        {
            first.asks_at = first_end;
            self.told[first.client].push(Told::AskAgain { name });
        }
    }
}

impl Lock {
    /// Returns the lease that a request names, or why there is none.
    fn find(&self, which: &Which) -> Result<usize, Loss> {
        let holder = holder_of(which.client, which.life);
        let found = self.held.iter().position(|held| {
            !held.stays
                && held.claim == which.claim
                && held.client == holder
                && which.fence.is_none_or(|fence| fence == held.fence)
        });
        match found {
            Some(mine) => Ok(mine),
            None if self.held.iter().any(|held| held.claim != which.claim) => Err(Loss::TakenOver),
            None => Err(Loss::Gone),
        }
    }

    /// Returns the mode in which an owner holds the name.
    fn mode_of(&self, owner: Option<usize>) -> Option<Mode> {
        let mut held = self.held.iter();
        let mine = held.find(|held| held.is_of(owner));
        mine.map(|held| held.mode)
    }

    /// Returns whose turn it is: a claim whose owner already holds the name, otherwise the first in
    /// line.
    fn next(&self) -> Option<usize> {
        for (index, waits) in self.line.iter().enumerate() {
            let own_mode = self.mode_of(waits.owner);
            if own_mode.is_some_and(|mode| covers(mode, waits.mode)) {
                return Some(index);
            }
        }
        let first = self.line.iter().position(|waits| !waits.away)?;
        let Waits { owner, mode, .. } = self.line[first];
        // An owner has one mode: if it holds the name in another mode, it has to release first.
        (self.mode_of(owner).is_none() && self.has_room(mode)).then_some(first)
    }

    fn has_room(&self, mode: Mode) -> bool {
        if !self.held.iter().all(|held| go_together(held.mode, mode)) {
            return false;
        }
        let newcomer = Held {
            claim: usize::MAX,
            owner: None,
            stays: false,
            client: None,
            mode,
            fence: u64::MAX,
            fences: 1,
            since: 0,
            ends: 0,
            tells: false,
        };
        let mut all = self.held.clone();
        all.push(newcomer);
        permits_suffice(&all)
    }

    fn first_end(&self, now: u64) -> u64 {
        self.held.iter().map(|held| held.ends).min().unwrap_or(now)
    }
}

impl Held {
    /// Returns whether the owner may join because of this lease.
    fn is_of(&self, owner: Option<usize>) -> bool {
        !self.stays && owner.is_some() && self.owner == owner
    }

    fn given(&self, valid: u64) -> Given {
        Given {
            fence: self.fence,
            fences: self.fences,
            valid,
        }
    }
}

/// Returns how many claims of an owner hold the name.
pub(crate) fn depth(held: &[Held], owner: Option<usize>) -> u32 {
    let claims = held.iter().filter(|held| held.is_of(owner));
    u32::try_from(claims.count()).expect("few claims")
}

/// Returns whether there are enough permits for all grants; claims with the same fence are one
/// grant.
fn permits_suffice(held: &[Held]) -> bool {
    let mut counted = Vec::new();
    let (mut taken, mut smallest) = (0, u32::MAX);
    for held in held {
        let Mode::Permits { take, of } = held.mode else {
            continue;
        };
        smallest = smallest.min(of);
        if !counted.contains(&held.fence) {
            counted.push(held.fence);
            taken += take;
        }
    }
    taken <= smallest
}

fn check_pair(one: &Held, other: &Held) {
    if one.is_of(other.owner) && other.is_of(one.owner) {
        assert_eq!(one.fence, other.fence, "one owner, one grant");
        assert_eq!(one.mode, other.mode, "one owner, one mode");
    }
    if !one.stays && !other.stays {
        assert_ne!(one.claim, other.claim, "one claim, one lease");
    }
    if one.fence == other.fence {
        let owner = one.owner.expect("only owners share a grant");
        assert_eq!(Some(owner), other.owner, "two owners, two grants");
        return;
    }
    let together = go_together(one.mode, other.mode);
    assert!(together, "{one:?} and {other:?} hold the name together");
}

/// Returns whether two owners can hold a name in these modes, given enough permits.
fn go_together(one: Mode, other: Mode) -> bool {
    matches!(
        (one, other),
        (Mode::Shared, Mode::Shared) | (Mode::Permits { .. }, Mode::Permits { .. })
    )
}

fn covers(held: Mode, asked: Mode) -> bool {
    match (held, asked) {
        (Mode::Exclusive, Mode::Shared) => true,
        _ => held == asked,
    }
}

/// Returns which client a lease belongs to.
fn holder_of(client: usize, life: Life) -> Option<usize> {
    match life {
        Life::Client => Some(client),
        _ => None,
    }
}

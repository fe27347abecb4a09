//! A store of locks written in the most obvious way, to compare the real ones with.
//!
//! It shares no code with them. Names, owners and clients are numbers, time is a number of ticks,
//! and every question is a loop over two lists.

use tenure::driver::{Life, Loss, Mode, Wait};

/// One request for a name.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) client: usize,
    pub(crate) name: usize,
    pub(crate) owner: usize,
    pub(crate) mode: Mode,
    pub(crate) ttl: u64,
    pub(crate) depth: u32,
    pub(crate) wait: Wait,
    pub(crate) life: Life,
    pub(crate) fences: u32,
    /// Whether the client wants to know when another asks for the name.
    pub(crate) tells: bool,
    /// Tells requests apart for people who look at the lock.
    pub(crate) pid: u32,
}

/// Which lease of which owner.
#[derive(Debug, Clone)]
pub(crate) struct Which {
    pub(crate) client: usize,
    pub(crate) name: usize,
    pub(crate) owner: usize,
    pub(crate) life: Life,
    pub(crate) fence: Option<u64>,
}

/// What the model says to a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    Busy,
    Conflict,
    Granted(u64),
    Queued { ask_again: u64 },
}

/// What the model says to a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LetGo {
    Freed,
    Lowered,
    NotHeld(Loss),
}

/// What a client is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    AskAgain {
        name: usize,
    },
    Granted {
        name: usize,
        owner: usize,
        fence: u64,
        after: u64,
    },
    Evicted {
        name: usize,
        owner: usize,
        fence: u64,
    },
    Wanted {
        name: usize,
        owner: usize,
        fence: u64,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) owner: usize,
    /// Nobody's, after a release that keeps the name taken.
    pub(crate) kept: bool,
    pub(crate) client: Option<usize>,
    pub(crate) mode: Mode,
    pub(crate) depth: u32,
    pub(crate) fence: u64,
    pub(crate) since: u64,
    pub(crate) ends: u64,
    /// Not told yet that another client wants the name, and wants to know.
    tells: bool,
    pub(crate) pid: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Waits {
    pub(crate) ask: Ask,
    pub(crate) since: u64,
    asks_at: u64,
    /// Whether its client has ended, where the store passes over those.
    away: bool,
}

impl PartialEq for Ask {
    fn eq(&self, other: &Self) -> bool {
        self.pid == other.pid
    }
}

impl Eq for Ask {}

#[derive(Debug, Default)]
pub(crate) struct Lock {
    pub(crate) held: Vec<Held>,
    pub(crate) line: Vec<Waits>,
    fence: u64,
    /// Whether the store may know of places whose client has ended.
    pub(crate) left_behind: bool,
    /// Whether a client just went in beside another of its owner, and so maybe past the line.
    passed: bool,
}

#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) now: u64,
    pub(crate) locks: Vec<Lock>,
    /// The news of each client that it has not read yet; those that have ended stand last.
    pub(crate) told: Vec<Vec<Told>>,
    ends: Ends,
}

/// What the store does when a client ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// Its leases and places end with it.
    Seen,
    /// Its leases last for their ttl. Its places are passed over while it does not listen, and a
    /// holder may be told of them; they end when it does not ask again in time.
    PassedOver,
}

impl Model {
    pub(crate) fn new(names: usize, clients: usize, ends: Ends) -> Self {
        Self {
            now: 0,
            locks: (0..names).map(|_| Lock::default()).collect(),
            told: vec![Vec::new(); clients],
            ends,
        }
    }

    pub(crate) fn acquire(&mut self, ask: &Ask) -> Said {
        self.let_in(ask.name);
        let said = self.decide(ask);
        if said == Said::Busy {
            self.call_back(ask.name, ask.client);
        }
        // Whose turn it is by this grant has the same owner and waits in a client that has ended;
        // a store that does not see that may look for it with the next request.
        if self.ends == Ends::Seen {
            self.let_in(ask.name);
        }
        self.remind(ask.name);
        said
    }

    /// Whether a place in line is for what is asked, and not for less.
    pub(crate) fn stands_for(&self, ask: &Ask) -> bool {
        let mut line = self.locks[ask.name].line.iter();
        line.any(|waits| {
            (waits.ask.owner, waits.ask.client) == (ask.owner, ask.client)
                && covers(waits.ask.mode, ask.mode)
        })
    }

    pub(crate) fn withdraw(&mut self, ask: &Ask) {
        let lock = &mut self.locks[ask.name];
        lock.line
            .retain(|waits| (waits.ask.owner, waits.ask.client) != (ask.owner, ask.client));
        let client = client_of(ask.client, ask.life);
        if let Some(mine) = lock.find(ask.owner, client) {
            if ask.depth == 1 {
                lock.held.remove(mine);
            } else if lock.held[mine].depth >= ask.depth {
                lock.held[mine].depth = ask.depth - 1;
            }
        }
        self.let_in(ask.name);
        self.remind(ask.name);
    }

    pub(crate) fn renew(&mut self, which: &Which, ttl: u64) -> Result<u64, Loss> {
        self.let_in(which.name);
        let now = self.now;
        let lock = &mut self.locks[which.name];
        let renewed = lock.find_grant(which).map(|mine| {
            lock.held[mine].ends = now + ttl;
            lock.held[mine].fence
        });
        self.remind(which.name);
        renewed
    }

    pub(crate) fn release(&mut self, which: &Which, depth: u32, keep: u64) -> LetGo {
        self.let_in(which.name);
        let now = self.now;
        let lock = &mut self.locks[which.name];
        let let_go = match lock.find_grant(which) {
            Err(loss) => LetGo::NotHeld(loss),
            Ok(mine) if depth > 0 => {
                if lock.held[mine].depth > depth {
                    lock.held[mine].depth = depth;
                }
                LetGo::Lowered
            }
            Ok(mine) if keep == 0 => {
                lock.held.remove(mine);
                LetGo::Freed
            }
            Ok(mine) => {
                let held = &mut lock.held[mine];
                held.kept = true;
                held.client = None;
                held.depth = 0;
                held.tells = false;
                held.ends = now + keep;
                LetGo::Freed
            }
        };
        self.let_in(which.name);
        self.remind(which.name);
        let_go
    }

    pub(crate) fn evict(&mut self, name: usize) -> Vec<Held> {
        self.let_in(name);
        let evicted = std::mem::take(&mut self.locks[name].held);
        for held in &evicted {
            let told = Told::Evicted {
                name,
                owner: held.owner,
                fence: held.fence,
            };
            if let Some(client) = held.client {
                self.told[client].push(told);
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
            lock.line.retain(|waits| waits.ask.client != client);
            if (lock.held.len(), lock.line.len()) != before {
                self.let_in(name);
                self.remind(name);
            }
        }
    }

    /// Gives what an ended client has to a number that nobody uses again.
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
                if waits.ask.client == client {
                    waits.ask.client = ended;
                    waits.away = true;
                    lock.left_behind = true;
                }
            }
        }
    }

    /// Who waits for the name and can be reached, first to last.
    pub(crate) fn waiters(&self, name: usize) -> Vec<&Waits> {
        let line = self.locks[name].line.iter();
        line.filter(|waits| !waits.away).collect()
    }

    /// Who holds the name now, oldest first.
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
            }
            let all_permits = permits_taken(&holders);
            assert!(
                all_permits,
                "more permits taken than there are: {holders:?}"
            );
            let line = &self.locks[name].line;
            for (index, one) in line.iter().enumerate() {
                let twice = line[index + 1..].iter().any(|other| {
                    (one.ask.owner, one.ask.client) == (other.ask.owner, other.ask.client)
                });
                assert!(!twice, "two places of one claim");
            }
        }
    }

    fn decide(&mut self, ask: &Ask) -> Said {
        let now = self.now;
        let lock = &mut self.locks[ask.name];
        let own_mode = lock.mode_of(ask.owner);
        if own_mode.is_some_and(|mode| covers(mode, ask.mode)) {
            lock.line
                .retain(|waits| (waits.ask.owner, waits.ask.client) != (ask.owner, ask.client));
            let fence = lock.give(ask, now);
            self.call(ask.name);
            return Said::Granted(fence);
        }
        let first_end = lock.first_end(now);
        let queued = Said::Queued {
            ask_again: first_end - now,
        };
        for waits in &mut lock.line {
            if (waits.ask.owner, waits.ask.client) == (ask.owner, ask.client) {
                if !covers(waits.ask.mode, ask.mode) {
                    return Said::Conflict;
                }
                if ask.wait == Wait::No {
                    return Said::Busy;
                }
                waits.ask.ttl = ask.ttl;
                waits.asks_at = first_end;
                return queued;
            }
        }
        if own_mode.is_some() {
            return Said::Conflict;
        }
        if lock.line.iter().all(|waits| waits.away) && lock.has_room(ask.mode) {
            return Said::Granted(lock.give(ask, now));
        }
        if ask.wait == Wait::No {
            return Said::Busy;
        }
        lock.line.push(Waits {
            ask: ask.clone(),
            since: now,
            asks_at: first_end,
            away: false,
        });
        queued
    }

    /// Ends what has run out, and lets in whose turn it is, one after the other.
    fn let_in(&mut self, name: usize) {
        let now = self.now;
        self.locks[name].held.retain(|held| held.ends > now);
        while let Some(next) = self.locks[name].next() {
            let lock = &mut self.locks[name];
            let waits = lock.line.remove(next);
            if waits.away {
                continue;
            }
            let told = Told::Granted {
                name,
                owner: waits.ask.owner,
                fence: lock.give(&waits.ask, now),
                after: now - waits.since,
            };
            self.call(name);
            self.told[waits.ask.client].push(told);
        }
    }

    /// Tells the line to ask again if a client went in past it.
    fn call(&mut self, name: usize) {
        if std::mem::take(&mut self.locks[name].passed) {
            for waits in &self.locks[name].line {
                self.told[waits.ask.client].push(Told::AskAgain { name });
            }
        }
    }

    /// Tells the holders in other clients that this one wants the name, those who want to know.
    fn call_back(&mut self, name: usize, asks: usize) {
        for held in &mut self.locks[name].held {
            let Some(client) = held.client.filter(|client| held.tells && *client != asks) else {
                continue;
            };
            held.tells = false;
            self.told[client].push(Told::Wanted {
                name,
                owner: held.owner,
                fence: held.fence,
            });
        }
    }

    /// Tells holders who waits, and the first in line to ask again if it would ask after a lease may have ended.
    fn remind(&mut self, name: usize) {
        for place in 0..self.locks[name].line.len() {
            self.call_back(name, self.locks[name].line[place].ask.client);
        }
        let lock = &mut self.locks[name];
        let first_end = lock.first_end(self.now);
        let mut line = lock.line.iter_mut();
        if let Some(first) = line.find(|waits| !waits.away)
            && first.asks_at > first_end
        {
            first.asks_at = first_end;
            self.told[first.ask.client].push(Told::AskAgain { name });
        }
    }
}

impl Lock {
    fn find(&self, owner: usize, client: Option<usize>) -> Option<usize> {
        let mut held = self.held.iter();
        held.position(|held| !held.kept && held.owner == owner && held.client == client)
    }

    fn find_grant(&self, which: &Which) -> Result<usize, Loss> {
        let mine = self.find(which.owner, client_of(which.client, which.life));
        match (mine, which.fence) {
            (Some(mine), None) => return Ok(mine),
            (Some(mine), Some(fence)) if self.held[mine].fence == fence => return Ok(mine),
            _ => {}
        }
        if self.held.iter().any(|held| held.owner != which.owner) {
            return Err(Loss::TakenOver);
        }
        Err(Loss::Gone)
    }

    fn mode_of(&self, owner: usize) -> Option<Mode> {
        let mut held = self.held.iter();
        let mine = held.find(|held| !held.kept && held.owner == owner);
        mine.map(|held| held.mode)
    }

    fn next(&self) -> Option<usize> {
        for (index, waits) in self.line.iter().enumerate() {
            let own_mode = self.mode_of(waits.ask.owner);
            if own_mode.is_some_and(|mode| covers(mode, waits.ask.mode)) {
                return Some(index);
            }
        }
        let first = self.line.iter().position(|waits| !waits.away)?;
        let mode = self.line[first].ask.mode;
        self.has_room(mode).then_some(first)
    }

    fn has_room(&self, mode: Mode) -> bool {
        if !self.held.iter().all(|held| go_together(held.mode, mode)) {
            return false;
        }
        let newcomer = Held {
            owner: usize::MAX,
            kept: false,
            client: None,
            mode,
            depth: 1,
            fence: u64::MAX,
            since: 0,
            ends: 0,
            tells: false,
            pid: 0,
        };
        let mut all = self.held.clone();
        all.push(newcomer);
        permits_taken(&all)
    }

    fn give(&mut self, ask: &Ask, now: u64) -> u64 {
        let client = client_of(ask.client, ask.life);
        if let Some(mine) = self.find(ask.owner, client) {
            self.held[mine].depth = ask.depth;
            self.held[mine].ends = now + ask.ttl;
            return self.held[mine].fence;
        }
        let mut held = self.held.iter();
        let mine = held.find(|held| !held.kept && held.owner == ask.owner);
        let (mode, fence) = match mine {
            Some(held) => {
                self.passed = ask.life == Life::Client;
                (held.mode, held.fence)
            }
            None => {
                let fence = self.fence + 1;
                self.fence += u64::from(ask.fences);
                (ask.mode, fence)
            }
        };
        self.held.push(Held {
            owner: ask.owner,
            kept: false,
            client,
            mode,
            depth: ask.depth,
            fence,
            since: now,
            ends: now + ask.ttl,
            tells: ask.tells && ask.life == Life::Client,
            pid: ask.pid,
        });
        fence
    }

    fn first_end(&self, now: u64) -> u64 {
        self.held.iter().map(|held| held.ends).min().unwrap_or(now)
    }
}

/// Whether the permits of all grants are enough; a grant has one fence, in how many clients ever.
fn permits_taken(held: &[Held]) -> bool {
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
    if one.owner == other.owner && !one.kept && !other.kept {
        assert_eq!(one.fence, other.fence, "one owner, one grant");
        assert_eq!(one.mode, other.mode, "one owner, one mode");
        assert_ne!(one.client, other.client, "one owner and client, one lease");
        return;
    }
    if one.owner != other.owner {
        assert_ne!(one.fence, other.fence, "two owners, two grants");
    } else if one.fence == other.fence {
        return;
    }
    let together = go_together(one.mode, other.mode);
    assert!(together, "{one:?} and {other:?} hold the name together");
}

/// Whether two owners can hold a name in these modes, given enough permits.
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

fn client_of(client: usize, life: Life) -> Option<usize> {
    match life {
        Life::Client => Some(client),
        _ => None,
    }
}

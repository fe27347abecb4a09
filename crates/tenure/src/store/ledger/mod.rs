//! The rules of one name, for stores that decide in our own process.
//!
//! A ledger records who holds a name and who waits in line for it. It is plain data without clocks
//! or sockets: the store passes the time in, and sends the notices that come back. So the memory
//! store, the local store and the stores in databases share these rules.

#[cfg(feature = "serde")]
mod client_text;
mod notice;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "simulation"))]
mod stored;
#[cfg(all(feature = "redis", feature = "simulation"))]
pub(crate) mod voting;

use std::collections::VecDeque;
use std::time::Duration;

use crate::driver::{
    About, Answer, Claim, Entry, Grant, Holder, Life, Loss, Mode, Release, Released, Renewal,
    Renewed, Wait, Waiter,
};
use crate::name::{ClaimId, Fence, Name, Owner};

pub(crate) use notice::{Notice, What, news};
#[cfg(any(feature = "mysql", feature = "postgres", feature = "simulation"))]
pub(crate) use stored::{LoneHolder, Standing};

/// The client that a lease or a place in line belongs to.
pub(crate) type Session = u128;

/// The session of leases that belong to no client.
pub(crate) const NOBODY: Session = 0;

/// Nanoseconds on the store's clock.
pub(crate) type Nanos = u64;

/// A source of fences.
pub(crate) trait Fences {
    /// Reserves a block of `count` fences that are larger than all before, and returns the first.
    fn reserve(&mut self, count: u32) -> Fence;
}

/// Who holds one name, and who waits in line for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Ledger {
    rows: Vec<Row>,
    line: VecDeque<Place>,
}

/// One lease.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Row {
    claim: Box<str>,
    /// The owner, whose claims hold the name together.
    owner: Option<Box<str>>,
    #[cfg_attr(feature = "serde", serde(with = "client_text"))]
    session: Session,
    mode: Mode,
    /// Whether it was released and the name stays taken by nobody.
    released: bool,
    fence: u64,
    /// How many fences were reserved with it: none for a claim that shares another's fence.
    fences: u32,
    since: Nanos,
    ends: Nanos,
    /// Whether to tell its session when somebody else wants the name; cleared once told.
    tells: bool,
    about: About,
}

/// One claim in line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Place {
    claim: Box<str>,
    owner: Option<Box<str>>,
    #[cfg_attr(feature = "serde", serde(with = "client_text"))]
    session: Session,
    /// Whether the lease will belong to the session rather than to nobody.
    bound: bool,
    mode: Mode,
    fences: u32,
    tells: bool,
    ttl: Nanos,
    asked: Nanos,
    /// When it was told to ask again.
    asks: Nanos,
    about: About,
}

/// The owner holds the name in a mode that does not cover the claim's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ModeConflict;

/// The context of one request: the client, the time, the source of fences, and the notices to send.
pub(crate) struct Moment<'a> {
    pub(crate) session: Session,
    pub(crate) now: Nanos,
    pub(crate) fences: &'a mut dyn Fences,
    pub(crate) notices: &'a mut Vec<Notice>,
}

impl Ledger {
    /// Returns whether nothing is worth storing.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.line.is_empty()
    }

    /// Decides a claim, after granting all claims in line whose turn has come by `now`.
    pub(crate) fn acquire(
        &mut self,
        claim: &Claim,
        at: &mut Moment<'_>,
    ) -> Result<Answer, ModeConflict> {
        self.let_in(at);
        let answer = self.decide(claim, at);
        if answer == Ok(Answer::Busy) {
            // A claim that waits needs no call here: `settle` finds it in the line.
            let refused = at.session;
            call_back(&mut self.rows, |holder| holder != refused, at);
        }
        self.settle(at);
        answer
    }

    /// Removes the claim from the line, and gives back its grant.
    pub(crate) fn withdraw(&mut self, claim: &Claim, at: &mut Moment<'_>) {
        let (id, session) = (claim.id.as_str(), at.session_of(claim.life));
        let waiting = at.session;
        self.line.retain(|place| !place.is(id, waiting));
        self.rows.retain(|row| !row.is(id, session));
        self.settle(at);
    }

    /// Renews a lease.
    pub(crate) fn renew(&mut self, renewal: &Renewal, at: &mut Moment<'_>) -> Renewed {
        self.let_in(at);
        let session = at.session_of(renewal.life);
        let renewed = match self.held(&renewal.claim, session, renewal.fence) {
            Ok(mine) => {
                let row = &mut self.rows[mine];
                row.ends = at.now.saturating_add(nanos(renewal.ttl));
                Renewed::Extended {
                    fence: row.fence(),
                    valid: renewal.ttl,
                }
            }
            Err(loss) => Renewed::Lost(loss),
        };
        self.call_holders(at);
        self.call_first(at);
        renewed
    }

    /// Frees a lease.
    pub(crate) fn release(&mut self, release: &Release, at: &mut Moment<'_>) -> Released {
        self.let_in(at);
        let session = at.session_of(release.life);
        let released = match self.held(&release.claim, session, release.fence) {
            Ok(mine) => self.let_go(mine, release, at.now),
            Err(loss) => Released::NotHeld(loss),
        };
        self.settle(at);
        released
    }

    /// Evicts the holders of the name, and returns them.
    pub(crate) fn evict(&mut self, at: &mut Moment<'_>) -> Vec<Holder> {
        self.let_in(at);
        let evicted = self.holders(at.now);
        for row in self.rows.drain(..) {
            let what = What::Lost {
                fence: row.fence,
                loss: Loss::Evicted,
            };
            at.notices.push(Notice {
                session: row.session,
                claim: row.claim,
                what,
            });
        }
        // The fence advances even if nobody is next: a resource that learns of the eviction can
        // refuse all fences below this one.
        at.fences.reserve(1);
        self.settle(at);
        evicted
    }

    /// Removes a session that has ended; returns whether it was here.
    pub(crate) fn forget(&mut self, gone: Session, at: &mut Moment<'_>) -> bool {
        let before = self.rows.len() + self.line.len();
        self.rows.retain(|row| row.session != gone);
        self.line.retain(|place| place.session != gone);
        let was_here = self.rows.len() + self.line.len() < before;
        if was_here {
            self.settle(at);
        }
        was_here
    }

    /// Returns the other sessions that hold the name or wait in line for it.
    #[cfg(feature = "local")]
    pub(crate) fn sessions_but(&self, own: Session) -> impl Iterator<Item = Session> {
        let rows = self.rows.iter().map(|row| row.session);
        let places = self.line.iter().map(|place| place.session);
        rows.chain(places)
            .filter(move |session| *session != own && *session != NOBODY)
    }

    /// Returns all sessions that hold the name or wait in line for it.
    #[cfg(feature = "local")]
    pub(crate) fn sessions(&self) -> impl Iterator<Item = Session> {
        self.sessions_but(NOBODY)
    }

    /// Returns whether a lease has expired that has not been removed yet.
    #[cfg(feature = "local")]
    pub(crate) fn is_due(&self, now: Nanos) -> bool {
        self.rows.iter().any(|row| row.ends <= now)
    }

    /// Removes expired leases, grants claims whose turn it is, and notifies the holders and the
    /// first in line.
    pub(crate) fn settle(&mut self, at: &mut Moment<'_>) {
        self.let_in(at);
        self.call_holders(at);
        self.call_first(at);
    }

    /// Returns whether only expired leases will be left at the given time.
    pub(crate) fn is_over(&self, now: Nanos) -> bool {
        self.line.is_empty() && self.rows.iter().all(|row| row.ends <= now)
    }

    /// Lists who holds the name and who waits for it.
    pub(crate) fn entry(&self, name: Name, now: Nanos) -> Entry {
        Entry {
            name,
            holders: self.holders(now),
            waiters: self.waiters(now),
        }
    }

    /// Lists the claims that hold the name, oldest first.
    fn holders(&self, now: Nanos) -> Vec<Holder> {
        let alive = || self.rows.iter().filter(|row| row.ends > now);
        let depth = |row: &Row| match &row.owner {
            _ if row.released => 0,
            Some(owner) => count(alive().filter(|other| other.is_of(owner))),
            None => 1,
        };
        alive()
            .map(|row| Holder {
                claim: ClaimId::stored(&row.claim),
                owner: shown(&row.claim, row.owner.as_deref()),
                mode: row.mode,
                fence: row.fence(),
                depth: depth(row),
                life: match row.session {
                    NOBODY => Life::Ttl,
                    _ => Life::Client,
                },
                about: row.about.clone(),
                held: Duration::from_nanos(now.saturating_sub(row.since)),
                expires_in: Duration::from_nanos(row.ends - now),
            })
            .collect()
    }

    /// Lists the line, first to last.
    fn waiters(&self, now: Nanos) -> Vec<Waiter> {
        let line = self.line.iter();
        line.map(|place| Waiter {
            claim: ClaimId::stored(&place.claim),
            owner: shown(&place.claim, place.owner.as_deref()),
            mode: place.mode,
            about: place.about.clone(),
            waited: Duration::from_nanos(now.saturating_sub(place.asked)),
        })
        .collect()
    }

    /// Removes expired leases, and grants claims whose turn it is.
    fn let_in(&mut self, at: &mut Moment<'_>) {
        self.rows.retain(|row| row.ends > at.now);
        while let Some(place) = self.next().and_then(|next| self.line.remove(next)) {
            let (session, claim) = (place.session, place.claim.clone());
            let after = at.now.saturating_sub(place.asked);
            let granted = self.grant(place, at);
            let what = What::Granted {
                fence: granted.fence.get(),
                fences: granted.fences,
                valid: nanos(granted.valid),
                after,
            };
            at.notices.push(Notice {
                session,
                claim,
                what,
            });
        }
    }

    /// Removes a lease, or leaves the name taken by nobody.
    fn let_go(&mut self, mine: usize, release: &Release, now: Nanos) -> Released {
        let mut row = self.rows.remove(mine);
        let owner = row.owner.clone();
        if !release.stays_taken.is_zero() {
            // Remove what is left of an earlier grant of the claim, if a late retry has asked for it
            // again.
            let before = self.rows.len();
            self.rows
                .retain(|other| !(other.released && other.claim == row.claim));
            // That row comes before this one.
            let mine = mine - (before - self.rows.len());
            row.session = NOBODY;
            row.released = true;
            row.tells = false;
            row.ends = now.saturating_add(nanos(release.stays_taken));
            self.rows.insert(mine, row);
        }
        let others = owner.map(|owner| count(self.rows.iter().filter(|row| row.is_of(&owner))));
        Released::Freed {
            left: others.unwrap_or(0),
        }
    }

    /// Decides a claim after all claims in line had their turn.
    fn decide(&mut self, claim: &Claim, at: &mut Moment<'_>) -> Result<Answer, ModeConflict> {
        let (id, session) = (claim.id.as_str(), at.session_of(claim.life));
        if let Some(row) = self.rows.iter_mut().find(|row| row.is(id, session)) {
            row.ends = at.now.saturating_add(nanos(claim.ttl));
            return Ok(Answer::Granted(row.grant(claim.ttl)));
        }
        let held = claim.owner.as_ref();
        let held = held.and_then(|owner| self.mode_of(owner.as_str()));
        if held.is_some_and(|held| held.covers(claim.mode)) {
            return Ok(Answer::Granted(self.grant(Place::new(claim, at), at)));
        }
        let (ends, waiting) = (self.first_end(at.now), at.session);
        if let Some(place) = self.line.iter_mut().find(|place| place.is(id, waiting)) {
            place.ttl = nanos(claim.ttl);
            place.asks = ends;
            return Ok(queued(ends, at.now));
        }
        if held.is_some() {
            return Err(ModeConflict);
        }
        if self.line.is_empty() && self.fits(claim.mode) {
            return Ok(Answer::Granted(self.grant(Place::new(claim, at), at)));
        }
        match claim.wait {
            Wait::No => Ok(Answer::Busy),
            Wait::InLine => {
                let asks = ends;
                let place = Place::new(claim, at);
                self.line.push_back(Place { asks, ..place });
                Ok(queued(ends, at.now))
            }
        }
    }

    /// Returns whose turn it is: a claim of an owner that already holds the name, else the first in
    /// line.
    fn next(&self) -> Option<usize> {
        let covered = |place: &Place| {
            let owner = place.owner.as_ref();
            let held = owner.and_then(|owner| self.mode_of(owner));
            held.is_some_and(|held| held.covers(place.mode))
        };
        // An owner that already holds the name in another mode would share a grant that it did not
        // ask for.
        let is_in = |place: &Place| {
            let owner = place.owner.as_ref();
            owner.is_some_and(|owner| self.mode_of(owner).is_some())
        };
        let fits = |first: &&Place| self.fits(first.mode) && !is_in(first);
        let first = || self.line.front().filter(fits);
        let entering = self.line.iter().position(covered);
        entering.or_else(|| first().map(|_| 0))
    }

    /// Adds a lease, with a new fence or with that of an owner that already holds the name.
    fn grant(&mut self, place: Place, at: &mut Moment<'_>) -> Grant {
        let mut rows = self.rows.iter();
        let owner = place.owner.as_deref();
        let beside = owner.and_then(|owner| rows.find(|row| row.is_of(owner)));
        let (mode, fence, fences) = match beside {
            Some(row) => {
                let held = (row.mode, row.fence(), 0);
                if place.bound {
                    self.call_all(at);
                }
                held
            }
            None => {
                let fences = place.fences.max(1);
                (place.mode, at.fences.reserve(fences), fences)
            }
        };
        let row = Row {
            claim: place.claim,
            owner: place.owner,
            session: if place.bound { place.session } else { NOBODY },
            mode,
            released: false,
            fence: fence.get(),
            fences,
            since: at.now,
            ends: at.now.saturating_add(place.ttl),
            tells: place.tells,
            about: place.about,
        };
        let granted = row.grant(Duration::from_nanos(place.ttl));
        self.rows.push(row);
        granted
    }

    /// Returns in which mode the owner holds the name, in this client or another.
    fn mode_of(&self, owner: &str) -> Option<Mode> {
        let mut rows = self.rows.iter();
        rows.find(|row| row.is_of(owner)).map(|row| row.mode)
    }

    /// Returns whether a new owner can hold the name beside the current holders.
    fn fits(&self, mode: Mode) -> bool {
        match mode {
            Mode::Exclusive => self.rows.is_empty(),
            Mode::Shared => self.rows.iter().all(|row| row.mode == Mode::Shared),
            Mode::Permits { take, of } => {
                let mut seen: Vec<u64> = Vec::new();
                let (mut taken, mut limit) = (u64::from(take), of);
                for row in &self.rows {
                    let Mode::Permits { take, of } = row.mode else {
                        return false;
                    };
                    // Claims that share an owner share its fence, and therefore its permits.
                    if !seen.contains(&row.fence) {
                        seen.push(row.fence);
                        taken += u64::from(take);
                    }
                    limit = limit.min(of);
                }
                taken <= u64::from(limit)
            }
        }
    }

    /// Returns the row of this claim and session, or why there is none.
    fn held(&self, claim: &ClaimId, session: Session, fence: Option<Fence>) -> Result<usize, Loss> {
        let mut rows = self.rows.iter();
        let mine = rows.position(|row| {
            row.is(claim.as_str(), session) && fence.is_none_or(|fence| fence == row.fence())
        });
        let others = || self.rows.iter().any(|row| &*row.claim != claim.as_str());
        mine.ok_or_else(|| {
            if others() {
                Loss::TakenOver
            } else {
                Loss::Gone
            }
        })
    }

    /// Returns when the first lease expires unless renewed.
    fn first_end(&self, now: Nanos) -> Nanos {
        self.rows.iter().map(|row| row.ends).min().unwrap_or(now)
    }

    /// Tells the first in line to ask again if a lease may now end before the time it was told.
    ///
    /// Nobody else watches that end, and the claims behind the first rely on it.
    fn call_first(&mut self, at: &mut Moment<'_>) {
        let ends = self.first_end(at.now);
        let Some(first) = self.line.front_mut().filter(|first| first.asks > ends) else {
            return;
        };
        first.asks = ends;
        at.notices.push(first.call());
    }

    /// Tells the holders that asked for it that another client waits.
    fn call_holders(&mut self, at: &mut Moment<'_>) {
        let line = &self.line;
        let is_waited_for = |holder| line.iter().any(|place| place.session != holder);
        call_back(&mut self.rows, is_waited_for, at);
    }

    /// Tells everybody in line to ask again, because another client was granted the name ahead of
    /// them.
    ///
    /// A store that watches the clients ahead of a waiter has to learn of the new one, because the
    /// line may have to wait for its end.
    fn call_all(&self, at: &mut Moment<'_>) {
        at.notices.extend(self.line.iter().map(Place::call));
    }
}

impl Row {
    /// Returns whether it is the lease of this claim; a name that stays taken after its release
    /// belongs to nobody.
    fn is(&self, claim: &str, session: Session) -> bool {
        !self.released && self.session == session && &*self.claim == claim
    }

    /// Returns whether this owner may share the name because of it.
    fn is_of(&self, owner: &str) -> bool {
        !self.released && self.owner.as_deref() == Some(owner)
    }

    fn grant(&self, valid: Duration) -> Grant {
        // A claim that shares another's fence has only that one: the fences reserved behind it
        // belong to the other claim.
        Grant::new(self.fence(), valid).with_fences(self.fences.max(1))
    }

    fn fence(&self) -> Fence {
        // Rows always get a fence. A damaged zero reads as the smallest.
        Fence::new(self.fence.max(1)).unwrap_or_else(|| unreachable!("at least 1"))
    }
}

impl Place {
    fn new(claim: &Claim, at: &Moment<'_>) -> Self {
        Self {
            claim: claim.id.as_str().into(),
            owner: claim.owner.as_ref().map(|owner| owner.as_str().into()),
            session: at.session,
            bound: claim.life == Life::Client,
            mode: claim.mode,
            fences: claim.fences,
            tells: claim.tell_if_wanted && claim.life == Life::Client,
            ttl: nanos(claim.ttl),
            asked: at.now,
            asks: at.now,
            about: claim.about.clone(),
        }
    }

    fn is(&self, claim: &str, session: Session) -> bool {
        self.session == session && &*self.claim == claim
    }

    fn call(&self) -> Notice {
        Notice {
            session: self.session,
            claim: self.claim.clone(),
            what: What::AskAgain,
        }
    }
}

impl Moment<'_> {
    fn session_of(&self, life: Life) -> Session {
        match life {
            Life::Client => self.session,
            Life::Ttl => NOBODY,
        }
    }
}

impl std::fmt::Debug for Moment<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Moment")
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

/// Tells holders, once per grant, that somebody else wants the name.
fn call_back(rows: &mut [Row], is_wanted: impl Fn(Session) -> bool, at: &mut Moment<'_>) {
    for row in rows.iter_mut().filter(|row| row.tells) {
        if is_wanted(row.session) {
            row.tells = false;
            at.notices.push(Notice {
                session: row.session,
                claim: row.claim.clone(),
                what: What::Wanted { fence: row.fence },
            });
        }
    }
}

/// Returns the answer to a claim in line: it asks again when the first lease may expire.
fn queued(ends: Nanos, now: Nanos) -> Answer {
    Answer::Queued {
        ask_again: Some(Duration::from_nanos(ends.saturating_sub(now))),
    }
}

/// Returns the owner as people see it; a claim without an owner is its own.
fn shown(claim: &str, owner: Option<&str>) -> Owner {
    Owner::shown(owner.unwrap_or(claim))
}

/// Counts items, up to the maximum of the type.
fn count<T>(all: impl Iterator<Item = T>) -> u32 {
    u32::try_from(all.count()).unwrap_or(u32::MAX)
}

fn nanos(duration: Duration) -> Nanos {
    u64::try_from(duration.as_nanos()).unwrap_or(Nanos::MAX)
}

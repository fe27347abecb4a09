//! The rules of one name, for stores that decide in our own process.
//!
//! A ledger is who holds a name and who stands in line for it. It is plain data and knows neither
//! clocks nor sockets: the store gives the time in, and sends out the notices that come back. The
//! same rules so serve the memory store and the local store.

use std::collections::VecDeque;
use std::time::Duration;

use crate::driver::{
    About, Answer, Claim, Holder, Life, Loss, Mode, Release, Released, Renewal, Renewed, Wait,
    Waiter,
};
use crate::name::{Fence, Name, Owner};

/// Which client a lease or a place belongs to.
pub(crate) type Session = u128;

/// The session of leases that belong to no client.
pub(crate) const NOBODY: Session = 0;

/// Nanoseconds on the store's clock.
pub(crate) type Nanos = u64;

/// Gives out fences: the first of a block of so many that are larger than all before.
pub(crate) trait Fences {
    /// Reserves `count` fences and returns the first.
    fn reserve(&mut self, count: u32) -> Fence;
}

/// Who holds one name, and who stands in line for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "local", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Ledger {
    rows: Vec<Row>,
    line: VecDeque<Place>,
}

/// One lease.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "local", derive(serde::Serialize, serde::Deserialize))]
struct Row {
    owner: Box<str>,
    session: Session,
    mode: Mode,
    depth: u32,
    fence: u64,
    since: Nanos,
    ends: Nanos,
    about: About,
}

/// One claim in line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "local", derive(serde::Serialize, serde::Deserialize))]
struct Place {
    owner: Box<str>,
    session: Session,
    /// Whether the lease will belong to the session, or to nobody.
    bound: bool,
    mode: Mode,
    depth: u32,
    fences: u32,
    ttl: Nanos,
    asked: Nanos,
    about: About,
}

/// What a session has to be told after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notice {
    /// Whom to tell.
    pub(crate) session: Session,
    /// About which of its claims or leases.
    pub(crate) owner: Box<str>,
    /// What.
    pub(crate) what: What,
}

/// The content of a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "local", derive(serde::Serialize, serde::Deserialize))]
pub(crate) enum What {
    /// Ask again: the time that was named no longer holds.
    AskAgain,
    /// The claim is granted.
    Granted { fence: u64, after: Nanos },
    /// The lease is over.
    Lost { fence: u64, loss: Loss },
}

/// The owner holds the name in a mode that does not cover the claim's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ModeConflict;

/// One request at one moment: by whom, when, with which fences, and what others are to be told.
pub(crate) struct Moment<'a> {
    pub(crate) session: Session,
    pub(crate) now: Nanos,
    pub(crate) fences: &'a mut dyn Fences,
    pub(crate) notices: &'a mut Vec<Notice>,
}

impl Ledger {
    /// Whether nothing is worth keeping.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.line.is_empty()
    }

    /// Decides a claim. Everybody whose turn has come by `now` goes in first.
    pub(crate) fn acquire(
        &mut self,
        claim: &Claim,
        at: &mut Moment<'_>,
    ) -> Result<Answer, ModeConflict> {
        self.settle(at);
        let session = at.session_of(claim.life);
        if let Some(fence) = self.enter_again(claim, session, at.now)? {
            return Ok(Answer::Granted(fence));
        }
        // A claim granted while it stood in line belongs to its session only from then on.
        if let Some(place) = self.place_mut(&claim.owner, at.session) {
            place.ttl = nanos(claim.ttl);
            return Ok(self.queued(at.now));
        }
        if self.line.is_empty() && self.fits(claim.owner.as_str(), claim.mode) {
            return Ok(Answer::Granted(self.grant(Place::new(claim, at), at)));
        }
        match claim.wait {
            Wait::No => Ok(Answer::Busy),
            Wait::InLine => {
                self.line.push_back(Place::new(claim, at));
                Ok(self.queued(at.now))
            }
        }
    }

    /// Leaves the line, and lowers a grant to one less than the claim's depth.
    pub(crate) fn withdraw(&mut self, claim: &Claim, at: &mut Moment<'_>) {
        let (owner, session) = (claim.owner.as_str(), at.session_of(claim.life));
        let waiting = at.session;
        self.line.retain(|place| !place.is(owner, waiting));
        if let Some(row) = self.rows.iter_mut().find(|row| row.is(owner, session)) {
            row.depth = row.depth.min(claim.depth.saturating_sub(1));
        }
        self.rows.retain(|row| row.depth > 0);
        self.settle(at);
    }

    /// Restarts a lease.
    pub(crate) fn renew(&mut self, renewal: &Renewal, at: &mut Moment<'_>) -> Renewed {
        self.settle(at);
        let session = at.session_of(renewal.life);
        match self.held(&renewal.owner, session, renewal.fence) {
            Ok(row) => {
                row.ends = at.now.saturating_add(nanos(renewal.ttl));
                Renewed::Kept(row.fence())
            }
            Err(loss) => Renewed::Lost(loss),
        }
    }

    /// Lowers or frees a lease.
    pub(crate) fn release(&mut self, release: &Release, at: &mut Moment<'_>) -> Released {
        self.settle(at);
        let session = at.session_of(release.life);
        let row = match self.held(&release.owner, session, release.fence) {
            Ok(row) => row,
            Err(loss) => return Released::NotHeld(loss),
        };
        if release.depth > 0 {
            row.depth = row.depth.min(release.depth);
            return Released::Lowered;
        }
        if release.keep.is_zero() {
            row.depth = 0;
            self.rows.retain(|row| row.depth > 0);
        } else {
            row.session = NOBODY;
            row.depth = 1;
            row.ends = at.now.saturating_add(nanos(release.keep));
            self.tell_first_to_ask_again(at.notices);
        }
        self.settle(at);
        Released::Freed
    }

    /// Takes the name away from its holders, and returns them.
    pub(crate) fn evict(&mut self, at: &mut Moment<'_>) -> Vec<Holder> {
        self.settle(at);
        let evicted = self.holders(at.now);
        for row in self.rows.drain(..) {
            let what = What::Lost {
                fence: row.fence,
                loss: Loss::Evicted,
            };
            at.notices.push(Notice {
                session: row.session,
                owner: row.owner,
                what,
            });
        }
        // Moves on even if nobody is next: a resource that learns of the eviction can refuse all
        // fences below this one.
        at.fences.reserve(1);
        self.settle(at);
        evicted
    }

    /// Forgets a session that has ended; returns whether it was here.
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

    /// Returns the other sessions that hold the name or stand in line for it.
    pub(crate) fn sessions_but(&self, own: Session) -> impl Iterator<Item = Session> {
        let rows = self.rows.iter().map(|row| row.session);
        let places = self.line.iter().map(|place| place.session);
        rows.chain(places)
            .filter(move |session| *session != own && *session != NOBODY)
    }

    /// Returns all sessions that hold the name or stand in line for it.
    #[cfg(feature = "local")]
    pub(crate) fn sessions(&self) -> impl Iterator<Item = Session> {
        self.sessions_but(NOBODY)
    }

    /// Whether a lease has run out that nobody has ended yet.
    #[cfg(feature = "local")]
    pub(crate) fn is_due(&self, now: Nanos) -> bool {
        self.rows.iter().any(|row| row.ends <= now)
    }

    /// Ends what has run out, and lets in whose turn it is.
    pub(crate) fn settle(&mut self, at: &mut Moment<'_>) {
        self.rows.retain(|row| row.ends > at.now);
        while let Some(first) = self.line.front() {
            if !self.fits(&first.owner, first.mode) {
                return;
            }
            let Some(place) = self.line.pop_front() else {
                return;
            };
            let (session, owner) = (place.session, place.owner.clone());
            let after = at.now.saturating_sub(place.asked);
            let fence = self.grant(place, at).get();
            let what = What::Granted { fence, after };
            at.notices.push(Notice {
                session,
                owner,
                what,
            });
        }
    }

    /// Lists the holders, one for each owner and client, oldest first.
    pub(crate) fn holders(&self, now: Nanos) -> Vec<Holder> {
        let alive = self.rows.iter().filter(|row| row.ends > now);
        alive
            .map(|row| Holder {
                owner: owner(&row.owner),
                mode: row.mode,
                fence: row.fence(),
                depth: row.depth,
                about: row.about.clone(),
                held: Duration::from_nanos(now.saturating_sub(row.since)),
                expires_in: Duration::from_nanos(row.ends - now),
            })
            .collect()
    }

    /// Lists the line, first to last.
    pub(crate) fn waiters(&self, now: Nanos) -> Vec<Waiter> {
        let line = self.line.iter();
        line.map(|place| Waiter {
            owner: owner(&place.owner),
            mode: place.mode,
            about: place.about.clone(),
            waited: Duration::from_nanos(now.saturating_sub(place.asked)),
        })
        .collect()
    }

    /// Grants a claim of an owner that holds the name already, here or in another client.
    fn enter_again(
        &mut self,
        claim: &Claim,
        session: Session,
        now: Nanos,
    ) -> Result<Option<Fence>, ModeConflict> {
        let owner = claim.owner.as_str();
        let Some(mine) = self.rows.iter().find(|row| &*row.owner == owner) else {
            return Ok(None);
        };
        if !covers(mine.mode, claim.mode) {
            return Err(ModeConflict);
        }
        let (mode, fence, ends) = (
            mine.mode,
            mine.fence(),
            now.saturating_add(nanos(claim.ttl)),
        );
        match self.rows.iter_mut().find(|row| row.is(owner, session)) {
            Some(row) => {
                row.depth = claim.depth;
                row.ends = ends;
            }
            None => self.rows.push(Row {
                owner: owner.into(),
                session,
                mode,
                depth: claim.depth,
                fence: fence.get(),
                since: now,
                ends,
                about: claim.about.clone(),
            }),
        }
        Ok(Some(fence))
    }

    fn grant(&mut self, place: Place, at: &mut Moment<'_>) -> Fence {
        let fence = at.fences.reserve(place.fences.max(1));
        self.rows.push(Row {
            owner: place.owner,
            session: if place.bound { place.session } else { NOBODY },
            mode: place.mode,
            depth: place.depth,
            fence: fence.get(),
            since: at.now,
            ends: at.now.saturating_add(place.ttl),
            about: place.about,
        });
        fence
    }

    /// Whether the mode goes together with what other owners hold.
    fn fits(&self, owner: &str, mode: Mode) -> bool {
        let mut others = self.rows.iter().filter(|row| &*row.owner != owner);
        match mode {
            Mode::Exclusive => others.next().is_none(),
            Mode::Shared => others.all(|row| row.mode == Mode::Shared),
            Mode::Permits { take, of } => {
                let mut seen: Vec<&str> = Vec::new();
                let (mut taken, mut limit) = (take, of);
                for row in others {
                    let Mode::Permits { take, of } = row.mode else {
                        return false;
                    };
                    // Two clients that share an owner share its permits.
                    if !seen.contains(&&*row.owner) {
                        seen.push(&row.owner);
                        taken = taken.saturating_add(take);
                    }
                    limit = limit.min(of);
                }
                taken <= limit
            }
        }
    }

    /// The owner's row of this session and this grant, or why it has none.
    fn held(
        &mut self,
        owner: &Owner,
        session: Session,
        fence: Option<Fence>,
    ) -> Result<&mut Row, Loss> {
        let others = self.rows.iter().any(|row| &*row.owner != owner.as_str());
        let mut rows = self.rows.iter_mut();
        let mine = rows.find(|row| {
            row.is(owner.as_str(), session) && fence.is_none_or(|fence| fence == row.fence())
        });
        mine.ok_or(if others { Loss::TakenOver } else { Loss::Gone })
    }

    fn place_mut(&mut self, owner: &Owner, session: Session) -> Option<&mut Place> {
        self.line
            .iter_mut()
            .find(|place| place.is(owner.as_str(), session))
    }

    /// The answer to a claim in line: the first lease that may end by itself names the time.
    fn queued(&self, now: Nanos) -> Answer {
        let ends = self.rows.iter().map(|row| row.ends).min().unwrap_or(now);
        Answer::Queued {
            ask_again: Duration::from_nanos(ends.saturating_sub(now)),
        }
    }

    fn tell_first_to_ask_again(&self, notices: &mut Vec<Notice>) {
        if let Some(first) = self.line.front() {
            let (session, owner) = (first.session, first.owner.clone());
            notices.push(Notice {
                session,
                owner,
                what: What::AskAgain,
            });
        }
    }
}

impl Row {
    fn is(&self, owner: &str, session: Session) -> bool {
        self.session == session && &*self.owner == owner
    }

    fn fence(&self) -> Fence {
        // A row is only made with a fence; a damaged zero reads as the smallest.
        Fence::new(self.fence.max(1)).unwrap_or_else(|| unreachable!("at least 1"))
    }
}

impl Place {
    fn new(claim: &Claim, at: &Moment<'_>) -> Self {
        Self {
            owner: claim.owner.as_str().into(),
            session: at.session,
            bound: claim.life == Life::Client,
            mode: claim.mode,
            depth: claim.depth,
            fences: claim.fences,
            ttl: nanos(claim.ttl),
            asked: at.now,
            about: claim.about.clone(),
        }
    }

    fn is(&self, owner: &str, session: Session) -> bool {
        self.session == session && &*self.owner == owner
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

/// Turns a notice into news for its session.
pub(crate) fn news(name: Name, owner_text: &str, what: What) -> crate::driver::News {
    use crate::driver::News;
    let owner = owner(owner_text);
    let smallest = Fence::new(1).unwrap_or_else(|| unreachable!("1 is not 0"));
    match what {
        What::AskAgain => News::AskAgain(Some(name)),
        What::Granted { fence, after } => News::Granted {
            name,
            owner,
            fence: Fence::new(fence).unwrap_or(smallest),
            after: Duration::from_nanos(after),
        },
        What::Lost { fence, loss } => News::Lost {
            name,
            owner,
            fence: Fence::new(fence).unwrap_or(smallest),
            loss,
        },
    }
}

/// Whether a holder in one mode may enter again in another.
fn covers(held: Mode, asked: Mode) -> bool {
    held == asked || (held == Mode::Exclusive && asked == Mode::Shared)
}

/// An owner of the store's own text, which was checked when it came in.
fn owner(text: &str) -> Owner {
    Owner::named(text).unwrap_or_else(|_| Owner::unique())
}

fn nanos(duration: Duration) -> Nanos {
    u64::try_from(duration.as_nanos()).unwrap_or(Nanos::MAX)
}

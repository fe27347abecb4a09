//! Support for stores that keep ledgers in a database: a lone holder as columns, and each claim's place in
//! line.

#[cfg(any(feature = "mysql", feature = "postgres"))]
use crate::driver::Loss;
use crate::driver::{About, Mode};
use crate::name::{ClaimId, Fence};
use crate::store::ledger::{Ledger, NOBODY, Nanos, Row, Session};

/// An exclusive holder without waiters: the usual case, which needs no list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoneHolder {
    pub(crate) claim: Box<str>,
    pub(crate) owner: Option<Box<str>>,
    pub(crate) session: Session,
    pub(crate) fence: u64,
    pub(crate) fences: u32,
    pub(crate) since: Nanos,
    pub(crate) ends: Nanos,
    pub(crate) tells: bool,
    pub(crate) about: About,
}

/// The state of a client's claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It holds the name.
    Holds {
        fence: Fence,
        fences: u32,
        since: Nanos,
        ends: Nanos,
        /// Whether to tell its client when somebody else wants the name; cleared once told.
        tells: bool,
    },
    /// It waits in line behind this many others, and was told to ask again at this time.
    Waits { behind: usize, asks: Nanos },
    /// Neither.
    Absent,
}

impl Ledger {
    /// Makes the ledger of a lone holder.
    pub(crate) fn of_lone_holder(holder: LoneHolder) -> Self {
        let row = Row {
            claim: holder.claim,
            owner: holder.owner,
            session: holder.session,
            mode: Mode::Exclusive,
            released: false,
            fence: holder.fence,
            fences: holder.fences,
            since: holder.since,
            ends: holder.ends,
            tells: holder.tells,
            about: holder.about,
        };
        Self {
            rows: vec![row],
            ..Self::default()
        }
    }

    /// Returns the lone holder, if the ledger contains nothing else.
    pub(crate) fn lone_holder(&self) -> Option<LoneHolder> {
        let [row] = self.rows.as_slice() else {
            return None;
        };
        if !self.line.is_empty() || row.released || row.mode != Mode::Exclusive {
            return None;
        }
        self.first_holder()
    }

    /// Returns the first holder, for people who inspect the table.
    pub(crate) fn first_holder(&self) -> Option<LoneHolder> {
        let row = self.rows.first()?;
        Some(LoneHolder {
            claim: row.claim.clone(),
            owner: row.owner.clone(),
            session: row.session,
            fence: row.fence,
            fences: row.fences,
            since: row.since,
            ends: row.ends,
            tells: row.tells,
            about: row.about.clone(),
        })
    }

    /// Returns when the last lease ends, if there is one.
    pub(crate) fn last_end(&self) -> Option<Nanos> {
        self.rows.iter().map(|row| row.ends).max()
    }

    /// Returns when the lease of a claim ends, whichever client has it, or why there is none.
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    pub(crate) fn end_of(&self, claim: &ClaimId, fence: Fence) -> Result<Nanos, Loss> {
        let is_of = |row: &&Row| !row.released && &*row.claim == claim.as_str();
        let mine = self
            .rows
            .iter()
            .find(|row| is_of(row) && row.fence() == fence);
        match mine {
            Some(row) => Ok(row.ends),
            None if self.rows.is_empty() => Err(Loss::Gone),
            None => Err(Loss::TakenOver),
        }
    }

    /// Returns the sessions of the claims in line, first to last.
    pub(crate) fn waiting_sessions(&self) -> impl Iterator<Item = Session> {
        self.line.iter().map(|place| place.session)
    }

    /// Removes the claims of a client that has ended from the line; its leases continue.
    pub(crate) fn leave_line(&mut self, gone: Session) {
        self.line.retain(|place| place.session != gone);
    }

    /// Shortens a lease that was just handed over to a client, until it is renewed.
    ///
    /// The first in line has to ask again when such a lease ends, but it is not told: that would cost a
    /// message for each hand-over, and hardly any of these is needed. It finds out when it looks.
    pub(crate) fn shorten(&mut self, claim: &str, session: Session, ends: Nanos) -> bool {
        let mut rows = self.rows.iter_mut();
        let Some(row) = rows.find(|row| row.is(claim, session) && row.ends > ends) else {
            return false;
        };
        row.ends = ends;
        if let Some(first) = self.line.front_mut() {
            first.asks = first.asks.min(ends);
        }
        true
    }

    /// Returns the state of a client's claim.
    pub(crate) fn standing(&self, claim: &ClaimId, session: Session) -> Standing {
        let claim = claim.as_str();
        let mut rows = self.rows.iter();
        if let Some(row) = rows.find(|row| row.is(claim, session) || row.is(claim, NOBODY)) {
            return Standing::Holds {
                fence: row.fence(),
                fences: row.fences.max(1),
                since: row.since,
                ends: row.ends,
                tells: row.tells,
            };
        }
        let mut line = self.line.iter().enumerate();
        match line.find(|(_, place)| place.is(claim, session)) {
            Some((behind, place)) => Standing::Waits {
                behind,
                asks: place.asks,
            },
            None => Standing::Absent,
        }
    }
}

//! The rules of one name on a voting server, for simulations.
//!
//! They are those of `redis/scripts/acquire.lua` for a client that asks for a vote. Numbers follow the
//! server's clock and the clients' proposals. A lease that is handed over is short until its new
//! holder confirms it by asking again.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::driver::{Answer, Claim, Life, Wait};
use crate::name::Fence;
use crate::store::ledger::{
    Fences, Ledger, ModeConflict, Moment, NOBODY, Nanos, Notice, Place, Row, Session, What,
    call_back, nanos,
};
use crate::store::vote::Number;

/// Who holds one name on one server, who waits for it, and the last number that the server assigned.
#[derive(Debug, Clone, Default)]
pub(crate) struct VotingLedger {
    pub(crate) ledger: Ledger,
    pub(crate) last: u64,
    /// The number of each owner's grant: the largest that one of its claims has won since the first of
    /// them was granted.
    grants: BTreeMap<Box<str>, u64>,
}

/// The context of one request: the client, the time, and the notices to send.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) session: Session,
    pub(crate) now: Nanos,
    /// How long a lease lasts that was handed over but not confirmed.
    pub(crate) hand_over: Duration,
    pub(crate) notices: Vec<Notice>,
}

/// Assigns numbers as a voting server does.
struct Numbers {
    last: u64,
    least: u64,
    /// The number that won the vote, if one did.
    won: Option<Fence>,
}

impl Fences for Numbers {
    fn reserve(&mut self, count: u32) -> Fence {
        let first = match self.won {
            Some(won) => won.get(),
            None => self.least.max(self.last + 1),
        };
        self.last = self.last.max(first + u64::from(count) - 1);
        Fence::new(first).unwrap_or_else(|| unreachable!("at least 1"))
    }
}

impl VotingLedger {
    /// Votes on a claim; returns the answer, and whether the claim joined others of its owner.
    pub(crate) fn vote(
        &mut self,
        claim: &Claim,
        number: Number,
        turn: &mut Turn,
    ) -> Result<(Answer, bool), ModeConflict> {
        self.let_in(Some(claim), turn);
        let had = self.row(claim, turn).is_some();
        let answer = match number {
            Number::AtLeast(_) => {
                let answer = self.run(claim, turn, number, |ledger, at| ledger.acquire(claim, at));
                if had && claim.life == Life::Client {
                    self.number_anew(claim, turn, number);
                }
                answer?
            }
            Number::Exactly(won) => self.write_down(claim, won, turn)?,
        };
        Ok(match (answer, self.row(claim, turn)) {
            (Answer::Granted(_), Some(row)) => {
                let row = &self.ledger.rows[row];
                (Answer::Granted(row.grant(claim.ttl)), row.fences == 0)
            }
            (Answer::Queued { ask_again }, _) => {
                let ask_again = ask_again.map(|time| time.min(turn.hand_over));
                (Answer::Queued { ask_again }, false)
            }
            (answer, _) => (answer, false),
        })
    }

    /// Grants claims whose turn has come; `own`, if given, learns of its grant from the answer.
    pub(crate) fn let_in(&mut self, own: Option<&Claim>, turn: &mut Turn) {
        let own = own.map(|claim| claim.id.as_str());
        self.run_for(own, turn, Number::AtLeast(0), |ledger, at| {
            ledger.let_in(at)
        });
    }

    /// Changes the ledger; claims that are granted by the change have to confirm their leases.
    pub(crate) fn change<T>(
        &mut self,
        turn: &mut Turn,
        change: impl FnOnce(&mut Ledger, &mut Moment<'_>) -> T,
    ) -> T {
        self.run_for(None, turn, Number::AtLeast(0), change)
    }

    fn run<T>(
        &mut self,
        own: &Claim,
        turn: &mut Turn,
        number: Number,
        change: impl FnOnce(&mut Ledger, &mut Moment<'_>) -> T,
    ) -> T {
        self.run_for(Some(own.id.as_str()), turn, number, change)
    }

    fn run_for<T>(
        &mut self,
        own: Option<&str>,
        turn: &mut Turn,
        number: Number,
        change: impl FnOnce(&mut Ledger, &mut Moment<'_>) -> T,
    ) -> T {
        let now_us = turn.now / 1000;
        let (least, won) = match number {
            Number::AtLeast(least) => (least.max(now_us), None),
            Number::Exactly(won) => (now_us, Some(won)),
        };
        let mut numbers = Numbers {
            last: self.last,
            least,
            won,
        };
        let mut notices = Vec::new();
        let mut at = Moment {
            session: turn.session,
            now: turn.now,
            fences: &mut numbers,
            notices: &mut notices,
        };
        let before = self.ledger.rows.clone();
        let output = change(&mut self.ledger, &mut at);
        let said = std::mem::take(at.notices);
        for mut notice in said {
            if matches!(notice.what, What::Granted { .. }) {
                if Some(&*notice.claim) == own {
                    // The answer tells this claim.
                    continue;
                }
                let ends = turn.now.saturating_add(nanos(turn.hand_over));
                let new = self.ledger.rows.iter_mut().find(|row| {
                    row.is(&notice.claim, notice.session) || row.is(&notice.claim, NOBODY)
                });
                if let Some(row) = new {
                    row.ends = row.ends.min(ends);
                }
                notice.what = What::AskAgain;
            }
            turn.notices.push(notice);
        }
        self.ledger.call_first(&mut at);
        self.last = numbers.last;
        self.number_joined(&before);
        turn.notices.append(&mut notices);
        output
    }

    /// Gives claims that joined others of their owner the number of that owner's grant.
    fn number_joined(&mut self, before: &[Row]) {
        let rows = &mut self.ledger.rows;
        // A claim that is granted after all others of its owner have left gets a new grant.
        self.grants.retain(|owner, _| {
            let mut stayed = before.iter().filter(|old| old.is_of(owner));
            stayed.any(|old| rows.iter().any(|row| row.is(&old.claim, old.session)))
        });
        for row in rows.iter_mut().filter(|row| !row.released) {
            let Some(owner) = row.owner.clone() else {
                continue;
            };
            let grant = *self.grants.entry(owner).or_insert(row.fence);
            if !before.iter().any(|old| old.is(&row.claim, row.session)) {
                row.fence = row.fence.max(grant);
            }
        }
    }

    fn number(&mut self, mine: usize, fence: u64) {
        let row = &mut self.ledger.rows[mine];
        row.fence = fence;
        if let Some(owner) = &row.owner {
            let grant = self.grants.entry(owner.clone()).or_insert(fence);
            *grant = (*grant).max(fence);
        }
    }

    /// Assigns a new number to the lease of a claim that asks again.
    ///
    /// The lease was handed over before others got their numbers, and its number has not won yet.
    /// Claims that share a grant have its number.
    fn number_anew(&mut self, claim: &Claim, turn: &mut Turn, number: Number) {
        let Some(mine) = self.row(claim, turn) else {
            return;
        };
        let owner = self.ledger.rows[mine].owner.clone();
        let grant = owner.as_deref().and_then(|owner| {
            let of_owner = self.ledger.rows.iter().filter(|row| row.is_of(owner));
            self.grants.get(owner).filter(|_| of_owner.count() > 1)
        });
        let fence = match grant {
            Some(grant) => *grant,
            None => self.run(claim, turn, number, |_, at| {
                at.fences.reserve(claim.fences.max(1)).get()
            }),
        };
        self.number(mine, fence);
    }

    /// Grants a claim with the number that won the vote, unless the server has assigned that number or
    /// a larger one to others.
    fn write_down(
        &mut self,
        claim: &Claim,
        won: Fence,
        turn: &mut Turn,
    ) -> Result<Answer, ModeConflict> {
        let ends = turn.now.saturating_add(nanos(claim.ttl));
        let owner = claim.owner.as_ref().map(|owner| owner.as_str());
        let grant = owner.and_then(|owner| {
            let held = self.ledger.mode_of(owner)?;
            Some((held, *self.grants.get(owner)?))
        });
        let waits = |place: &Place| place.is(claim.id.as_str(), turn.session);
        let is_free =
            self.ledger.line.is_empty() && self.ledger.fits(claim.mode) && self.last < won.get();
        let (id, session) = (claim.id.as_str(), turn.session);
        let is_granted = match (self.row(claim, turn), grant) {
            (Some(mine), _) => {
                let row = &mut self.ledger.rows[mine];
                let is_ours = row.fence <= won.get();
                if is_ours {
                    row.ends = ends;
                }
                is_ours
            }
            (None, Some((held, fence))) if held.covers(claim.mode) => {
                let is_ours = fence <= won.get();
                if is_ours {
                    self.ledger.line.retain(|place| !place.is(id, session));
                    self.run(claim, turn, Number::Exactly(won), |ledger, at| {
                        ledger.grant(Place::new(claim, at), at)
                    });
                }
                is_ours
            }
            (None, Some(_)) if !self.ledger.line.iter().any(waits) => return Err(ModeConflict),
            (None, _) if is_free => {
                self.run(claim, turn, Number::Exactly(won), |ledger, at| {
                    ledger.grant(Place::new(claim, at), at)
                });
                true
            }
            (None, _) => {
                self.run(claim, turn, Number::AtLeast(0), |ledger, at| {
                    let refused = at.session;
                    call_back(&mut ledger.rows, |holder| holder != refused, at);
                });
                false
            }
        };
        debug_assert_eq!(claim.wait, Wait::No, "who has won does not stand in line");
        let Some(mine) = self.row(claim, turn).filter(|_| is_granted) else {
            return Ok(Answer::Busy);
        };
        self.number(mine, won.get());
        let block = won.get() + u64::from(claim.fences.max(1)) - 1;
        self.last = self.last.max(block);
        Ok(Answer::Granted(self.ledger.rows[mine].grant(claim.ttl)))
    }

    /// Returns the index of a claim's lease.
    fn row(&self, claim: &Claim, turn: &Turn) -> Option<usize> {
        let session = match claim.life {
            Life::Client => turn.session,
            Life::Ttl => NOBODY,
        };
        let mut rows = self.ledger.rows.iter();
        rows.position(|row| row.is(claim.id.as_str(), session))
    }
}

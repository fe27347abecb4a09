//! Random requests: what follows from the rows is what the ledger decides.

use std::time::Duration;

use proptest::prelude::*;

use super::judge::{Row, Verdict, judge, verdict};
use crate::driver::{Answer, Claim, Mode, Release, Wait};
use crate::name::{ClaimId, Fence, Name, Owner};
use crate::store::ledger::{Fences, Ledger, Moment};

/// One request of a random sequence.
#[derive(Debug, Clone, Copy)]
enum Step {
    Acquire {
        owner: Option<u64>,
        mode: Mode,
        wait: Wait,
    },
    /// Releases or withdraws the claim that was made as this one, counted round and round.
    Leave(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let mode = prop_oneof![
        Just(Mode::Exclusive),
        Just(Mode::Shared),
        (1..4_u32, 1..5_u32).prop_map(|(take, of)| Mode::Permits {
            take: take.min(of),
            of
        }),
    ];
    let wait = prop_oneof![Just(Wait::No), Just(Wait::InLine)];
    let owner = prop_oneof![Just(None), (0..3_u64).prop_map(Some)];
    let acquire =
        (owner, mode, wait).prop_map(|(owner, mode, wait)| Step::Acquire { owner, mode, wait });
    let leave = (0..8_usize).prop_map(Step::Leave);
    prop::collection::vec(prop_oneof![3 => acquire, 2 => leave], 1..40)
}

/// A store whose rows are all that it has, and clients that do at once what they find they may.
#[derive(Default)]
struct Rows {
    rows: Vec<(Row, ClaimId)>,
    next: i64,
}

/// What a request comes to.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    Busy,
    Conflict,
    Granted,
    Queued,
}

impl Rows {
    fn plain(&self) -> Vec<Row> {
        self.rows.iter().map(|(row, _)| row.clone()).collect()
    }

    fn verdict(&self, id: &ClaimId) -> Option<Verdict> {
        let index = self.rows.iter().position(|(_, known)| known == id)?;
        let rows = self.plain();
        Some(verdict(&rows, judge(&rows), index))
    }

    fn remove(&mut self, id: &ClaimId) {
        self.rows.retain(|(_, known)| known != id);
    }

    /// Moves a row beside one of the same owner.
    fn join(&mut self, id: &ClaimId, mate: usize) {
        let Row { place, mode, .. } = self.rows[mate].0;
        for (row, known) in &mut self.rows {
            if known == id {
                (row.place, row.mode) = (place, mode);
            }
        }
        self.rows.sort_by_key(|(row, _)| row.place);
    }

    /// Every client that may join does.
    fn settle(&mut self) {
        loop {
            let ids: Vec<_> = self.rows.iter().map(|(_, id)| id.clone()).collect();
            let joining = ids.into_iter().find_map(|id| match self.verdict(&id) {
                Some(Verdict::Joins(mate)) => Some((id, mate)),
                _ => None,
            });
            match joining {
                Some((id, mate)) => self.join(&id, mate),
                None => return,
            }
        }
    }

    fn acquire(&mut self, claim: &Claim, owner: Option<u64>) -> Said {
        self.next += 1;
        let row = Row {
            place: self.next,
            owner,
            mode: claim.mode,
            is_nobodys: false,
        };
        self.rows.push((row, claim.id.clone()));
        match self.verdict(&claim.id) {
            Some(Verdict::Holds) => Said::Granted,
            Some(Verdict::Joins(mate)) => {
                self.join(&claim.id, mate);
                Said::Granted
            }
            Some(Verdict::Waits {
                conflict: Some(_), ..
            }) => {
                self.remove(&claim.id);
                Said::Conflict
            }
            _ if claim.wait == Wait::No => {
                self.remove(&claim.id);
                Said::Busy
            }
            _ => Said::Queued,
        }
    }

    fn holders(&self) -> Vec<String> {
        let holders = judge(&self.plain());
        sorted(self.rows[..holders].iter().map(|(_, id)| id.to_string()))
    }

    fn line(&self) -> Vec<String> {
        let holders = judge(&self.plain());
        let line = self.rows[holders..].iter();
        line.map(|(_, id)| id.to_string()).collect()
    }
}

fn sorted(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut texts: Vec<_> = texts.collect();
    texts.sort();
    texts
}

#[derive(Default)]
struct Count(u64);

impl Fences for Count {
    fn reserve(&mut self, count: u32) -> Fence {
        let first = self.0 + 1;
        self.0 += u64::from(count);
        Fence::new(first).expect("at least 1")
    }
}

proptest! {
    #[test]
    fn the_rows_say_what_the_ledger_decides(steps in steps()) {
        let (mut ledger, mut rows) = (Ledger::default(), Rows::default());
        let mut fences = Count::default();
        let name = Name::new("a").expect("a name");
        let mut claims: Vec<Claim> = Vec::new();
        for step in steps {
            let mut notices = Vec::new();
            let mut at = Moment { session: 1, now: 1, fences: &mut fences, notices: &mut notices };
            match step {
                Step::Acquire { owner, mode, wait } => {
                    let named = owner.map(|n| Owner::named(&format!("owner-{n}")).expect("an owner"));
                    let claim = Claim::new(name.clone(), Duration::from_secs(1000))
                        .with_owner(named)
                        .with_mode(mode)
                        .with_wait(wait);
                    let expected = match ledger.acquire(&claim, &mut at) {
                        Ok(Answer::Granted(_)) => Said::Granted,
                        Ok(Answer::Queued { .. }) => Said::Queued,
                        Ok(Answer::Busy) => Said::Busy,
                        Err(_) => Said::Conflict,
                    };
                    prop_assert_eq!(rows.acquire(&claim, owner), expected);
                    claims.push(claim);
                }
                Step::Leave(n) if !claims.is_empty() => {
                    let claim = claims.remove(n % claims.len());
                    ledger.release(&Release::of(&claim), &mut at);
                    ledger.withdraw(&claim, &mut at);
                    rows.remove(&claim.id);
                }
                Step::Leave(_) => {}
            }
            rows.settle();
            let entry = ledger.entry(name.clone(), 1);
            let holders = sorted(entry.holders.iter().map(|holder| holder.claim.to_string()));
            prop_assert_eq!(rows.holders(), holders);
            let line: Vec<_> = entry.waiters.iter().map(|waiter| waiter.claim.to_string()).collect();
            prop_assert_eq!(rows.line(), line);
        }
    }
}

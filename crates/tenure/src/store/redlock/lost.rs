//! A vote that was not won: refused, in line, split, or too few nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::driver::{Answer, Claim, Life, Wait};
use crate::error::{Error, Result};
use crate::name::Owner;
use crate::random::fraction;
use crate::store::redlock::claims::Before;
use crate::store::redlock::fault::{indeterminate, too_few, unavailable, why};
use crate::store::redlock::group::{Group, Outcome};
use crate::store::redlock::node::Node;
use crate::store::redlock::round::Round;
use crate::store::redlock::tally::Tally;
use crate::store::redlock::tie::Standing;

impl Group {
    /// What to do after a vote that was not won.
    pub(crate) async fn lost(
        self: &Arc<Self>,
        claim: &Arc<Claim>,
        tally: &Tally,
        before: Before,
    ) -> Result<Outcome> {
        if !tally.conflicts.is_empty() {
            self.undo(claim, &tally.answered()).await;
            let name = claim.name.clone();
            return Err(Error::ModeConflict { name });
        }
        if is_outdated(claim, tally) {
            return Ok(Outcome::Over(self.give_way(claim, tally).await));
        }
        if tally.is_short(self.majority) {
            let missing = self.missing(tally);
            if !before.is_new && claim.wait == Wait::InLine {
                // It keeps the places that it has; the engine asks again.
                return Err(indeterminate(missing));
            }
            self.undo(claim, &tally.answered()).await;
            return Err(unavailable(missing));
        }
        if tally.granted.is_empty() {
            if claim.wait == Wait::No {
                self.undo(claim, &tally.answered()).await;
                return Ok(Outcome::Over(Answer::Busy));
            }
            return Ok(Outcome::Over(stands(claim, tally)));
        }
        let is_first = self.is_before_others(claim, tally).await;
        match (claim.wait, is_first) {
            (Wait::No, Some(true)) => Ok(Outcome::Split(A_MOMENT.mul_f64(1.0 + fraction()))),
            (Wait::No, _) => {
                self.undo(claim, &tally.answered()).await;
                Ok(Outcome::Over(Answer::Busy))
            }
            (Wait::InLine, Some(true)) if self.claims.stay(&claim.id) <= self.ties.most_stays() => {
                let soon = A_MOMENT.mul_f64(2.0 + 4.0 * fraction());
                Ok(Outcome::Over(queued(soon)))
            }
            (Wait::InLine, None) => Ok(Outcome::Over(stands(claim, tally))),
            (Wait::InLine, Some(_)) => Ok(Outcome::Over(self.give_way(claim, tally).await)),
        }
    }

    /// Leaves all nodes to others for a random while.
    async fn give_way(self: &Arc<Self>, claim: &Arc<Claim>, tally: &Tally) -> Answer {
        let until = self.clock.now() + claim.ttl;
        let times = self.claims.give_way(&claim.id, until);
        self.withdraw_all(claim, &tally.answered()).await;
        let longest = A_MOMENT * 2u32.saturating_pow(times.min(8));
        queued(A_MOMENT + longest.mul_f64(fraction()))
    }

    /// Looks who holds which nodes, after a vote that some of them were won in.
    ///
    /// `None` if another has a majority; else whether this claim is first among those who hold nodes.
    async fn is_before_others(self: &Arc<Self>, claim: &Claim, tally: &Tally) -> Option<bool> {
        let answered = tally.answered().len();
        let name = &claim.name;
        let list = |_, node: Arc<dyn Node>| {
            let name = name.clone();
            async move { node.list(Some(&name)).await }
        };
        let enough =
            |answers: &[Option<Result<_>>]| answers.iter().flatten().flatten().count() >= answered;
        let round = self.ask(list, enough).await;
        let own = Owner::shown(claim.owner_text());
        let mut others: BTreeMap<&Owner, usize> = BTreeMap::new();
        let mut nodes = Vec::new();
        for entries in round.answers.iter().flatten().flatten() {
            let holders = entries.iter().flat_map(|entry| &entry.holders);
            let (ours, theirs): (Vec<_>, Vec<_>) = holders.partition(|holder| holder.owner == own);
            // Claims of one owner hold a node together.
            let owners: BTreeSet<_> = theirs.iter().map(|holder| &holder.owner).collect();
            for owner in owners {
                *others.entry(owner).or_default() += 1;
            }
            nodes.push(Standing {
                ours: !ours.is_empty(),
                others: theirs,
            });
        }
        let is_first = self.ties.is_first(&claim.id, &nodes);
        let is_lost = others.values().any(|count| *count >= self.majority);
        round.finish(&self.background, |_, _| std::future::ready(()));
        (!is_lost).then_some(is_first)
    }

    /// Why too few nodes count.
    pub(crate) fn missing(&self, tally: &Tally) -> String {
        let failed = tally
            .failed
            .iter()
            .map(|(node, why)| (self.place(*node), why.clone()));
        let young = tally.young.iter().map(|(node, left)| {
            let seconds = left.as_secs() + 1;
            let why = format!(
                "has started lately and may have forgotten leases, it counts again in {seconds} s \
                 (restart_delay)"
            );
            (self.place(*node), why)
        });
        let others: Vec<_> = failed.chain(young).collect();
        let all = self.nodes.len();
        too_few(all - others.len(), all, self.majority, &others)
    }

    /// Why too few nodes did as they were told.
    pub(crate) fn failure<T>(&self, round: &Round<T>) -> String {
        let failed = round.answers.iter().enumerate();
        let failed = failed.filter_map(|(node, answer)| {
            let error = answer.as_ref()?.as_ref().err()?;
            Some((self.place(node), why(error)))
        });
        let (failed, all) = (failed.collect::<Vec<_>>(), self.nodes.len());
        too_few(all - failed.len(), all, self.majority, &failed)
    }
}

/// Whether nodes count by now, but not what they have granted: it is from before. A lease of no client
/// is not numbered anew when it is asked for again, so it has to be withdrawn and granted anew.
fn is_outdated(claim: &Claim, tally: &Tally) -> bool {
    claim.life == Life::Ttl
        && claim.wait == Wait::InLine
        && tally.young.iter().any(|(_, left)| left.is_zero())
}

/// A place in line, to be asked for again at the first time that a node named.
fn stands(claim: &Claim, tally: &Tally) -> Answer {
    let times = tally.queued.iter().filter_map(|(_, time)| *time);
    let soonest = times.min().unwrap_or(claim.ttl);
    if tally.takers().is_empty() {
        return queued(soonest);
    }
    // What it has of the nodes meanwhile must not run out.
    queued(soonest.min(claim.ttl / 3))
}

fn queued(ask_again: Duration) -> Answer {
    Answer::Queued {
        ask_again: Some(ask_again),
    }
}

/// A little longer than it takes to ask all nodes.
const A_MOMENT: Duration = Duration::from_millis(2);

//! The vote on a claim: ask all nodes, count their votes, then settle and report the outcome.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::{Tick, safe};
use crate::driver::{Answer, Claim, Entry, Grant, Life, News, Renewal, Renewed, Wait};
use crate::error::{Error, Result};
use crate::name::{Fence, Owner};
use crate::store::redlock::claims::Asked;
use crate::store::redlock::cleanup::{Cleanup, not_waiting};
use crate::store::redlock::clocks::Clocks;
use crate::store::redlock::fault::{indeterminate, unavailable};
use crate::store::redlock::node::Node;
use crate::store::redlock::nodes::{Answers, Nodes, Round, SLOW_ANSWER, succeeded};
use crate::store::redlock::tally::{RestartRule, Tally};
use crate::store::redlock::tie::{Standing, TieRule};
use crate::store::redlock::url::Settings;
use crate::store::vote::{Number, Vote};

/// One client of all nodes together.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) cleanup: Arc<Cleanup>,
    pub(crate) settings: Settings,
    pub(crate) ties: TieRule,
    pub(crate) clocks: Clocks,
}

/// The result of one vote.
#[derive(Debug)]
enum Outcome {
    Decided(Answer),
    /// The vote was split, and this claim goes first: ask again after a moment.
    AskAgain(Duration),
}

impl Group {
    /// Holds a vote on a claim.
    pub(crate) async fn acquire(&self, claim: &Claim) -> Result<Answer> {
        let claim = Arc::new(claim.clone());
        if let Some(grant) = self.restart_lease(&claim).await? {
            return Ok(Answer::Granted(grant));
        }
        let asked = self.cleanup.claims.begin(&claim, self.nodes.clock.now());
        for _ in 0..MOST_SPLITS {
            match self.hold_vote(&claim, asked).await? {
                Outcome::Decided(answer) => return Ok(answer),
                Outcome::AskAgain(pause) => self.nodes.clock.sleep(pause).await,
            }
        }
        let all: Vec<_> = (0..self.nodes.all.len()).collect();
        self.cleanup.undo(&claim, &all).await;
        Ok(Answer::Busy)
    }

    /// Restarts the lease of a claim that already holds the name; `None` if the claim still has to win.
    async fn restart_lease(&self, claim: &Claim) -> Result<Option<Grant>> {
        let Some((held, fence)) = self.cleanup.safely_held(&claim.id) else {
            return Ok(None);
        };
        let renewal = Renewal {
            name: claim.name.clone(),
            claim: claim.id.clone(),
            fence: Some(fence),
            life: claim.life,
            ttl: claim.ttl,
        };
        // The claim holds the lock, so "nothing was changed" would be misleading.
        let renewed = self.renew(&[renewal]).await.map_err(Error::in_doubt)?;
        match renewed.first() {
            Some(Renewed::Extended { fence, valid }) => {
                let grant = Grant::new(*fence, *valid);
                Ok(Some(grant.with_fences(held.fences)))
            }
            Some(Renewed::Unknown) => Err(indeterminate(
                "too few nodes have said whether they still have the lease",
            )),
            Some(Renewed::Lost(_)) | None => Ok(None),
        }
    }

    async fn hold_vote(&self, claim: &Arc<Claim>, asked: Asked) -> Result<Outcome> {
        let sent = self.nodes.clock.now();
        // Each vote gets new numbers, but those of a lease without a client may be as old as the claim.
        let began = match claim.life {
            Life::Client => Instant::now(),
            Life::Ttl => asked.began,
        };
        let proposal = self
            .clocks
            .proposal(sent, |node| self.nodes.all[node].clock_us());
        let number = Number::AtLeast(proposal);
        let round = self.ask_until_decided(claim, number, began).await;
        self.clocks
            .learn(&round.answers, sent, self.nodes.clock.now());
        let tally = Tally::of(&round.answers, self.restart_rule(began));
        self.cleanup.watch_late_votes(round, claim, &tally);
        if tally.granted.len() < self.nodes.majority {
            return self.not_won(claim, &tally, asked).await;
        }
        let agreed = self.agree_on_fence(claim, &tally, began).await;
        // Checked after the last reply: the leases that it reports may have expired.
        if self.nodes.clock.now() >= self.safe_until(sent, claim.ttl) {
            self.cleanup.undo(claim, &tally.answered()).await;
            return Err(unavailable(format!(
                "a majority voted for the claim, but took longer than the lease lasts ({:?}): \
                 ask for a longer ttl",
                claim.ttl
            )));
        }
        match agreed {
            Ok((fence, granted)) => {
                self.record_grant(claim, fence, &granted, sent);
                for node in tally.takers() {
                    let is_fine =
                        |(other, grant): &(usize, Grant)| *other == node && grant.fence >= fence;
                    if !granted.iter().any(is_fine) {
                        self.cleanup.repair_later(node, &claim.id);
                    }
                }
                // The engine counts from before its request, and this may be a later vote.
                let valid = sent.since(asked.at) + self.settings.valid(claim.ttl);
                let grant = Grant::new(fence, valid).with_fences(fences(&granted));
                Ok(Outcome::Decided(Answer::Granted(grant)))
            }
            Err(tally) => self.not_won(claim, &tally, asked).await,
        }
    }

    /// Asks for votes until they decide.
    async fn ask_until_decided(
        &self,
        claim: &Arc<Claim>,
        number: Number,
        began: Instant,
    ) -> Round<Vote> {
        let (rule, majority) = (self.restart_rule(began), self.nodes.majority);
        let count = |answers: &Answers<Vote>| Tally::of(answers, rule);
        let unconfirmed = self.cleanup.claims.unconfirmed(&claim.id);
        let vote = |index: usize, node: Arc<dyn Node>| {
            let (cleanup, claim) = (Arc::clone(&self.cleanup), Arc::clone(claim));
            async move {
                if unconfirmed & (1 << index) != 0 {
                    // An earlier withdrawal of the claim must not undo what is granted now.
                    cleanup.withdraw_at(index, &claim).await?;
                }
                node.vote(&claim, number).await
            }
        };
        let is_decided = |answers: &Answers<Vote>| count(answers).is_decided(majority);
        let mut round = self.nodes.ask(vote, is_decided).await;
        let least = match number {
            Number::AtLeast(least) => least,
            Number::Exactly(fence) => fence.get(),
        };
        let tally = count(&round.answers);
        if tally.may_agree_later(majority, least) {
            // This does not wait for a node that does not reply at all.
            let agreed = round.until(|answers| count(answers).agreed(majority).is_some());
            self.nodes.within(SLOW_ANSWER, agreed).await;
        } else if tally.is_short(majority) {
            // Returning early gains nothing, and the error is about all nodes.
            round.until(|_| false).await;
        }
        round
    }

    /// Returns which nodes count in a vote that began at this time.
    fn restart_rule(&self, began: Instant) -> Option<RestartRule> {
        let delay = self.settings.restart_delay?;
        Some(RestartRule { delay, began })
    }

    /// Returns the fence that a majority has, and the grants with it.
    ///
    /// That is the number that a majority agrees on, or otherwise the largest one, once a majority has
    /// stored it.
    ///
    /// # Errors
    ///
    /// The votes, if no majority stored it.
    async fn agree_on_fence(
        &self,
        claim: &Arc<Claim>,
        tally: &Tally,
        began: Instant,
    ) -> Result<(Fence, Vec<(usize, Grant)>), Tally> {
        if let Some(fence) = tally.agreed(self.nodes.majority) {
            return Ok((fence, tally.granted.clone()));
        }
        let Some(largest) = tally.largest() else {
            return Err(Tally::default());
        };
        tracing::debug!(name = %claim.name, "the nodes gave different numbers, asking once more");
        let number = Number::Exactly(largest);
        let round = self
            .ask_until_decided(&not_waiting(claim), number, began)
            .await;
        let written = Tally::of(&round.answers, self.restart_rule(began));
        self.cleanup.watch_late_votes(round, claim, &written);
        match written.agreed(self.nodes.majority) {
            Some(fence) => Ok((fence, written.granted)),
            None => Err(written),
        }
    }

    fn record_grant(
        &self,
        claim: &Arc<Claim>,
        fence: Fence,
        granted: &[(usize, Grant)],
        sent: Tick,
    ) {
        let until = self.safe_until(sent, claim.ttl);
        let is_wanted = self.cleanup.claims.change(&claim.id, |held| {
            for (node, _) in granted {
                held.granted_at(*node);
            }
            held.won(claim, fence, fences(granted), until)
        });
        if is_wanted == Some(true) {
            let wanted = News::Wanted {
                name: claim.name.clone(),
                claim: claim.id.clone(),
                fence,
            };
            // A closed channel means that the client is being dropped.
            let _ = self.cleanup.tell.send((None, wanted));
        }
    }

    /// Returns until when a lease that was requested at `sent` is safely ours.
    pub(crate) fn safe_until(&self, sent: Tick, ttl: Duration) -> Tick {
        sent + safe(self.settings.valid(ttl))
    }

    /// Handles a vote that was not won: refused, in line, split, or too few nodes.
    async fn not_won(&self, claim: &Arc<Claim>, tally: &Tally, asked: Asked) -> Result<Outcome> {
        let undo = || async { self.cleanup.undo(claim, &tally.answered()).await };
        if !tally.conflicts.is_empty() {
            undo().await;
            let name = claim.name.clone();
            return Err(Error::ModeConflict { name });
        }
        if is_outdated(claim, tally) {
            return Ok(self.give_way(claim, tally).await);
        }
        if tally.is_short(self.nodes.majority) {
            let missing = self.nodes.too_few(tally.missing());
            if !asked.is_new && claim.wait == Wait::InLine {
                // The claim keeps its places in line; the engine asks again.
                return Err(indeterminate(missing));
            }
            undo().await;
            return Err(unavailable(missing));
        }
        // Without any grant, the vote is not split.
        let is_first = match tally.granted.is_empty() {
            true => None,
            false => self.is_first(claim, tally).await,
        };
        match (claim.wait, is_first) {
            (Wait::No, Some(true)) => {
                let soon = ROUND_TRIP.mul_f64(1.0 + fastrand::f64());
                Ok(Outcome::AskAgain(soon))
            }
            (Wait::No, _) => {
                undo().await;
                Ok(Outcome::Decided(Answer::Busy))
            }
            (Wait::InLine, None) => Ok(in_line(claim, tally)),
            (Wait::InLine, Some(true))
                if self.cleanup.claims.stay(&claim.id) <= self.ties.most_stays() =>
            {
                Ok(queued(ROUND_TRIP.mul_f64(2.0 + 4.0 * fastrand::f64())))
            }
            (Wait::InLine, Some(_)) => Ok(self.give_way(claim, tally).await),
        }
    }

    /// Withdraws from all nodes for a random time, longer each time.
    async fn give_way(&self, claim: &Arc<Claim>, tally: &Tally) -> Outcome {
        let times = self.cleanup.give_way(claim, &tally.answered()).await;
        let longest = ROUND_TRIP * 2u32.saturating_pow(times.min(8));
        queued(ROUND_TRIP + longest.mul_f64(fastrand::f64()))
    }

    /// Checks who holds which nodes after a split vote.
    ///
    /// Returns `None` if another claim has a majority, otherwise whether this claim is
    /// [first](TieRule::is_first).
    async fn is_first(&self, claim: &Claim, tally: &Tally) -> Option<bool> {
        let answered = tally.answered().len();
        let enough = |answers: &Answers<Vec<Entry>>| succeeded(answers) >= answered;
        let round = self.nodes.list(&claim.name, enough).await;
        let own = Owner::shown(claim.owner_text());
        let mut others: BTreeMap<&Owner, usize> = BTreeMap::new();
        let mut standings = Vec::new();
        for entries in round.answers.iter().flatten().flatten() {
            let holders = entries.iter().flat_map(|entry| &entry.holders);
            let (ours, theirs): (Vec<_>, Vec<_>) = holders.partition(|holder| holder.owner == own);
            // Claims of one owner hold a node together.
            let owners: BTreeSet<_> = theirs.iter().map(|holder| &holder.owner).collect();
            for owner in owners {
                *others.entry(owner).or_default() += 1;
            }
            standings.push(Standing {
                ours: !ours.is_empty(),
                others: theirs,
            });
        }
        let is_lost = others.values().any(|count| *count >= self.nodes.majority);
        (!is_lost).then(|| self.ties.is_first(&claim.id, &standings))
    }
}

/// Returns whether nodes count by now, but their grants are too old to count.
///
/// A lease without a client, or one that shares the number of its owner's other claims, gets no new number
/// when it is requested again. So it has to be withdrawn and granted again.
fn is_outdated(claim: &Claim, tally: &Tally) -> bool {
    let mut restarted = tally.restarted.iter();
    claim.wait == Wait::InLine && restarted.any(|(_, left)| left.is_zero())
}

/// Returns a place in line; the claim asks again at the earliest time that a node gave.
fn in_line(claim: &Claim, tally: &Tally) -> Outcome {
    let times = tally.queued.iter().filter_map(|(_, time)| *time);
    let soonest = times.min().unwrap_or(claim.ttl);
    if tally.takers().is_empty() {
        return queued(soonest);
    }
    // The grants that it has so far must not expire.
    queued(soonest.min(claim.ttl / 3))
}

fn queued(ask_again: Duration) -> Outcome {
    Outcome::Decided(Answer::Queued {
        ask_again: Some(ask_again),
    })
}

/// Returns how many fences every one of the grants has reserved.
fn fences(granted: &[(usize, Grant)]) -> u32 {
    let fences = granted.iter().map(|(_, grant)| grant.fences);
    fences.min().unwrap_or(1)
}

/// How often a claim that does not wait asks again after a split vote.
const MOST_SPLITS: usize = 20;

/// Slightly longer than it takes to ask all nodes.
const ROUND_TRIP: Duration = Duration::from_millis(2);

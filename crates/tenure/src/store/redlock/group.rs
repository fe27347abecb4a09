//! The nodes together: a claim is put to the vote, and what was decided is carried out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::clock::{Clock, Tick, safe};
use crate::driver::{Answer, Claim, Driver as _, Mode, News, Wait};
use crate::error::{Error, Result};
use crate::name::{Fence, Owner};
use crate::store::redis::hash::{Hash, Number, Vote};
use crate::store::redlock::claims::{Before, Claims, Held, Key};
use crate::store::redlock::fault::{indeterminate, too_few, unavailable, why};
use crate::store::redlock::round::{Request, Round};
use crate::store::redlock::tally::{Tally, touches};
use crate::store::redlock::url::Settings;

/// All nodes, and what this client has asked of them.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) nodes: Vec<Arc<Hash>>,
    pub(crate) majority: usize,
    pub(crate) clock: Clock,
    pub(crate) claims: Claims,
    /// What is told to this client: from a node, or by this client itself.
    pub(crate) tell: mpsc::UnboundedSender<(Option<usize>, News)>,
    settings: Settings,
    /// How far each node's clock is ahead of ours, in microseconds, as it was last seen.
    ahead_us: Vec<AtomicI64>,
    /// How much later than expected a request may arrive for its fence to be the node's own.
    slack_us: AtomicU64,
}

/// What came of a vote.
#[derive(Debug)]
enum Outcome {
    Over(Answer),
    /// Votes were split, and this claim is before the others: ask again after a moment.
    Split(Duration),
}

impl Group {
    pub(crate) fn new(
        nodes: Vec<Arc<Hash>>,
        settings: Settings,
        tell: mpsc::UnboundedSender<(Option<usize>, News)>,
    ) -> Self {
        let ahead_us = nodes.iter().map(|_| AtomicI64::new(i64::MIN)).collect();
        Self {
            majority: settings.majority(),
            nodes,
            clock: Clock::start(crate::driver::Clock::Boot),
            claims: Claims::default(),
            tell,
            settings,
            ahead_us,
            slack_us: AtomicU64::new(SHORTEST_SLACK_US),
        }
    }

    pub(crate) fn place(&self, node: usize) -> String {
        self.nodes[node].settings().place()
    }

    /// Puts a claim to the vote.
    pub(crate) async fn acquire(self: &Arc<Self>, claim: &Claim) -> Result<Answer> {
        self.check(claim)?;
        let claim = Arc::new(Claim {
            ttl: self.for_nodes(claim.ttl),
            ..claim.clone()
        });
        let now = self.clock.now();
        let before = self.claims.begin(&claim, self.nodes.len(), now);
        if before.stands && claim.wait == Wait::No {
            return Ok(Answer::Busy);
        }
        if let Some(fence) = before.fence
            && let Some(answer) = self.enter_again(&claim, fence, before).await?
        {
            return Ok(answer);
        }
        for _ in 0..LONGEST_SPLIT {
            match self.put_to_the_vote(&claim, before).await? {
                Outcome::Over(answer) => return Ok(answer),
                Outcome::Split(pause) => sleep(pause).await,
            }
        }
        let all: Vec<_> = (0..self.nodes.len()).collect();
        self.undo(&claim, &all).await;
        Ok(Answer::Busy)
    }

    fn check(&self, claim: &Claim) -> Result<()> {
        if matches!(claim.mode, Mode::Permits { .. }) {
            return Err(Error::InvalidOption {
                option: "mode",
                reason: "redlock:// has exclusive and shared locks alone: majorities of nodes \
                         that each count permits would let too many in"
                    .to_owned(),
            });
        }
        self.check_ttl(claim.ttl)
    }

    /// Refuses a lease that a node could forget and vote again before it is over.
    pub(crate) fn check_ttl(&self, ttl: Duration) -> Result<()> {
        match self.settings.restart_delay {
            Some(delay) if self.for_nodes(ttl) > delay => Err(Error::InvalidOption {
                option: "ttl",
                reason: format!(
                    "{ttl:?} is not shorter than restart_delay ({delay:?}), for which a node that \
                     has started does not count: a node could forget the lease and vote again"
                ),
            }),
            _ => Ok(()),
        }
    }

    /// How long nodes keep a lease whose holder counts on `ttl`.
    pub(crate) fn for_nodes(&self, ttl: Duration) -> Duration {
        self.settings.for_nodes(ttl)
    }

    /// Until when a lease is safely ours that was asked for at `sent`, by its ttl at the nodes.
    fn safe_until(sent: Tick, claim: &Claim) -> Tick {
        sent + safe(claim.ttl)
    }

    /// Sends all nodes a claim.
    fn ask_all(&self, claim: &Arc<Claim>, number: impl Fn(usize) -> Number) -> Round<Vote> {
        Round::new(self.nodes.iter().enumerate().map(|(index, node)| {
            let (node, claim, number) = (Arc::clone(node), Arc::clone(claim), number(index));
            let request: Request<Vote> = Box::pin(async move { node.vote(&claim, number).await });
            request
        }))
    }

    /// Restarts the lease of a claim that holds, at the depth that it asks for.
    ///
    /// `None` if a majority has it no longer, and it has to be won anew.
    async fn enter_again(
        self: &Arc<Self>,
        claim: &Arc<Claim>,
        fence: Fence,
        before: Before,
    ) -> Result<Option<Answer>> {
        let sent = self.clock.now();
        let held = self.claims.find(&Key::of(claim));
        let number = |node| held.as_ref().and_then(|held| held.number(node));
        let mut round = self.ask_all(&not_waiting(claim), |node| {
            Number::Exactly(number(node).unwrap_or(fence))
        });
        // What a node has under the number that this client knows it did not forget, however lately
        // it started.
        let count = |answers: &[_]| Tally::of(answers, None, before.doubtful);
        round
            .until(|answers| count(answers).is_decided(self.majority))
            .await;
        let tally = count(&round.answers);
        self.follow(round, claim, before.number, tally.touched);
        if tally.granted.len() >= self.majority {
            self.note_won(claim, fence, &tally.granted, sent);
            return Ok(Some(Answer::Granted(fence)));
        }
        if !tally.conflicts.is_empty() {
            return Err(conflict(claim));
        }
        if tally.answered().len() < self.majority {
            return Err(indeterminate(self.missing(&tally)));
        }
        self.claims.change(&Key::of(claim), Held::lost);
        if claim.wait == Wait::No {
            self.undo(&whole(claim), &tally.answered()).await;
            return Ok(Some(Answer::Busy));
        }
        Ok(None)
    }

    async fn put_to_the_vote(
        self: &Arc<Self>,
        claim: &Arc<Claim>,
        before: Before,
    ) -> Result<Outcome> {
        let sent = self.clock.now();
        let proposal = self.proposal(sent);
        let mut round = self.ask_all(claim, |_| Number::AtLeast(proposal));
        self.until_decided(&mut round, before).await;
        self.learn(&round, sent, proposal);
        let tally = self.tally(&round, before);
        self.follow(round, claim, before.number, tally.touched);
        if tally.granted.len() < self.majority {
            return self.lost(claim, &tally, before).await;
        }
        let numbered = self.number(claim, &tally, before).await;
        // Looked at after the last answer: the leases may be over that it tells of.
        if self.clock.now() >= Self::safe_until(sent, claim) {
            self.undo(claim, &tally.answered()).await;
            return Err(unavailable(format!(
                "a majority voted for the claim, but took longer than the lease lasts ({:?}): \
                 ask for a longer ttl",
                claim.ttl
            )));
        }
        let (fence, numbers) = match numbered {
            Ok(numbered) => numbered,
            Err(tally) => return self.lost(claim, &tally, before).await,
        };
        self.note_won(claim, fence, &numbers, sent);
        for node in tally.takers() {
            let is_fine = |(other, number): &(usize, Fence)| *other == node && *number >= fence;
            if !numbers.iter().any(is_fine) {
                self.bring_into_line_later(node, &Key::of(claim));
            }
        }
        Ok(Outcome::Over(Answer::Granted(fence)))
    }

    async fn until_decided(&self, round: &mut Round<Vote>, before: Before) {
        let delay = self.settings.restart_delay;
        let count = |answers: &[_]| Tally::of(answers, delay, before.doubtful);
        round
            .until(|answers| count(answers).is_decided(self.majority))
            .await;
    }

    fn tally(&self, round: &Round<Vote>, before: Before) -> Tally {
        Tally::of(&round.answers, self.settings.restart_delay, before.doubtful)
    }

    /// The number under which a majority has the claim, and the numbers that nodes have for it: what a
    /// majority agrees on, else the largest, once a majority has written it down.
    ///
    /// # Errors
    ///
    /// What the nodes said, if a majority did not write it down.
    async fn number(
        self: &Arc<Self>,
        claim: &Arc<Claim>,
        tally: &Tally,
        before: Before,
    ) -> Result<(Fence, Vec<(usize, Fence)>), Tally> {
        if let Some(fence) = tally.agreed(self.majority) {
            return Ok((fence, tally.granted.clone()));
        }
        let Some(largest) = tally.largest() else {
            return Err(Tally::default());
        };
        tracing::debug!(name = %claim.name, "the nodes gave different numbers, asking once more");
        let mut round = self.ask_all(&not_waiting(claim), |_| Number::Exactly(largest));
        self.until_decided(&mut round, before).await;
        let written = self.tally(&round, before);
        self.follow(round, claim, before.number, written.touched);
        match written.agreed(self.majority) {
            Some(fence) => Ok((fence, written.granted)),
            None => Err(written),
        }
    }

    /// Notes a victory.
    fn note_won(&self, claim: &Arc<Claim>, fence: Fence, numbers: &[(usize, Fence)], sent: Tick) {
        let until = Self::safe_until(sent, claim);
        let key = Key::of(claim);
        let call = self
            .claims
            .change(&key, |held| held.won(claim, fence, numbers, until));
        if call == Some(true) {
            self.tell_wanted(&key, fence);
        }
    }

    pub(crate) fn tell_wanted(&self, key: &Key, fence: Fence) {
        let wanted = News::Wanted {
            name: key.name.clone(),
            owner: key.owner.clone(),
            fence,
        };
        // A closed channel means that the client is being dropped.
        let _ = self.tell.send((None, wanted));
    }

    /// Gives a node the lease under its fence, while that is safely ours.
    ///
    /// Returns whether the node has it now.
    pub(crate) async fn bring_into_line(self: &Arc<Self>, node: usize, key: &Key) -> bool {
        let Some((held, fence)) = self.safely_held(key) else {
            return false;
        };
        let claim = not_waiting(&held.claim);
        let vote = self.nodes[node].vote(&claim, Number::Exactly(fence)).await;
        let granted = vote.is_ok_and(|vote| vote.answer == Answer::Granted(fence));
        // Looked at again: the answer may have come too late, or the lease may be released.
        match self
            .safely_held(key)
            .filter(|(now, _)| now.number == held.number)
        {
            Some(_) if granted => {
                self.claims.change(key, |held| held.set_number(node, fence));
                true
            }
            Some(_) => false,
            None => {
                self.clean_up(node, &whole(&claim)).await;
                false
            }
        }
    }

    pub(crate) fn bring_into_line_later(self: &Arc<Self>, node: usize, key: &Key) {
        let (group, key) = (Arc::clone(self), key.clone());
        tokio::spawn(async move { group.bring_into_line(node, &key).await });
    }

    fn safely_held(&self, key: &Key) -> Option<(Held, Fence)> {
        let held = self.claims.find(key)?;
        let fence = held.fence.filter(|_| self.clock.now() < held.until)?;
        Some((held, fence))
    }

    /// Takes in the answers of a vote that was decided: what they left behind at the nodes, and those
    /// that come later.
    fn follow(self: &Arc<Self>, round: Round<Vote>, claim: &Arc<Claim>, number: u64, touched: u64) {
        let touch = |held: &mut Held| held.touched |= touched;
        self.claims.change(&Key::of(claim), touch);
        let (group, claim) = (Arc::clone(self), Arc::clone(claim));
        round.finish(move |node, answer| {
            let (group, claim) = (Arc::clone(&group), Arc::clone(&claim));
            async move { group.hear_late(node, &claim, number, answer).await }
        });
    }

    async fn hear_late(
        self: &Arc<Self>,
        node: usize,
        claim: &Arc<Claim>,
        number: u64,
        answer: Result<Vote>,
    ) {
        if !touches(&answer) {
            return;
        }
        let key = Key::of(claim);
        let granted = match answer.map(|vote| vote.answer) {
            Ok(Answer::Granted(fence)) => Some(fence),
            _ => None,
        };
        self.claims.change(&key, |held| held.touch(node));
        match (self.claims.same(&key, number), granted) {
            (None, _) if self.claims.is_seen_to(&key, node) => {}
            (None, _) => self.clean_up(node, &whole(claim)).await,
            (Some(held), Some(number)) if held.fence.is_some() => {
                self.claims
                    .change(&key, |held| held.set_number(node, number));
                if held.fence > Some(number) {
                    self.bring_into_line(node, &key).await;
                }
            }
            (Some(_), Some(_)) => {
                // It may have made a majority.
                let again = News::AskAgain(Some(key.name.clone()));
                let _ = self.tell.send((None, again));
            }
            (Some(_), None) => {}
        }
    }

    /// Takes a claim back at one node, and tries again until its lease would be over anyway.
    pub(crate) async fn clean_up(&self, node: usize, claim: &Claim) {
        let key = Key::of(claim);
        while self.claims.is_going(&key) {
            // Were this to come first, the release would not find what it is to free.
            sleep(SHORTEST_PAUSE).await;
        }
        let give_up = self.clock.now() + claim.ttl;
        let mut pause = SHORTEST_PAUSE;
        loop {
            // Who asks again, or anew as the same owner, is not to be undone.
            if self.claims.find(&key).is_some() {
                return;
            }
            self.claims.doubt(&key, node, self.clock.now() + claim.ttl);
            if self.nodes[node].withdraw(claim).await.is_ok() {
                return self.claims.trust(&key, node);
            }
            if self.clock.now() >= give_up {
                return;
            }
            sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// What to do after a vote that was not won.
    async fn lost(
        self: &Arc<Self>,
        claim: &Arc<Claim>,
        tally: &Tally,
        before: Before,
    ) -> Result<Outcome> {
        if !tally.conflicts.is_empty() {
            // What the owner has in the other mode stays as it is.
            if before.is_new {
                self.undo(claim, &tally.answered()).await;
            }
            return Err(conflict(claim));
        }
        let nobody_else = tally.busy.is_empty() && tally.queued.is_empty();
        let blocked = nobody_else && !tally.young.is_empty();
        if tally.answered().len() < self.majority || blocked {
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
            return Ok(Outcome::Over(self.note_queued(claim, tally)));
        }
        let is_first = self.is_before_others(claim, tally).await;
        match (claim.wait, is_first) {
            (Wait::No, Some(true)) => Ok(Outcome::Split(A_MOMENT.mul_f64(1.0 + fastrand::f64()))),
            (Wait::No, _) => {
                self.undo(claim, &tally.answered()).await;
                Ok(Outcome::Over(Answer::Busy))
            }
            (Wait::InLine, Some(true)) => Ok(Outcome::Over(Answer::Queued {
                ask_again: A_MOMENT.mul_f64(2.0 + 4.0 * fastrand::f64()),
            })),
            (Wait::InLine, None) => Ok(Outcome::Over(self.note_queued(claim, tally))),
            (Wait::InLine, Some(false)) => Ok(Outcome::Over(self.give_way(claim, tally).await)),
        }
    }

    /// A place in line, to be asked for again at the first time that a node named.
    fn note_queued(&self, claim: &Arc<Claim>, tally: &Tally) -> Answer {
        let stands = |held: &mut Held| held.claim = Arc::clone(claim);
        self.claims.change(&Key::of(claim), stands);
        let soonest = tally
            .queued
            .iter()
            .map(|(_, time)| *time)
            .min()
            .unwrap_or(claim.ttl);
        // What it has of the nodes meanwhile must not run out.
        let held = if tally.takers().is_empty() {
            soonest
        } else {
            claim.ttl / 3
        };
        Answer::Queued {
            ask_again: soonest.min(held),
        }
    }

    /// Leaves all nodes to others for a random while.
    async fn give_way(self: &Arc<Self>, claim: &Arc<Claim>, tally: &Tally) -> Answer {
        let key = Key::of(claim);
        let times = self.claims.change(&key, |held| {
            held.gave_way += 1;
            held.gave_way
        });
        self.withdraw_all(claim, &tally.answered(), tally.touched)
            .await;
        let longest = A_MOMENT * 2u32.saturating_pow(times.unwrap_or(1).min(8));
        Answer::Queued {
            ask_again: A_MOMENT + longest.mul_f64(fastrand::f64()),
        }
    }

    /// Looks who holds which nodes, after a vote that some of them were won in.
    ///
    /// `None` if another has a majority; else whether this claim is before the others: it holds
    /// the most nodes, or as many as others and the first of these. All come to the same end.
    async fn is_before_others(&self, claim: &Claim, tally: &Tally) -> Option<bool> {
        let answered = tally.answered().len();
        let name = &claim.name;
        let mut round = Round::new(self.nodes.iter().map(|node| {
            let (node, name) = (Arc::clone(node), name.clone());
            let request: Request<_> = Box::pin(async move { node.list(Some(&name)).await });
            request
        }));
        round
            .until(|answers| answers.iter().flatten().flatten().count() >= answered)
            .await;
        let mut votes: BTreeMap<Owner, (usize, usize)> = BTreeMap::new();
        for (node, answer) in round.answers.iter().enumerate() {
            let Some(Ok(entries)) = answer else {
                continue;
            };
            for holder in entries.iter().flat_map(|entry| &entry.holders) {
                let (count, _) = votes.entry(holder.owner.clone()).or_insert((0, node));
                *count += 1;
            }
        }
        round.finish(|_, _| std::future::ready(()));
        let own = votes.remove(&claim.owner);
        if votes.values().any(|(count, _)| *count >= self.majority) {
            return None;
        }
        let Some((own_count, own_first)) = own else {
            return Some(false);
        };
        let is_before = |(count, first): &(usize, usize)| {
            own_count > *count || (own_count == *count && own_first < *first)
        };
        Some(votes.values().all(is_before))
    }

    /// Takes a claim back everywhere, also where nothing is known of it; waits for some nodes.
    pub(crate) async fn undo(self: &Arc<Self>, claim: &Arc<Claim>, wait_for: &[usize]) {
        let key = Key::of(claim);
        let held = if claim.depth <= 1 {
            self.claims.forget(&key)
        } else {
            self.claims.find(&key)
        };
        let touched = held.map_or(0, |held| held.touched);
        self.withdraw_all(claim, wait_for, touched).await;
    }

    /// Takes a claim back at all nodes, and goes on with those that do not answer well.
    async fn withdraw_all(self: &Arc<Self>, claim: &Arc<Claim>, wait_for: &[usize], touched: u64) {
        let mut round = self.withdraw_round(claim);
        round
            .until(|answers| wait_for.iter().all(|node| answers[*node].is_some()))
            .await;
        self.finish_withdrawing(round, claim, touched);
    }

    pub(crate) fn withdraw_round(&self, claim: &Arc<Claim>) -> Round<()> {
        let (key, doubtful_until) = (Key::of(claim), self.clock.now() + claim.ttl);
        Round::new(self.nodes.iter().enumerate().map(|(index, node)| {
            self.claims.doubt(&key, index, doubtful_until);
            let (node, claim) = (Arc::clone(node), Arc::clone(claim));
            let request: Request<()> = Box::pin(async move { node.withdraw(&claim).await });
            request
        }))
    }

    /// Takes in what nodes say to a withdrawal, and goes on with those that do not answer well, if
    /// they have been touched. Where the claim itself is still on its way, its late answer is seen to.
    pub(crate) fn finish_withdrawing(
        self: &Arc<Self>,
        round: Round<()>,
        claim: &Arc<Claim>,
        touched: u64,
    ) {
        for (node, answer) in round.answers.iter().enumerate() {
            if let Some(answer) = answer {
                self.settle(node, claim, answer.is_ok(), touched);
            }
        }
        let (group, claim) = (Arc::clone(self), Arc::clone(claim));
        round.finish(move |node, answer| {
            group.settle(node, &claim, answer.is_ok(), touched);
            std::future::ready(())
        });
    }

    /// Takes in what became of a withdrawal, or of a release by owner, at one node.
    pub(crate) fn settle(
        self: &Arc<Self>,
        node: usize,
        claim: &Arc<Claim>,
        is_done: bool,
        touched: u64,
    ) {
        let key = Key::of(claim);
        if is_done {
            return self.claims.trust(&key, node);
        }
        let is_late = self.claims.landed(&key, node);
        if is_late || touched & (1 << node) != 0 {
            let (group, claim) = (Arc::clone(self), Arc::clone(claim));
            tokio::spawn(async move { group.clean_up(node, &claim).await });
        }
    }

    /// Why too few nodes count.
    fn missing(&self, tally: &Tally) -> String {
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

    /// A fence that no node has reached yet: by their own clocks, as they were last seen.
    fn proposal(&self, now: Tick) -> u64 {
        let clocks = self.nodes.iter().zip(&self.ahead_us).map(|(node, ahead)| {
            match ahead.load(Ordering::Relaxed) {
                i64::MIN => node.link().clock_us().unwrap_or(0),
                ahead => micros(now).saturating_add_signed(ahead),
            }
        });
        clocks.max().unwrap_or(0) + self.slack_us.load(Ordering::Relaxed)
    }

    /// Takes in how the clocks of the nodes stand, and whether the proposal was late.
    fn learn(&self, round: &Round<Vote>, sent: Tick, proposal: u64) {
        let mut late = false;
        for (node, answer) in round.answers.iter().enumerate() {
            let clock = match answer {
                Some(Ok(Vote {
                    clock_us: Some(clock),
                    ..
                })) => clock,
                Some(Err(_)) => {
                    // Its clock may be another when it is back.
                    self.ahead_us[node].store(i64::MIN, Ordering::Relaxed);
                    continue;
                }
                _ => continue,
            };
            let ahead = i128::from(*clock) - i128::from(micros(sent));
            let ahead = i64::try_from(ahead).unwrap_or(i64::MAX);
            self.ahead_us[node].store(ahead, Ordering::Relaxed);
            late |= *clock > proposal;
        }
        // Only a hint: a lost update costs one more round some time.
        let slack = self.slack_us.load(Ordering::Relaxed);
        let slack = if late { slack * 2 } else { slack - slack / 64 };
        self.slack_us.store(
            slack.clamp(SHORTEST_SLACK_US, LONGEST_SLACK_US),
            Ordering::Relaxed,
        );
    }
}

/// The same claim for one who holds already, and would not wait.
fn not_waiting(claim: &Claim) -> Arc<Claim> {
    Arc::new(Claim {
        wait: Wait::No,
        ..claim.clone()
    })
}

/// The same claim with all that it may have entered again.
pub(crate) fn whole(claim: &Claim) -> Arc<Claim> {
    Arc::new(Claim {
        depth: 1,
        ..claim.clone()
    })
}

fn conflict(claim: &Claim) -> Error {
    let name = claim.name.clone();
    Error::ModeConflict { name }
}

fn micros(tick: Tick) -> u64 {
    let micros = tick.since(Tick::default()).as_micros();
    u64::try_from(micros).unwrap_or(u64::MAX)
}

/// How often a claim that does not wait asks again after a split vote.
const LONGEST_SPLIT: usize = 20;

/// A little longer than it takes to ask all nodes.
const A_MOMENT: Duration = Duration::from_millis(2);

const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How far fences may run ahead of the clocks of the nodes.
const SHORTEST_SLACK_US: u64 = 200;
const LONGEST_SLACK_US: u64 = 10_000;

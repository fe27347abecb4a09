//! The nodes together: a claim is put to the vote, and what was decided is carried out.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use crate::background::Background;
use crate::clock::{Clock, Tick};
use crate::driver::{Answer, Claim, Life, Mode, News, Wait};
use crate::error::{Error, Result};
use crate::name::Fence;
use crate::store::redis::hash::{Hash, Number, Vote};
use crate::store::redlock::claims::{Before, Claims, Held, Key};
use crate::store::redlock::clocks::Clocks;
use crate::store::redlock::fault::{indeterminate, unavailable};
use crate::store::redlock::lost::conflict;
use crate::store::redlock::round::Round;
use crate::store::redlock::tally::{GrownUp, Tally};
use crate::store::redlock::undo::whole;
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
    /// Requests whose answers nobody waits for any more, and what comes of them.
    pub(crate) background: Background,
    settings: Settings,
    clocks: Clocks,
}

/// What came of a vote.
#[derive(Debug)]
pub(crate) enum Outcome {
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
        let clocks = Clocks::new(nodes.len());
        Self {
            majority: settings.majority(),
            nodes,
            clock: Clock::start(crate::driver::Clock::Boot),
            claims: Claims::default(),
            tell,
            background: Background::on(Handle::current()),
            settings,
            clocks,
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
                reason: "redlock:// has exclusive and shared locks alone, because majorities of \
                         nodes that each count permits would let too many in: take redis:// for permits"
                    .to_owned(),
            });
        }
        self.check_ttl(claim.ttl)
    }

    /// Refuses a lease that a node could forget and vote again before it is over.
    pub(crate) fn check_ttl(&self, ttl: Duration) -> Result<()> {
        match self.settings.restart_delay {
            Some(delay) if self.for_nodes(ttl) >= delay => Err(Error::InvalidOption {
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
    pub(crate) fn safe_until(&self, sent: Tick, ttl: Duration) -> Tick {
        sent + self.settings.safe(ttl)
    }

    /// Sends all nodes a claim, and waits until the votes are enough.
    async fn ask_all(
        &self,
        claim: &Arc<Claim>,
        number: impl Fn(usize) -> Number,
        enough: impl Fn(&[Option<Result<Vote>>]) -> bool,
    ) -> Round<Vote> {
        let vote = |index, node: Arc<Hash>| {
            let (claim, number) = (Arc::clone(claim), number(index));
            async move { node.vote(&claim, number).await }
        };
        self.ask(vote, enough).await
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
        let number = |node| Number::Exactly(number(node).unwrap_or(fence));
        // What a node has under the number that this client knows it did not forget, however lately
        // it started.
        let count = |answers: &[_]| Tally::of(answers, None, before.doubtful);
        let is_decided = |answers: &[_]| count(answers).is_decided(self.majority);
        let round = self.ask_all(&not_waiting(claim), number, is_decided).await;
        let tally = count(&round.answers);
        self.follow(round, claim, before.number, tally.touched);
        if tally.granted.len() >= self.majority {
            self.note_won(claim, fence, &tally.granted, sent);
            return Ok(Some(Answer::Granted(fence)));
        }
        if !tally.conflicts.is_empty() {
            return Err(conflict(claim));
        }
        if tally.may_have_it() >= self.majority {
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
        mut before: Before,
    ) -> Result<Outcome> {
        if claim.life == Life::Client {
            // Its numbers are new in each vote; those of a lease of no client may be as old as the
            // claim.
            before.began = Instant::now();
        }
        let sent = self.clock.now();
        let seen_first = |node: usize| self.nodes[node].link().clock_us();
        let proposal = self.clocks.proposal(sent, seen_first);
        let round = self.vote(claim, Number::AtLeast(proposal), before).await;
        self.clocks.learn(&round.answers, sent, self.clock.now());
        let tally = self.tally(&round, before);
        self.follow(round, claim, before.number, tally.touched);
        if tally.granted.len() < self.majority {
            return self.lost(claim, &tally, before).await;
        }
        let numbered = self.number(claim, &tally, before).await;
        // Looked at after the last answer: the leases may be over that it tells of.
        if self.clock.now() >= self.safe_until(sent, claim.ttl) {
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

    /// Asks for votes until they decide.
    async fn vote(&self, claim: &Arc<Claim>, number: Number, before: Before) -> Round<Vote> {
        let (grown_up, majority) = (self.grown_up(before), self.majority);
        let count = |answers: &[_]| Tally::of(answers, grown_up, before.doubtful);
        let is_decided = |answers: &[_]| count(answers).is_decided(majority);
        let mut round = self.ask_all(claim, |_| number, is_decided).await;
        let least = match number {
            Number::AtLeast(least) => least,
            Number::Exactly(fence) => fence.get(),
        };
        let tally = count(&round.answers);
        if tally.is_undecided_on_its_number(majority, least) {
            // Nobody is waited for who does not answer at all.
            let agreed = round.until(|answers| count(answers).agreed(majority).is_some());
            _ = timeout(A_WHILE, agreed).await;
        } else if tally.is_short(majority) {
            // Nothing is to be gained by haste, and what is said of it is about all nodes.
            round.until(|_| false).await;
        }
        round
    }

    fn tally(&self, round: &Round<Vote>, before: Before) -> Tally {
        Tally::of(&round.answers, self.grown_up(before), before.doubtful)
    }

    fn grown_up(&self, before: Before) -> Option<GrownUp> {
        let (restart_delay, began) = (self.settings.restart_delay?, before.began);
        Some(GrownUp {
            restart_delay,
            began,
        })
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
        let largest = Number::Exactly(largest);
        let round = self.vote(&not_waiting(claim), largest, before).await;
        let written = self.tally(&round, before);
        self.follow(round, claim, before.number, written.touched);
        match written.agreed(self.majority) {
            Some(fence) => Ok((fence, written.granted)),
            None => Err(written),
        }
    }

    /// Notes a victory.
    fn note_won(&self, claim: &Arc<Claim>, fence: Fence, numbers: &[(usize, Fence)], sent: Tick) {
        let until = self.safe_until(sent, claim.ttl);
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
}

/// The same claim for one who holds already, and would not wait.
pub(crate) fn not_waiting(claim: &Claim) -> Arc<Claim> {
    Arc::new(Claim {
        wait: Wait::No,
        ..claim.clone()
    })
}

/// How often a claim that does not wait asks again after a split vote.
const LONGEST_SPLIT: usize = 20;

/// Longer than a node takes that is well.
pub(crate) const A_WHILE: Duration = Duration::from_millis(50);

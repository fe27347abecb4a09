//! The nodes together: a claim is put to the vote, and what was decided is carried out.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::background::Background;
use crate::clock::{Clock, Tick, safe};
use crate::driver::{Answer, Claim, Grant, Life, News, Renewal, Renewed, Wait};
use crate::error::Result;
use crate::name::Fence;
use crate::store::redlock::claims::{Before, Claims};
use crate::store::redlock::clocks::Clocks;
use crate::store::redlock::fault::{indeterminate, unavailable, why};
use crate::store::redlock::node::Node;
use crate::store::redlock::round::Round;
use crate::store::redlock::tally::{GrownUp, Tally};
use crate::store::redlock::tie::TieRule;
use crate::store::redlock::url::Settings;
use crate::store::vote::{Number, Vote};

/// All nodes, and what this client has asked of them.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) nodes: Vec<Arc<dyn Node>>,
    pub(crate) majority: usize,
    pub(crate) clock: Clock,
    pub(crate) claims: Claims,
    /// What is told to this client: from a node, or by this client itself.
    pub(crate) tell: mpsc::UnboundedSender<(Option<usize>, News)>,
    /// Requests whose answers nobody waits for any more, and what comes of them.
    pub(crate) background: Background,
    pub(crate) settings: Settings,
    pub(crate) ties: TieRule,
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
        nodes: Vec<Arc<dyn Node>>,
        settings: Settings,
        ties: TieRule,
        tell: mpsc::UnboundedSender<(Option<usize>, News)>,
    ) -> Self {
        let (clocks, claims) = (Clocks::new(nodes.len()), Claims::new(nodes.len()));
        Self {
            majority: nodes.len() / 2 + 1,
            clock: Clock::start(clock_of(&nodes)),
            nodes,
            claims,
            tell,
            background: Background::on(Handle::current()),
            settings,
            ties,
            clocks,
        }
    }

    pub(crate) fn place(&self, node: usize) -> String {
        self.nodes[node].place()
    }

    /// Puts a claim to the vote.
    pub(crate) async fn acquire(self: &Arc<Self>, claim: &Claim) -> Result<Answer> {
        let claim = Arc::new(claim.clone());
        if let Some(grant) = self.restart(&claim).await? {
            return Ok(Answer::Granted(grant));
        }
        let before = self.claims.begin(&claim, self.clock.now());
        for _ in 0..LONGEST_SPLIT {
            match self.put_to_the_vote(&claim, before).await? {
                Outcome::Over(answer) => return Ok(answer),
                Outcome::Split(pause) => self.clock.sleep(pause).await,
            }
        }
        let all: Vec<_> = (0..self.nodes.len()).collect();
        self.undo(&claim, &all).await;
        Ok(Answer::Busy)
    }

    /// Restarts the lease of a claim that holds; `None` if it has to be won.
    async fn restart(self: &Arc<Self>, claim: &Claim) -> Result<Option<Grant>> {
        let Some((held, fence)) = self.safely_held(&claim.id) else {
            return Ok(None);
        };
        let renewal = Renewal {
            name: claim.name.clone(),
            claim: claim.id.clone(),
            fence: Some(fence),
            life: claim.life,
            ttl: claim.ttl,
        };
        // It is held, whatever was not changed now.
        let renewed = self.renew(&[renewal]).await;
        let renewed = renewed.map_err(|error| indeterminate(why(&error)))?;
        match renewed.first() {
            Some(Renewed::Kept { fence, valid }) => {
                let grant = Grant::new(*fence, *valid);
                Ok(Some(grant.with_fences(held.fences)))
            }
            Some(Renewed::Unknown) => Err(indeterminate(
                "too few nodes have said whether they still have the lease",
            )),
            Some(Renewed::Lost(_)) | None => Ok(None),
        }
    }

    /// Until when a lease is safely ours that was asked for at `sent`.
    pub(crate) fn safe_until(&self, sent: Tick, ttl: Duration) -> Tick {
        sent + safe(self.settings.valid(ttl))
    }

    /// Sends all nodes a claim, and waits until the votes are enough.
    async fn ask_all(
        self: &Arc<Self>,
        claim: &Arc<Claim>,
        number: Number,
        enough: impl Fn(&[Option<Result<Vote>>]) -> bool,
    ) -> Round<Vote> {
        let unconfirmed = self.claims.unconfirmed(&claim.id);
        let vote = |index: usize, node: Arc<dyn Node>| {
            let (group, claim) = (Arc::clone(self), Arc::clone(claim));
            async move {
                if unconfirmed & (1u64 << index) != 0 {
                    // What took the claim back before must not take back what is granted now.
                    group.withdraw_at(index, &claim).await?;
                }
                node.vote(&claim, number).await
            }
        };
        self.ask(vote, enough).await
    }

    async fn put_to_the_vote(
        self: &Arc<Self>,
        claim: &Arc<Claim>,
        before: Before,
    ) -> Result<Outcome> {
        let sent = self.clock.now();
        // Its numbers are new in each vote; those of a lease of no client may be as old as the claim.
        let began = match claim.life {
            Life::Client => Instant::now(),
            Life::Ttl => before.began,
        };
        let seen_first = |node: usize| self.nodes[node].clock_us();
        let proposal = self.clocks.proposal(sent, seen_first);
        let round = self.vote(claim, Number::AtLeast(proposal), began).await;
        self.clocks.learn(&round.answers, sent, self.clock.now());
        let tally = Tally::of(&round.answers, self.grown_up(began));
        self.follow(round, claim, &tally);
        if tally.granted.len() < self.majority {
            return self.lost(claim, &tally, before).await;
        }
        let numbered = self.number(claim, &tally, began).await;
        // Looked at after the last answer: the leases may be over that it tells of.
        if self.clock.now() >= self.safe_until(sent, claim.ttl) {
            self.undo(claim, &tally.answered()).await;
            return Err(unavailable(format!(
                "a majority voted for the claim, but took longer than the lease lasts ({:?}): \
                 ask for a longer ttl",
                claim.ttl
            )));
        }
        let (fence, written) = match numbered {
            Ok(numbered) => numbered,
            Err(tally) => return self.lost(claim, &tally, before).await,
        };
        self.note_won(claim, fence, &written, sent);
        for node in tally.takers() {
            let is_fine = |(other, grant): &(usize, Grant)| *other == node && grant.fence >= fence;
            if !written.iter().any(is_fine) {
                self.bring_into_line_later(node, &claim.id);
            }
        }
        // The engine counts from before it asked, and this may be a later vote.
        let valid = sent.since(before.asked) + self.settings.valid(claim.ttl);
        let grant = Grant::new(fence, valid).with_fences(fences(&written));
        Ok(Outcome::Over(Answer::Granted(grant)))
    }

    /// Asks for votes until they decide.
    async fn vote(
        self: &Arc<Self>,
        claim: &Arc<Claim>,
        number: Number,
        began: Instant,
    ) -> Round<Vote> {
        let (grown_up, majority) = (self.grown_up(began), self.majority);
        let count = |answers: &[_]| Tally::of(answers, grown_up);
        let is_decided = |answers: &[_]| count(answers).is_decided(majority);
        let mut round = self.ask_all(claim, number, is_decided).await;
        let least = match number {
            Number::AtLeast(least) => least,
            Number::Exactly(fence) => fence.get(),
        };
        let tally = count(&round.answers);
        if tally.is_undecided_on_its_number(majority, least) {
            // Nobody is waited for who does not answer at all.
            let agreed = round.until(|answers| count(answers).agreed(majority).is_some());
            self.within(A_WHILE, agreed).await;
        } else if tally.is_short(majority) {
            // Nothing is to be gained by haste, and what is said of it is about all nodes.
            round.until(|_| false).await;
        }
        round
    }

    /// Waits for something, for so long at the longest.
    pub(crate) async fn within<T>(
        &self,
        limit: Duration,
        wait: impl Future<Output = T>,
    ) -> Option<T> {
        tokio::select! {
            biased;
            output = wait => Some(output),
            () = self.clock.sleep(limit) => None,
        }
    }

    /// Which nodes count in a vote that began at this time.
    fn grown_up(&self, began: Instant) -> Option<GrownUp> {
        let restart_delay = self.settings.restart_delay?;
        Some(GrownUp {
            restart_delay,
            began,
        })
    }

    /// The number under which a majority has the claim, and what nodes have granted it: what a
    /// majority agrees on, else the largest, once a majority has written it down.
    ///
    /// # Errors
    ///
    /// What the nodes said, if a majority did not write it down.
    async fn number(
        self: &Arc<Self>,
        claim: &Arc<Claim>,
        tally: &Tally,
        began: Instant,
    ) -> Result<(Fence, Vec<(usize, Grant)>), Tally> {
        if let Some(fence) = tally.agreed(self.majority) {
            return Ok((fence, tally.granted.clone()));
        }
        let Some(largest) = tally.largest() else {
            return Err(Tally::default());
        };
        tracing::debug!(name = %claim.name, "the nodes gave different numbers, asking once more");
        let largest = Number::Exactly(largest);
        let round = self.vote(&not_waiting(claim), largest, began).await;
        let written = Tally::of(&round.answers, self.grown_up(began));
        self.follow(round, claim, &written);
        match written.agreed(self.majority) {
            Some(fence) => Ok((fence, written.granted)),
            None => Err(written),
        }
    }

    /// Notes a victory.
    fn note_won(&self, claim: &Arc<Claim>, fence: Fence, granted: &[(usize, Grant)], sent: Tick) {
        let until = self.safe_until(sent, claim.ttl);
        let call = self.claims.change(&claim.id, |held| {
            for (node, _) in granted {
                held.granted_at(*node);
            }
            held.won(claim, fence, fences(granted), until)
        });
        if call == Some(true) {
            let wanted = News::Wanted {
                name: claim.name.clone(),
                claim: claim.id.clone(),
                fence,
            };
            // A closed channel means that the client is being dropped.
            let _ = self.tell.send((None, wanted));
        }
    }
}

/// The clock that this client counts on.
pub(crate) fn clock_of(nodes: &[Arc<dyn Node>]) -> crate::driver::Clock {
    let first = nodes.first().map(|node| node.clock());
    first.unwrap_or(crate::driver::Clock::Boot)
}

/// How many fences every one of some grants has set aside.
fn fences(granted: &[(usize, Grant)]) -> u32 {
    let fences = granted.iter().map(|(_, grant)| grant.fences);
    fences.min().unwrap_or(1)
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

//! Counting the votes of one round.

use std::time::Duration;

use tokio::time::Instant;

use crate::driver::{Answer, Grant};
use crate::error::{Error, Result};
use crate::name::Fence;
use crate::store::redlock::nodes::Answers;
use crate::store::vote::Vote;

/// The votes of the nodes on a claim so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// The nodes that have granted it, and their grants.
    pub(crate) granted: Vec<(usize, Grant)>,
    /// Whether any of them has other claims of its owner, which already have a number.
    joins: bool,
    /// The nodes that granted it but restarted recently, and for how long they are still excluded.
    pub(crate) restarted: Vec<(usize, Duration)>,
    /// The nodes where it waits in line, and when to ask again.
    pub(crate) queued: Vec<(usize, Option<Duration>)>,
    /// The nodes that have granted the name to others.
    pub(crate) busy: Vec<usize>,
    /// The nodes where the owner holds the name in another mode.
    pub(crate) conflicts: Vec<usize>,
    /// The nodes that could not be asked or did not reply, and why.
    pub(crate) failed: Vec<(usize, String)>,
    /// The nodes that have or may have a lease or place of the claim now, a bit each.
    pub(crate) touched: u64,
    /// How many have not answered.
    pub(crate) open: usize,
}

impl Tally {
    /// Counts the votes so far.
    pub(crate) fn of(answers: &Answers<Vote>, rule: Option<RestartRule>) -> Self {
        let mut tally = Self::default();
        for (node, answer) in answers.iter().enumerate() {
            if answer.as_ref().is_some_and(may_have_changed) {
                tally.touched |= 1 << node;
            }
            match answer {
                None => tally.open += 1,
                Some(Ok(vote)) => tally.count(node, vote, rule),
                Some(Err(Error::ModeConflict { .. })) => tally.conflicts.push(node),
                Some(Err(error)) => tally.failed.push((node, error.why())),
            }
        }
        tally
    }

    fn count(&mut self, node: usize, vote: &Vote, rule: Option<RestartRule>) {
        match vote.answer {
            Answer::Granted(grant) => match rule.and_then(|rule| rule.left(vote, grant.fence)) {
                Some(left) => self.restarted.push((node, left)),
                None => {
                    self.granted.push((node, grant));
                    self.joins |= vote.joins;
                }
            },
            Answer::Queued { ask_again } => self.queued.push((node, ask_again)),
            Answer::Busy => self.busy.push(node),
        }
    }

    /// Returns whether outstanding votes cannot change the outcome.
    ///
    /// This is so if the vote is won; or if it is lost, and it is known whether that is because of others
    /// or because too few nodes can vote.
    pub(crate) fn is_decided(&self, majority: usize) -> bool {
        let answered = self.answered().len();
        let is_told = answered >= majority || answered + self.open < majority;
        let is_lost = self.granted.len() + self.open < majority;
        self.granted.len() >= majority || (is_lost && is_told)
    }

    /// Returns whether a vote was not won because too few nodes can vote, not because others have the
    /// name.
    pub(crate) fn is_short(&self, majority: usize) -> bool {
        let nobody_else = self.busy.is_empty() && self.queued.is_empty();
        let blocked = nobody_else && !self.restarted.is_empty();
        self.granted.len() < majority && (self.answered().len() < majority || blocked)
    }

    /// Returns whether the vote is won, and outstanding votes may carry the number by which others know
    /// the grant.
    ///
    /// Such votes come from nodes that have the claim from another client, which shows in a number smaller
    /// than requested (`least`), or that have other claims of its owner.
    pub(crate) fn may_agree_later(&self, majority: usize, least: u64) -> bool {
        let is_older = |(_, grant): &(usize, Grant)| grant.fence.get() < least;
        self.granted.len() >= majority
            && self.open > 0
            && (self.joins || self.granted.iter().any(is_older))
            && self.agreed(majority).is_none()
    }

    /// Returns the number that a majority has agreed on.
    pub(crate) fn agreed(&self, majority: usize) -> Option<Fence> {
        let fences = || self.granted.iter().map(|(_, grant)| grant.fence);
        let count = |fence| fences().filter(|other| *other == fence).count();
        fences().find(|fence| count(*fence) >= majority)
    }

    /// Returns the largest number of all grants.
    pub(crate) fn largest(&self) -> Option<Fence> {
        self.granted.iter().map(|(_, grant)| grant.fence).max()
    }

    /// Returns the nodes that have voted, for or against.
    pub(crate) fn answered(&self) -> Vec<usize> {
        let mut all = self.takers();
        all.extend(self.queued.iter().map(|(node, _)| *node));
        all.extend(self.busy.iter().chain(&self.conflicts));
        all
    }

    /// Returns the nodes that cannot vote, and why.
    pub(crate) fn missing(&self) -> impl Iterator<Item = (usize, String)> {
        let restarted = self.restarted.iter().map(|(node, left)| {
            let seconds = left.as_secs() + 1;
            let why = format!(
                "restarted recently and may have lost leases, excluded from voting for {seconds} s \
                 (restart_delay)"
            );
            (*node, why)
        });
        self.failed.iter().cloned().chain(restarted)
    }

    /// Returns the nodes that granted the claim.
    pub(crate) fn takers(&self) -> Vec<usize> {
        let granted = self.granted.iter().map(|(node, _)| *node);
        let restarted = self.restarted.iter().map(|(node, _)| *node);
        granted.chain(restarted).collect()
    }
}

/// Returns whether a node has or may have a lease or place of a claim after this reply.
pub(crate) fn may_have_changed(answer: &Result<Vote>) -> bool {
    match answer {
        Ok(vote) => vote.answer != Answer::Busy,
        Err(error) => !error.nothing_changed(),
    }
}

/// The rule for nodes that have restarted recently.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RestartRule {
    /// How long a node has to be up.
    pub(crate) delay: Duration,
    /// When the vote began: a node that reaches the delay only during the vote may have lost leases of the
    /// same name.
    pub(crate) began: Instant,
}

impl RestartRule {
    /// Returns how long a node's grant does not count, `None` if it counts.
    ///
    /// A number that the node issued while it was excluded does not count later either, until there is a
    /// new one: it may be smaller than one that the node has lost.
    fn left(self, vote: &Vote, fence: Fence) -> Option<Duration> {
        // A node with an unknown start counts as one that has just started.
        let started = vote.started.unwrap_or_else(Instant::now);
        let up = self.began.saturating_duration_since(started);
        if up < self.delay {
            return Some(self.delay.saturating_sub(started.elapsed()));
        }
        let counted = started.elapsed().saturating_sub(self.delay);
        let counted_us = u64::try_from(counted.as_micros()).unwrap_or(u64::MAX);
        let counts_since_us = vote.clock_us.unwrap_or(0).saturating_sub(counted_us);
        (fence.get() < counts_since_us).then_some(Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(fence: u64, up: u64) -> Option<Result<Vote>> {
        granted_at(0, fence, up)
    }

    fn granted_at(clock: u64, fence: u64, up: u64) -> Option<Result<Vote>> {
        let started = Instant::now().checked_sub(Duration::from_secs(up));
        Some(Ok(Vote {
            answer: Answer::Granted(Grant::new(Fence::new(fence).unwrap(), Duration::ZERO)),
            joins: false,
            clock_us: Some(clock),
            started: Some(started.unwrap()),
            delayed: false,
        }))
    }

    fn a_minute() -> RestartRule {
        RestartRule {
            delay: Duration::from_secs(60),
            began: Instant::now(),
        }
    }

    #[tokio::test]
    async fn a_node_that_is_old_enough_only_in_the_course_of_a_vote_does_not_count() {
        let began = Instant::now().checked_sub(Duration::from_secs(2)).unwrap();
        let rule = RestartRule {
            began,
            ..a_minute()
        };
        for (up, counts) in [(61, false), (63, true)] {
            let tally = Tally::of(&[granted(7, up)], Some(rule));
            assert_eq!(tally.granted.len() == 1, counts, "{up}");
        }
    }

    #[tokio::test]
    async fn a_node_that_has_just_started_does_not_count() {
        let answers = [granted(7, 1000), granted(7, 5), None];
        let delay = Some(a_minute());
        let tally = Tally::of(&answers, delay);
        assert_eq!((tally.granted.len(), tally.restarted.len()), (1, 1));
        assert!(!tally.is_decided(2), "the third may vote");
        assert!(tally.restarted[0].1 > Duration::from_secs(50));
        assert_eq!(Tally::of(&answers, None).agreed(2), Fence::new(7));
    }

    #[tokio::test]
    async fn a_number_from_before_a_node_counted_does_not_count_later() {
        let (second, clock) = (1_000_000, 500_000_000);
        let delay = Some(a_minute());
        // The node has been up for 100 s, so it has counted for 40 s.
        for (age, counts) in [(0, true), (39 * second, true), (41 * second, false)] {
            let answers = [granted_at(clock, clock - age, 100)];
            let tally = Tally::of(&answers, delay);
            assert_eq!(tally.granted.len() == 1, counts, "{age}");
        }
    }

    #[tokio::test]
    async fn who_is_still_open_is_waited_for_to_tell_others_from_an_outage() {
        let busy = || {
            Some(Ok(Vote {
                answer: Answer::Busy,
                joins: false,
                clock_us: None,
                started: None,
                delayed: false,
            }))
        };
        let failed = || {
            Some(Err(Error::Unavailable {
                driver: "redis",
                source: "away".into(),
            }))
        };
        let is_decided = |answers: &[_]| Tally::of(answers, None).is_decided(2);
        assert!(!is_decided(&[busy(), failed(), None]));
        assert!(is_decided(&[busy(), failed(), busy()]));
        assert!(is_decided(&[busy(), None, busy()]));
        assert!(is_decided(&[failed(), failed(), None]));
        assert!(is_decided(&[busy(), failed(), failed()]));
    }

    #[tokio::test]
    async fn a_number_is_agreed_on_by_a_majority_alone() {
        let joins = |fence| {
            let vote = granted(fence, 9).unwrap().unwrap();
            Some(Ok(Vote {
                joins: true,
                ..vote
            }))
        };
        let answers = [joins(7), granted(8, 9), joins(7)];
        let tally = Tally::of(&answers, None);
        assert_eq!(tally.agreed(2), Fence::new(7));
        assert!(!tally.may_agree_later(2, 8));
        assert_eq!(tally.agreed(3), None);
        assert_eq!(tally.largest(), Fence::new(8));
        let is_undecided = |answers: &[_], least| {
            let tally = Tally::of(answers, None);
            tally.is_decided(2) && tally.may_agree_later(2, least)
        };
        assert!(is_undecided(&[joins(7), granted(8, 9), None], 7));
        assert!(!is_undecided(&[joins(8), granted(8, 9), None], 7));
        let two = [granted(7, 9), granted(8, 9), None];
        assert!(is_undecided(&two, 8), "the first is older");
        assert!(!is_undecided(&two, 7), "both are new");
    }
}

//! The clocks of the nodes, as far as they are known: the lower bound of the next fence.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use crate::clock::Tick;
use crate::store::redlock::nodes::Answers;
use crate::store::vote::Vote;

/// The last known clocks of the nodes.
#[derive(Debug)]
pub(crate) struct Clocks {
    /// How far each is ahead of ours when a request arrives, in microseconds; `UNKNOWN` if it was not
    /// observed recently.
    ahead_us: Vec<AtomicI64>,
}

impl Clocks {
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            ahead_us: (0..nodes).map(|_| AtomicI64::new(UNKNOWN)).collect(),
        }
    }

    /// Returns a fence that no node will have reached by its own clock when the request arrives.
    ///
    /// `seen_first` extrapolates a clock from when its node was connected. The lead is always the same, so
    /// that the next client's proposal is larger than this one, and a node that hands the lock over right
    /// now continues from it, as all others do.
    pub(crate) fn proposal(&self, now: Tick, seen_first: impl Fn(usize) -> Option<u64>) -> u64 {
        let clocks = self.ahead_us.iter().enumerate();
        let clocks = clocks.map(|(node, ahead)| match ahead.load(Ordering::Relaxed) {
            UNKNOWN => seen_first(node).unwrap_or(0),
            ahead => micros(now.since(Tick::default())).saturating_add_signed(ahead),
        });
        clocks.max().unwrap_or(0) + micros(LEAD)
    }

    /// Learns the clocks of the nodes from the replies to a vote that began at `sent`.
    pub(crate) fn learn(&self, answers: &Answers<Vote>, sent: Tick, now: Tick) {
        // A delayed request makes a clock look further ahead than it is.
        let is_quick = now.since(sent) < LONGEST_WAY;
        for (ahead, answer) in self.ahead_us.iter().zip(answers) {
            let seen = match answer {
                None | Some(Ok(Vote { clock_us: None, .. })) => continue,
                Some(Ok(Vote {
                    clock_us: Some(clock),
                    ..
                })) if is_quick => {
                    let sent = micros(sent.since(Tick::default()));
                    let ahead = i128::from(*clock) - i128::from(sent);
                    i64::try_from(ahead).unwrap_or(i64::MAX)
                }
                // A node that failed may be back with another clock.
                Some(_) => UNKNOWN,
            };
            ahead.store(seen, Ordering::Relaxed);
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// A node whose clock was not observed recently.
const UNKNOWN: i64 = i64::MIN;

/// How far proposals are ahead of the clocks: by how much the delays of two requests may differ.
const LEAD: Duration = Duration::from_millis(10);

/// The longest round trip. With the lead, fences are ahead of clocks by at most half a second.
const LONGEST_WAY: Duration = Duration::from_millis(490);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Answer;
    use crate::error::Result;
    use crate::store::redlock::fault::unavailable;

    fn shows(clock_us: u64) -> Option<Result<Vote>> {
        Some(Ok(Vote {
            answer: Answer::Busy,
            joins: false,
            clock_us: Some(clock_us),
            started: None,
            delayed: false,
        }))
    }

    fn at(millis: u64) -> Tick {
        Tick::default() + Duration::from_millis(millis)
    }

    /// Returns the proposal at a moment; clocks that were not observed recently show 1 s.
    fn proposed(clocks: &Clocks, now: Tick) -> u64 {
        clocks.proposal(now, |_| Some(1_000_000))
    }

    #[test]
    fn a_proposal_is_ahead_of_the_clock_that_is_furthest_ahead() {
        let clocks = Clocks::new(3);
        assert_eq!(proposed(&clocks, at(100)), 1_010_000);
        let answers = [shows(5_000_000), None, shows(7_000_000)];
        clocks.learn(&answers, at(100), at(101));
        assert_eq!(proposed(&clocks, at(100)), 7_010_000);
        assert_eq!(proposed(&clocks, at(350)), 7_260_000);
    }

    #[test]
    fn an_answer_that_was_held_up_tells_nothing() {
        let clocks = Clocks::new(1);
        clocks.learn(&[shows(2_000_000)], at(0), at(1));
        // The process was suspended for an hour before it sent the request.
        let hour = 3_600_000;
        clocks.learn(&[shows(2_000_000 + hour * 1000)], at(0), at(hour));
        assert_eq!(proposed(&clocks, at(hour)), 1_010_000);
    }

    #[test]
    fn the_clock_of_a_node_that_failed_is_not_known() {
        let clocks = Clocks::new(1);
        clocks.learn(&[shows(9_000_000)], at(0), at(1));
        let gone = unavailable("gone");
        clocks.learn(&[Some(Err(gone))], at(2), at(3));
        assert_eq!(proposed(&clocks, at(4)), 1_010_000);
    }
}

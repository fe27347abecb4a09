//! The clocks of the nodes, as far as they are known: where the next fence may begin.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::clock::Tick;
use crate::store::redis::hash::{Hash, Vote};
use crate::store::redlock::round::Round;

/// How the nodes' clocks were last seen.
#[derive(Debug)]
pub(crate) struct Clocks {
    /// How far each is ahead of ours, in microseconds; `UNKNOWN` if it was not seen lately.
    ahead_us: Vec<AtomicI64>,
    /// How much later than expected a request may arrive for its fence to be the node's own.
    slack_us: AtomicU64,
}

impl Clocks {
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            ahead_us: (0..nodes).map(|_| AtomicI64::new(UNKNOWN)).collect(),
            slack_us: AtomicU64::new(SHORTEST_SLACK_US),
        }
    }

    /// A fence that no node has reached yet: by their own clocks.
    pub(crate) fn proposal(&self, nodes: &[Arc<Hash>], now: Tick) -> u64 {
        let clocks = nodes.iter().zip(&self.ahead_us).map(|(node, ahead)| {
            match ahead.load(Ordering::Relaxed) {
                UNKNOWN => node.link().clock_us().unwrap_or(0),
                ahead => micros(now).saturating_add_signed(ahead),
            }
        });
        clocks.max().unwrap_or(0) + self.slack_us.load(Ordering::Relaxed)
    }

    /// Takes in how the clocks of the nodes stand, and whether the proposal was late.
    pub(crate) fn learn(&self, round: &Round<Vote>, sent: Tick, proposal: u64) {
        let mut late = false;
        for (node, answer) in round.answers.iter().enumerate() {
            let clock = match answer {
                Some(Ok(Vote {
                    clock_us: Some(clock),
                    ..
                })) => clock,
                Some(Err(_)) => {
                    // Its clock may be another when it is back.
                    self.ahead_us[node].store(UNKNOWN, Ordering::Relaxed);
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

fn micros(tick: Tick) -> u64 {
    let micros = tick.since(Tick::default()).as_micros();
    u64::try_from(micros).unwrap_or(u64::MAX)
}

/// A node whose clock was not seen lately.
const UNKNOWN: i64 = i64::MIN;

/// How far fences may run ahead of the clocks of the nodes.
const SHORTEST_SLACK_US: u64 = 200;
const LONGEST_SLACK_US: u64 = 10_000;

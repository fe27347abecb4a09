//! Everything that happened in one sale: the data of the table, the JSON and the report.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::demo::summary::quantile;

/// One sale with one lock, from the first buyer to the last.
///
/// Times are microseconds since its start.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Record {
    /// The lock, as `--lock` names it.
    pub(super) lock: String,
    /// Where the lock lives, without a password.
    pub(super) store: String,
    /// The load balancer: `own` or `nginx`.
    pub(super) front: String,
    pub(super) copies: u32,
    /// Pieces to sell.
    pub(super) stock: u64,
    /// Buyers, each with one request.
    pub(super) buyers: u64,
    /// Requests in flight at the same time.
    pub(super) at_once: u32,
    /// How long a lease lasts unless renewed.
    pub(super) ttl_ms: u64,
    pub(super) began_unix_ms: u64,
    pub(super) seconds: f64,
    /// Whether the sale was ended because no buyer was answered for too long: the lock is stuck.
    pub(super) stuck: bool,
    /// Every request, in the order of the answers.
    pub(super) sales: Vec<Sale>,
    /// The faults that happened.
    pub(super) faults: Vec<FaultSeen>,
    pub(super) totals: Totals,
    /// The promises that tenure has broken, and requested faults that did not happen.
    pub(super) broken: Vec<String>,
}

/// One request of a buyer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sale {
    /// When the answer arrived.
    pub(super) at_us: u64,
    /// The copy that answered, from 1; 0 if none did.
    pub(super) copy: u32,
    /// What was left, according to the copy.
    pub(super) left: u64,
    /// How long the copy waited for the lock.
    pub(super) waited_us: u64,
    /// How long the buyer waited for the answer.
    pub(super) took_us: u64,
    pub(super) outcome: Outcome,
    /// The fence of the grant, if the lock has fences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) fence: Option<u64>,
}

impl Sale {
    /// Returns a request without an answer.
    pub(super) fn unanswered(at_us: u64, took_us: u64) -> Self {
        Self {
            at_us,
            copy: 0,
            left: 0,
            waited_us: 0,
            took_us,
            outcome: Outcome::Error,
            fence: None,
        }
    }
}

/// The outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    /// One piece was sold.
    Sold,
    /// Nothing was left.
    SoldOut,
    /// The stock refused the write, because its fence was too old.
    Stale,
    /// The lock was lost, or there was no answer.
    Error,
}

/// A fault that happened, in the middle of a request: after the read and before the write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FaultSeen {
    pub(super) kind: FaultKind,
    /// The copy that it hit, from 1.
    pub(super) copy: u32,
    pub(super) from_us: u64,
    pub(super) to_us: u64,
    /// The outcome of the request that it hit; `Error` if its copy was killed.
    pub(super) outcome: Outcome,
    /// The fence of that request, if the lock has fences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) fence: Option<u64>,
    /// The copy that took over the lock of a frozen copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) taken_over: Option<TakeOver>,
}

/// Another copy that took over the lock of a frozen one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TakeOver {
    /// The copy that sold next, from 1.
    pub(super) copy: u32,
    /// When it sold.
    pub(super) at_us: u64,
    /// The fence of its grant.
    pub(super) fence: u64,
    /// How many pieces were sold until the frozen copy continued.
    pub(super) sold: u64,
}

impl TakeOver {
    /// Finds the copy that sold with a newer fence while another was frozen.
    pub(super) fn of(pause: &FaultSeen, sales: &[Sale]) -> Option<Self> {
        let older = pause.fence.filter(|_| pause.kind == FaultKind::Pause)?;
        let mut newer = sales.iter().filter(|sale| {
            let elsewhere = sale.outcome == Outcome::Sold && sale.copy != pause.copy;
            elsewhere && sale.at_us < pause.to_us && sale.fence > Some(older)
        });
        let first = newer.next()?;
        Some(Self {
            copy: first.copy,
            at_us: first.at_us,
            fence: first.fence?,
            sold: 1 + newer.count() as u64,
        })
    }
}

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FaultKind {
    /// One request takes long, and succeeds.
    Slow,
    /// The copy is frozen for longer than its lease lasts.
    Pause,
    /// The copy is killed.
    Kill,
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Slow => "slow",
            Self::Pause => "pause",
            Self::Kill => "kill",
        })
    }
}

/// The totals, as the table shows them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Totals {
    pub(super) requests: u64,
    /// Writes that the stock accepted.
    pub(super) sold: u64,
    /// What is left according to the stock.
    pub(super) left: u64,
    /// Pieces that were sold but never existed.
    pub(super) oversold: u64,
    /// Pieces that were sold but are still counted as left.
    pub(super) lost_updates: u64,
    /// Writes that the stock refused because of their fence.
    pub(super) refused_stale_writes: u64,
    pub(super) errors: u64,
    /// Until the last piece was sold.
    pub(super) sales_per_second: f64,
    pub(super) wait_mean_us: u64,
    pub(super) wait_p50_us: u64,
    pub(super) wait_p99_us: u64,
}

/// The stock's own counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Counted {
    pub(super) left: u64,
    /// Writes that were accepted.
    pub(super) accepted: u64,
    /// Writes that were refused because of their fence.
    pub(super) refused: u64,
}

impl Totals {
    /// Sums up the requests, and compares them with the stock's own counts.
    pub(super) fn of(sales: &[Sale], stock: u64, counted: Counted) -> Self {
        let count = |outcome| sales.iter().filter(|sale| sale.outcome == outcome).count() as u64;
        let sold = sales.iter().filter(|sale| sale.outcome == Outcome::Sold);
        let last_us = sold.map(|sale| sale.at_us).max().unwrap_or(0);
        let answered = sales.iter().filter(|sale| sale.outcome != Outcome::Error);
        let mut waits: Vec<u64> = answered.map(|sale| sale.waited_us).collect();
        waits.sort_unstable();
        let waited: u64 = waits.iter().sum();
        Self {
            requests: sales.len() as u64,
            sold: counted.accepted,
            left: counted.left,
            oversold: counted.accepted.saturating_sub(stock),
            lost_updates: (counted.accepted + counted.left).saturating_sub(stock),
            refused_stale_writes: counted.refused,
            errors: count(Outcome::Error),
            sales_per_second: per_second(counted.accepted, last_us),
            wait_mean_us: waited.checked_div(waits.len() as u64).unwrap_or(0),
            wait_p50_us: quantile(&waits, 0.50),
            wait_p99_us: quantile(&waits, 0.99),
        }
    }
}

fn per_second(number: u64, time_us: u64) -> f64 {
    match time_us {
        0 => 0.0,
        _ => number as f64 * 1e6 / time_us as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sale(at_us: u64, waited_us: u64, outcome: Outcome) -> Sale {
        Sale {
            at_us,
            copy: 1,
            left: 0,
            waited_us,
            took_us: waited_us,
            outcome,
            fence: None,
        }
    }

    #[test]
    fn what_was_sold_twice_is_a_lost_update_and_maybe_oversold() {
        let counted = |left, accepted| Counted {
            left,
            accepted,
            refused: 0,
        };
        let cases = [
            (counted(0, 10), 0, 0),
            (counted(4, 6), 0, 0),
            (counted(6, 6), 0, 2),
            (counted(0, 13), 3, 3),
            (counted(2, 13), 3, 5),
        ];
        for (counted, oversold, lost) in cases {
            let totals = Totals::of(&[], 10, counted);
            let found = (totals.oversold, totals.lost_updates);
            assert_eq!(found, (oversold, lost), "{counted:?}");
        }
    }

    #[test]
    fn sales_are_counted_per_second_until_the_last_one() {
        let sales = [
            sale(500_000, 1, Outcome::Sold),
            sale(2_000_000, 1, Outcome::Sold),
            sale(9_000_000, 1, Outcome::SoldOut),
        ];
        let counted = Counted {
            left: 0,
            accepted: 2,
            refused: 0,
        };
        let totals = Totals::of(&sales, 2, counted);
        assert!((totals.sales_per_second - 1.0).abs() < 1e-9, "{totals:?}");
    }

    #[test]
    fn a_take_over_is_a_sale_of_another_copy_with_a_newer_fence_during_the_pause() {
        let sold = |at_us, copy, fence| Sale {
            copy,
            fence: Some(fence),
            ..sale(at_us, 1, Outcome::Sold)
        };
        let pause = FaultSeen {
            kind: FaultKind::Pause,
            copy: 1,
            from_us: 100,
            to_us: 900,
            outcome: Outcome::Stale,
            fence: Some(7),
            taken_over: None,
        };
        // An answer that came late, one of the frozen copy itself, and one after the pause.
        let mut sales = vec![sold(101, 2, 6), sold(300, 1, 8), sold(901, 2, 12)];
        assert_eq!(TakeOver::of(&pause, &sales), None);
        sales.extend([sold(500, 2, 9), sold(600, 3, 10)]);
        let taken = TakeOver::of(&pause, &sales).unwrap();
        assert_eq!((taken.copy, taken.at_us), (2, 500));
        assert_eq!((taken.fence, taken.sold), (9, 2));
        let slow = FaultSeen {
            kind: FaultKind::Slow,
            ..pause
        };
        assert_eq!(TakeOver::of(&slow, &sales), None);
    }

    #[test]
    fn waits_are_those_of_requests_that_were_answered() {
        let mut sales: Vec<_> = (1..=100).map(|us| sale(us, us, Outcome::Sold)).collect();
        sales.push(sale(101, 1_000_000, Outcome::Error));
        let totals = Totals::of(&sales, 100, Counted::default());
        assert_eq!((totals.wait_p50_us, totals.wait_p99_us), (50, 99));
        assert_eq!((totals.wait_mean_us, totals.errors), (50, 1));
    }
}

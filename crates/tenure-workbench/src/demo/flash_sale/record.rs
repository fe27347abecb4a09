//! All that happened in one sale: what the table, the JSON and the report are made of.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One sale with one lock, from the first buyer to the last.
///
/// Moments are microseconds since it began.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The lock, as `--lock` names it.
    pub(crate) lock: String,
    /// Where the lock lives, without a password.
    pub(crate) store: String,
    /// Who spread the buyers over the copies: `own` or `nginx`.
    pub(crate) front: String,
    pub(crate) copies: u32,
    /// How many there were to sell.
    pub(crate) stock: u64,
    /// How many buyers there were, each with one request.
    pub(crate) buyers: u64,
    /// How many of them waited for an answer at the same time.
    pub(crate) at_once: u32,
    /// How long a lease lasts unless renewed.
    pub(crate) ttl_ms: u64,
    pub(crate) began_unix_ms: u64,
    pub(crate) seconds: f64,
    /// Nobody got an answer for so long that the sale was ended: the lock is stuck.
    pub(crate) stuck: bool,
    /// Every request, in the order of the answers.
    pub(crate) sales: Vec<Sale>,
    /// The faults that happened.
    pub(crate) faults: Vec<FaultSeen>,
    pub(crate) totals: Totals,
    /// What tenure promises and did not keep, and faults that were asked for and did not happen.
    pub(crate) broken: Vec<String>,
}

/// One request of a buyer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sale {
    /// When the answer came.
    pub(crate) at_us: u64,
    /// Which copy answered, from 1; 0 if none did.
    pub(crate) copy: u32,
    /// What was left, as the copy saw it.
    pub(crate) left: u64,
    /// How long the copy waited for the lock.
    pub(crate) waited_us: u64,
    /// How long the buyer waited for the answer.
    pub(crate) took_us: u64,
    pub(crate) outcome: Outcome,
    /// The number of the grant, where the lock has such numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fence: Option<u64>,
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// One piece was sold.
    Sold,
    /// Nothing was left.
    SoldOut,
    /// The stock refused the write, because its fence was too old.
    Stale,
    /// The lock was lost, or no answer came.
    Error,
}

/// A fault that happened, in the middle of a request: after the read and before the write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FaultSeen {
    pub(crate) kind: FaultKind,
    /// The copy that it hit, from 1.
    pub(crate) copy: u32,
    pub(crate) from_us: u64,
    pub(crate) to_us: u64,
    /// What became of the request that it hit; `Error` if its copy did not live to tell.
    pub(crate) outcome: Outcome,
    /// The number of the grant of that request, where the lock has such numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fence: Option<u64>,
    /// Who took over the lock of a frozen copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) taken_over: Option<TakeOver>,
}

/// The lock of a frozen copy in the hands of another copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TakeOver {
    /// The copy that sold next, from 1.
    pub(crate) copy: u32,
    /// When it sold.
    pub(crate) at_us: u64,
    /// The number of its grant.
    pub(crate) fence: u64,
    /// How many were sold until the frozen copy went on.
    pub(crate) sold: u64,
}

impl TakeOver {
    /// Finds who sold with a newer fence while a copy was frozen.
    pub(crate) fn of(pause: &FaultSeen, sales: &[Sale]) -> Option<Self> {
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
pub(crate) enum FaultKind {
    /// One request takes long, and lives.
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

/// The sums, as the table shows them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Totals {
    pub(crate) requests: u64,
    /// Writes that the stock accepted.
    pub(crate) sold: u64,
    /// What the stock says is left.
    pub(crate) left: u64,
    /// Sold, but never there.
    pub(crate) oversold: u64,
    /// Sold, but still counted as left.
    pub(crate) lost_updates: u64,
    /// Writes that the stock refused for their fence.
    pub(crate) refused_stale_writes: u64,
    pub(crate) errors: u64,
    /// Until the last piece was sold.
    pub(crate) sales_per_second: f64,
    pub(crate) wait_mean_us: u64,
    pub(crate) wait_p50_us: u64,
    pub(crate) wait_p99_us: u64,
}

/// What the stock counted by itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counted {
    pub(crate) left: u64,
    /// Writes that were accepted.
    pub(crate) accepted: u64,
    /// Writes that were refused for their fence.
    pub(crate) refused: u64,
}

impl Totals {
    /// Adds up the requests, and compares them with what the stock counted.
    pub(crate) fn of(sales: &[Sale], stock: u64, counted: Counted) -> Self {
        let count = |outcome| sales.iter().filter(|sale| sale.outcome == outcome).count() as u64;
        let sold = sales.iter().filter(|sale| sale.outcome == Outcome::Sold);
        let last_us = sold.map(|sale| sale.at_us).max().unwrap_or(0);
        let waits = Waits::of(sales);
        Self {
            requests: sales.len() as u64,
            sold: counted.accepted,
            left: counted.left,
            oversold: counted.accepted.saturating_sub(stock),
            lost_updates: (counted.accepted + counted.left).saturating_sub(stock),
            refused_stale_writes: counted.refused,
            errors: count(Outcome::Error),
            sales_per_second: per_second(counted.accepted, last_us),
            wait_mean_us: waits.mean(),
            wait_p50_us: waits.quantile(0.50),
            wait_p99_us: waits.quantile(0.99),
        }
    }
}

/// The waits for the lock of all requests that got it, sorted.
#[derive(Debug)]
struct Waits(Vec<u64>);

impl Waits {
    fn of(sales: &[Sale]) -> Self {
        let answered = sales.iter().filter(|sale| sale.outcome != Outcome::Error);
        let mut waits: Vec<u64> = answered.map(|sale| sale.waited_us).collect();
        waits.sort_unstable();
        Self(waits)
    }

    fn mean(&self) -> u64 {
        let sum: u64 = self.0.iter().sum();
        sum.checked_div(self.0.len() as u64).unwrap_or(0)
    }

    /// The smallest wait that so large a part of all waits does not exceed.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a part of a length is one"
    )]
    fn quantile(&self, part: f64) -> u64 {
        let place = (self.0.len() as f64 * part).ceil() as usize;
        let found = self.0.get(place.saturating_sub(1));
        found.copied().unwrap_or(0)
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

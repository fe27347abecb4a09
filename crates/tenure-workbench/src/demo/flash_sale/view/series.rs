//! The data of a sale's charts, reduced to what can be drawn.

use serde::Serialize;

use super::thin::{Point, thin};
use crate::demo::flash_sale::record::{Outcome, Record, Sale};
use crate::demo::summary::quantile;

/// The data of all charts of a sale.
#[derive(Debug, Serialize)]
pub(super) struct Charts {
    really_left: Vec<Point>,
    /// What each copy saw as left.
    seen: Vec<Vec<Point>>,
    pace: Pace,
    waits: Vec<Option<Waits>>,
    distribution: Vec<Bin>,
}

impl Charts {
    pub(super) fn of(record: &Record) -> Self {
        let seen = seen(record);
        Self {
            really_left: thin(&really_left(record), MOST_POINTS),
            seen: seen.iter().map(|line| thin(line, MOST_POINTS)).collect(),
            pace: pace(record, 48),
            waits: waits(record, 90),
            distribution: distribution(record),
        }
    }
}

/// Returns what each copy saw as left after each of its own sales, the first copy first.
fn seen(record: &Record) -> Vec<Vec<Point>> {
    let mut lines = vec![Vec::new(); record.copies as usize];
    for sale in sold(record) {
        if let Some(line) = index(sale).and_then(|copy| lines.get_mut(copy)) {
            line.push((seconds(sale), sale.left as f64));
        }
    }
    lines
}

/// Returns what was really left: the stock minus everything sold so far. Below zero it was
/// oversold.
fn really_left(record: &Record) -> Vec<Point> {
    let mut left = record.stock as f64;
    let mut line = vec![(0.0, left)];
    for sale in sold(record) {
        left -= 1.0;
        line.push((seconds(sale), left));
    }
    // A copy that was killed between its write and its answer has sold a piece all the same.
    let counted = record.stock as f64 - record.totals.sold as f64;
    if counted < left {
        line.push((record.seconds, counted));
    }
    line
}

/// How long the requests waited that were answered in one interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Waits {
    /// The middle of the interval, in seconds.
    at: f64,
    p50_us: u64,
    p99_us: u64,
}

/// Returns the waits over time; `None` for intervals without an answer.
fn waits(record: &Record, intervals: usize) -> Vec<Option<Waits>> {
    let width = record.seconds.max(1e-6) / intervals as f64;
    let mut found = vec![Vec::new(); intervals];
    for sale in answered(record) {
        let index = whole(seconds(sale) / width).min(intervals - 1);
        found[index].push(sale.waited_us);
    }
    let interval = |(index, waits): (usize, &mut Vec<u64>)| {
        waits.sort_unstable();
        (!waits.is_empty()).then(|| Waits {
            at: (index as f64 + 0.5) * width,
            p50_us: quantile(waits, 0.5),
            p99_us: quantile(waits, 0.99),
        })
    };
    found.iter_mut().enumerate().map(interval).collect()
}

/// The share of all requests whose wait was in a range.
#[derive(Debug, Serialize)]
struct Bin {
    from_us: f64,
    to_us: f64,
    share: f64,
}

/// Returns the distribution of the waits, in ranges that grow by the same factor.
fn distribution(record: &Record) -> Vec<Bin> {
    let mut counts = vec![0_u64; BINS];
    for sale in answered(record) {
        let power = (sale.waited_us.max(1) as f64).log10();
        counts[whole(power * BINS_PER_POWER).min(BINS - 1)] += 1;
    }
    let all: u64 = counts.iter().sum();
    let last = counts.iter().rposition(|count| *count > 0);
    counts.truncate(last.map_or(0, |last| last + 1));
    let bound = |index: usize| 10_f64.powf(index as f64 / BINS_PER_POWER);
    let bin = |(index, count): (usize, u64)| Bin {
        from_us: bound(index),
        to_us: bound(index + 1),
        share: count as f64 / all as f64,
    };
    counts.into_iter().enumerate().map(bin).collect()
}

/// Sales per second of each copy over time.
#[derive(Debug, Serialize)]
struct Pace {
    /// The length of an interval, in seconds.
    width: f64,
    /// The pace of each copy, for each interval.
    bars: Vec<Vec<f64>>,
}

/// Returns how fast each copy sold, in at most `about` intervals.
fn pace(record: &Record, about: u32) -> Pace {
    let width = (record.seconds / f64::from(about)).max(0.01);
    // One, two or five times a power of ten, so that the limits are round.
    let power = 10_f64.powf(width.log10().floor());
    let round = [1.0, 2.0, 5.0].map(|factor| factor * power);
    let fits = round
        .into_iter()
        .find(|round| *round >= width * (1.0 - 1e-9));
    let width = fits.unwrap_or(10.0 * power);
    let mut bars = vec![vec![0.0; record.copies as usize]; whole(record.seconds / width) + 1];
    let last = bars.len() - 1;
    for sale in sold(record) {
        let bar = &mut bars[whole(seconds(sale) / width).min(last)];
        if let Some(pace) = index(sale).and_then(|copy| bar.get_mut(copy)) {
            *pace += 1.0 / width;
        }
    }
    Pace { width, bars }
}

fn sold(record: &Record) -> impl Iterator<Item = &Sale> {
    let sales = record.sales.iter();
    sales.filter(|sale| sale.outcome == Outcome::Sold)
}

fn answered(record: &Record) -> impl Iterator<Item = &Sale> {
    let sales = record.sales.iter();
    sales.filter(|sale| sale.outcome != Outcome::Error)
}

fn seconds(sale: &Sale) -> f64 {
    sale.at_us as f64 / 1e6
}

/// Returns the index of a copy, whose number counts from 1; `None` if no copy answered.
fn index(sale: &Sale) -> Option<usize> {
    (sale.copy as usize).checked_sub(1)
}

/// Returns the integer part of a non-negative number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the whole part is what is wanted, and a cast saturates"
)]
fn whole(number: f64) -> usize {
    number as usize
}

/// The ranges of the waits: five per power of ten, up to a thousand seconds.
const BINS_PER_POWER: f64 = 5.0;
const BINS: usize = 45;

/// More than a chart can show.
const MOST_POINTS: usize = 800;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::flash_sale::view::tests::record;

    #[test]
    fn each_copy_has_its_own_line() {
        let record = record("tenure", 10);
        let lines = seen(&record);
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0].len() + lines[1].len(), 10);
        assert_eq!(lines[0][0], (0.1, 9.0));
        assert_eq!(lines[1][0], (0.2, 8.0));
    }

    #[test]
    fn what_is_really_left_goes_below_zero_when_oversold() {
        let mut record = record("none", 10);
        assert_eq!(really_left(&record).last(), Some(&(1.0, 0.0)));
        record.stock = 7;
        assert_eq!(really_left(&record).last(), Some(&(1.0, -3.0)));
        record.totals.sold += 1;
        assert_eq!(really_left(&record).last(), Some(&(record.seconds, -4.0)));
    }

    #[test]
    fn waits_are_those_of_their_time_and_none_where_nobody_was_answered() {
        let mut record = record("tenure", 10);
        record.seconds = 2.0;
        record.sales[3].waited_us = 5_000_000;
        let waits = waits(&record, 4);
        assert_eq!(waits.len(), 4);
        assert_eq!(waits[0].map(|waited| waited.p99_us), Some(5_000_000));
        assert_eq!(waits[0].map(|waited| waited.p50_us), Some(200));
        assert!(waits[1].is_some_and(|waited| waited.p99_us < 1_000_000));
        assert_eq!(waits[3], None);
    }

    #[test]
    fn the_distribution_adds_up_to_all() {
        let record = record("tenure", 10);
        let bins = distribution(&record);
        let all: f64 = bins.iter().map(|bin| bin.share).sum();
        assert!((all - 1.0).abs() < 1e-9, "{all}");
        for Bin {
            from_us,
            to_us,
            share,
        } in bins
        {
            let waits = record.sales.iter().map(|sale| sale.waited_us as f64);
            let inside = waits.filter(|wait| *wait >= from_us * 0.999 && *wait < to_us * 0.999);
            assert!(
                (inside.count() as f64 / 10.0 - share).abs() < 1e-9,
                "{to_us}"
            );
        }
    }

    #[test]
    fn the_pace_times_the_time_is_what_was_sold() {
        let record = record("tenure", 10);
        let pace = pace(&record, 5);
        let sold: f64 = pace.bars.iter().flatten().map(|bar| bar * pace.width).sum();
        assert!((sold - 10.0).abs() < 1e-9, "{sold}");
        assert_eq!(pace.bars.len(), 3, "intervals of half a second: {pace:?}");
    }
}

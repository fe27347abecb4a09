//! The lines and bars of a record: who saw which stock, how long they waited, how fast it went.

use super::super::record::{Outcome, Record, Sale};
use super::scale::round_step;
use super::thin::Point;

/// What each copy saw as left after each of its own sales, the first copy first.
pub(super) fn seen(record: &Record) -> Vec<Vec<Point>> {
    let mut lines = vec![Vec::new(); record.copies as usize];
    for sale in sold(record) {
        let place = (sale.copy as usize).checked_sub(1);
        if let Some(line) = place.and_then(|place| lines.get_mut(place)) {
            line.push((seconds(sale), sale.left as f64));
        }
    }
    lines
}

/// What was really left: the stock less all that was sold so far. Below zero it was oversold.
pub(super) fn really_left(record: &Record) -> Vec<Point> {
    let mut left = record.stock as f64;
    let mut line = vec![(0.0, left)];
    for sale in sold(record) {
        left -= 1.0;
        line.push((seconds(sale), left));
    }
    // A copy that was killed between its write and its answer has sold all the same.
    let counted = record.stock as f64 - record.totals.sold as f64;
    if counted < left {
        line.push((record.seconds, counted));
    }
    line
}

/// Waits of one stretch of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Waited {
    /// The middle of the stretch, in seconds.
    pub(super) at: f64,
    pub(super) half_us: f64,
    pub(super) most_us: f64,
}

/// How long half and 99 % of the requests waited at the longest, for each stretch of time in which any were answered.
pub(super) fn waits(record: &Record, stretches: usize) -> Vec<Option<Waited>> {
    let width = record.seconds.max(1e-6) / stretches as f64;
    let mut found = vec![Vec::new(); stretches];
    for sale in answered(record) {
        let place = part(seconds(sale) / width).min(stretches - 1);
        found[place].push(sale.waited_us);
    }
    let stretch = |(number, waits): (usize, &mut Vec<u64>)| {
        waits.sort_unstable();
        Some(Waited {
            at: (number as f64 + 0.5) * width,
            half_us: quantile(waits, 0.5)?,
            most_us: quantile(waits, 0.99)?,
        })
    };
    found.iter_mut().enumerate().map(stretch).collect()
}

/// Which part of all requests waited how long: the upper end of each class in microseconds, and the part.
pub(super) fn spread(record: &Record) -> Vec<(f64, f64)> {
    let mut classes = vec![0_u64; CLASSES];
    let mut all = 0_u64;
    for sale in answered(record) {
        let power = (sale.waited_us.max(1) as f64).log10();
        classes[part(power * PER_POWER).min(CLASSES - 1)] += 1;
        all += 1;
    }
    let last = classes.iter().rposition(|many| *many > 0);
    classes.truncate(last.map_or(0, |last| last + 1));
    let upper = |place: usize| 10_f64.powf((place as f64 + 1.0) / PER_POWER);
    let share = |(place, many): (usize, u64)| (upper(place), many as f64 / all as f64);
    classes.into_iter().enumerate().map(share).collect()
}

/// How wide a class of [`spread`] is, as a factor.
pub(super) fn class_factor() -> f64 {
    10_f64.powf(1.0 / PER_POWER)
}

/// Sales per second of each copy, for each stretch of time.
#[derive(Debug)]
pub(super) struct Pace {
    /// How long a stretch is, in seconds.
    pub(super) width: f64,
    /// For each stretch the pace of each copy.
    pub(super) bars: Vec<Vec<f64>>,
}

/// How fast each copy sold, in stretches of a round length.
pub(super) fn pace(record: &Record, about: u32) -> Pace {
    let width = round_step(record.seconds / f64::from(about)).max(0.01);
    let stretches = part(record.seconds / width) + 1;
    let mut bars = vec![vec![0.0; record.copies as usize]; stretches];
    for sale in sold(record) {
        let stretch = part(seconds(sale) / width).min(stretches - 1);
        let place = (sale.copy as usize).checked_sub(1);
        if let Some(bar) = place.and_then(|place| bars[stretch].get_mut(place)) {
            *bar += 1.0 / width;
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

/// The smallest of the sorted waits that so large a part of them does not exceed.
fn quantile(sorted: &[u64], part_of_all: f64) -> Option<f64> {
    let place = part((sorted.len() as f64 * part_of_all).ceil());
    let found = sorted.get(place.saturating_sub(1))?;
    Some(*found as f64)
}

/// The whole part of a number that is not negative.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the whole part is what is wanted, and a cast saturates"
)]
fn part(number: f64) -> usize {
    number as usize
}

/// Classes of waits: five to a power of ten, up to a thousand seconds.
const PER_POWER: f64 = 5.0;
const CLASSES: usize = 45;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::flash_sale::report::tests::record;

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
        assert_eq!(waits[0].map(|waited| waited.most_us), Some(5e6));
        assert_eq!(waits[0].map(|waited| waited.half_us), Some(200.0));
        assert!(waits[1].is_some_and(|waited| waited.most_us < 1e6));
        assert_eq!(waits[3], None);
    }

    #[test]
    fn the_spread_adds_up_to_all() {
        let record = record("tenure", 10);
        let all: f64 = spread(&record).iter().map(|(_, share)| share).sum();
        assert!((all - 1.0).abs() < 1e-9, "{all}");
        for (upper, share) in spread(&record) {
            let lower = upper / class_factor();
            let inside = record.sales.iter().map(|sale| sale.waited_us as f64);
            let inside = inside.filter(|wait| *wait >= lower * 0.999 && *wait < upper * 0.999);
            assert!(
                (inside.count() as f64 / 10.0 - share).abs() < 1e-9,
                "{upper}"
            );
        }
    }

    #[test]
    fn the_pace_times_the_time_is_what_was_sold() {
        let record = record("tenure", 10);
        let pace = pace(&record, 5);
        let sold: f64 = pace.bars.iter().flatten().map(|bar| bar * pace.width).sum();
        assert!((sold - 10.0).abs() < 1e-9, "{sold}");
        assert_eq!(pace.bars.len(), 3, "stretches of half a second: {pace:?}");
    }
}

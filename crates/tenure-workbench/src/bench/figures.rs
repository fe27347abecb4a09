//! Named figures of one measurement, and statistics of many.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The results of one measurement by name; the name contains the unit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Figures(BTreeMap<String, f64>);

impl Figures {
    /// Returns a figure.
    pub(super) fn find(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }

    /// Adds a figure.
    pub(super) fn with(mut self, name: &str, value: f64) -> Self {
        self.0.insert(name.to_owned(), value);
        self
    }

    /// Adds those of the other's figures whose names start with the prefix.
    pub(super) fn with_those_of(mut self, others: Self, prefix: &str) -> Self {
        let others = others.0.into_iter();
        self.0
            .extend(others.filter(|(name, _)| name.starts_with(prefix)));
        self
    }
}

/// Returns the median; `None` if there are no values.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    Some(f64::midpoint(sorted[middle - 1], upper))
}

/// Returns the percentile; `None` if there are no values.
pub(super) fn percentile(values: &[f64], hundredths: usize) -> Option<f64> {
    let sorted = sorted(values);
    let rank = (sorted.len() * hundredths).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

/// Returns the smallest and the largest value.
pub(super) fn range(values: &[f64]) -> Option<[f64; 2]> {
    let sorted = sorted(values);
    Some([*sorted.first()?, *sorted.last()?])
}

/// Returns Jain's fairness index: 1 if all shares are equal, 1/n if one of n has everything.
pub(super) fn fairness(shares: &[f64]) -> f64 {
    let total: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    if squares == 0.0 {
        return 0.0;
    }
    total * total / (shares.len() as f64 * squares)
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_stands_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let values: Vec<_> = (1..=200).map(f64::from).collect();
        assert_eq!(percentile(&values, 50), Some(100.0));
        assert_eq!(percentile(&values, 99), Some(198.0));
        assert_eq!(percentile(&[7.0], 99), Some(7.0));
        assert_eq!(percentile(&[], 99), None);
    }

    #[test]
    fn fairness_is_one_for_equal_shares_and_small_for_a_greedy_one() {
        let equal = fairness(&[5.0, 5.0, 5.0, 5.0]);
        let greedy = fairness(&[20.0, 0.0, 0.0, 0.0]);
        assert!((equal - 1.0).abs() < 1e-9, "{equal}");
        assert!((greedy - 0.25).abs() < 1e-9, "{greedy}");
    }
}

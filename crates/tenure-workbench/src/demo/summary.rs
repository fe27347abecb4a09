//! Formats the numbers at the end of a demo for people.

use crate::terminal;
use tenure_cli::output::with_bold_heading;

/// Returns a table with numbers in all columns but the first, and a bold heading.
pub(super) fn table(headings: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = terminal::table(headings, 1..headings.len());
    table.add_rows(rows);
    with_bold_heading(&table)
}

/// Returns the smallest of the sorted values that this share of them does not exceed.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a length is one"
)]
pub(super) fn quantile(sorted: &[u64], share: f64) -> u64 {
    let place = (sorted.len() as f64 * share).ceil() as usize;
    let found = sorted.get(place.saturating_sub(1));
    found.copied().unwrap_or(0)
}

/// Formats microseconds in a suitable unit.
pub(super) fn time(us: u64) -> String {
    match us {
        0..10_000 if !us.is_multiple_of(1000) || us == 0 => format!("{us} µs"),
        0..10_000_000 if !us.is_multiple_of(1_000_000) => format!("{} ms", us / 1000),
        _ => format!("{} s", us / 1_000_000),
    }
}

/// Formats a number with its noun.
pub(super) fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values() {
        let values: Vec<_> = (1..=200).collect();
        assert_eq!(quantile(&values, 0.50), 100);
        assert_eq!(quantile(&values, 0.99), 198);
        assert_eq!(quantile(&[7], 0.99), 7);
        assert_eq!(quantile(&[], 0.50), 0);
    }

    #[test]
    fn times_have_the_unit_that_fits() {
        let times = [0, 7, 1500, 3000, 10_500, 3_000_000, 3_100_000, 12_500_000].map(time);
        assert_eq!(
            times,
            [
                "0 µs", "7 µs", "1500 µs", "3 ms", "10 ms", "3 s", "3100 ms", "12 s"
            ]
        );
    }
}

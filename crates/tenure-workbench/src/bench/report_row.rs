//! One row of the report: a figure, its comparison, and its aim.

use serde::Serialize;

use crate::bench::stores::TENURE;
use crate::bench::workload::Workload;

/// A figure of a workload, and how to report it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) workload: Workload,
    /// The figure's name in [`Figures`](crate::bench::figures::Figures).
    pub(super) figure: &'static str,
    /// The text for people.
    pub(super) what: &'static str,
    pub(super) unit: Unit,
    /// The label of the contender that the figure belongs to.
    pub(super) who: &'static str,
    /// The label of the contender that it is compared with.
    pub(super) floor: Option<&'static str>,
    /// If not empty, it is compared with the slowest of these labels instead.
    pub(super) slowest_of: &'static [&'static str],
    pub(super) aim: Aim,
}

impl Row {
    /// Reports the figure of this label instead.
    pub(super) const fn of(self, who: &'static str) -> Self {
        Self { who, ..self }
    }

    /// Compares it with the one of these labels whose figure has the largest median.
    pub(super) const fn beside_slowest_of(self, floors: &'static [&'static str]) -> Self {
        Self {
            slowest_of: floors,
            ..self
        }
    }
}

/// Creates a row for a figure of the store itself, with an optional floor and aim.
pub(super) const fn row(
    workload: Workload,
    figure: &'static str,
    what: &'static str,
    unit: Unit,
    floor: Option<&'static str>,
    aim: Aim,
) -> Row {
    Row {
        workload,
        figure,
        what,
        unit,
        who: TENURE,
        floor,
        slowest_of: &[],
        aim,
    }
}

/// The unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Bytes,
    Micros,
    Millis,
    Number,
    PerSecond,
    Percent,
}

impl Unit {
    /// Formats a figure for people.
    pub(super) fn show(self, value: f64) -> String {
        let number = short(value);
        match self {
            Self::Bytes => format!("{number} B"),
            Self::Micros => format!("{number} µs"),
            Self::Millis => format!("{number} ms"),
            Self::Number => number,
            Self::PerSecond => format!("{number}/s"),
            Self::Percent => format!("{number} %"),
        }
    }
}

/// The value that a figure, or its ratio to the floor, should have.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Aim {
    None,
    AtLeast(f64),
    AtMost(f64),
    RatioAtLeast(f64),
    RatioAtMost(f64),
}

impl Aim {
    /// Returns whether the aim is met; `None` if there is no aim, or no ratio to judge by.
    pub(super) fn is_met(self, value: f64, ratio: Option<f64>) -> Option<bool> {
        Some(match self {
            Self::None => return None,
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
            Self::RatioAtLeast(least) => ratio? >= least,
            Self::RatioAtMost(most) => ratio? <= most,
        })
    }

    /// Formats the aim for people.
    pub(super) fn show(self, unit: Unit) -> String {
        match self {
            Self::None => String::new(),
            Self::AtLeast(least) => format!("≥ {}", unit.show(least)),
            Self::AtMost(most) => format!("≤ {}", unit.show(most)),
            Self::RatioAtLeast(least) => format!("≥ {least}×"),
            Self::RatioAtMost(most) => format!("≤ {most}×"),
        }
    }
}

/// Formats a number with about three significant digits, and commas between thousands.
pub(super) fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size < 0.1 => format!("{value:.4}"),
        size if size < 10.0 => format!("{value:.2}"),
        size if size < 100.0 => format!("{value:.1}"),
        _ => thousands(&format!("{value:.0}")),
    }
}

fn thousands(digits: &str) -> String {
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        let cases = [
            (0.0, "0"),
            (0.0042, "0.0042"),
            (1.234, "1.23"),
            (23.45, "23.4"),
            (999.4, "999"),
            (1_234_567.0, "1,234,567"),
        ];
        for (value, text) in cases {
            assert_eq!(Unit::Number.show(value), text);
        }
        assert_eq!(Unit::PerSecond.show(300_000.0), "300,000/s");
    }

    #[test]
    fn an_aim_is_met_on_its_own_side() {
        assert_eq!(Aim::AtLeast(2.0).is_met(2.0, None), Some(true));
        assert_eq!(Aim::AtMost(2.0).is_met(2.1, None), Some(false));
        assert_eq!(Aim::RatioAtMost(2.0).is_met(9.0, Some(1.9)), Some(true));
        assert_eq!(Aim::RatioAtLeast(2.0).is_met(9.0, Some(1.9)), Some(false));
        assert_eq!(Aim::RatioAtLeast(2.0).is_met(9.0, None), None);
    }
}

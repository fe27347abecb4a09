//! Durations as people write and read them: `30s`, `1m30s`, `500ms`.

use std::fmt;
use std::time::Duration;

/// Reads a duration such as `30s`, `1m30s` or `500ms`.
pub fn parse(text: &str) -> Result<Duration, String> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(format!("a duration is missing; {EXAMPLES}"));
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = split_at_first(rest, |c| !c.is_ascii_digit());
        let unit = split_at_first(digits.1, |c| !c.is_ascii_alphabetic());
        let number: u64 = match digits.0.parse() {
            Ok(number) => number,
            Err(_) if digits.0.is_empty() => {
                return Err(format!("it is not a duration; {EXAMPLES}"));
            }
            Err(_) => return Err("it is too long".to_owned()),
        };
        let one = unit_of(unit.0, number)?;
        total = number
            .checked_mul(one)
            .and_then(|millis| total.checked_add(Duration::from_millis(millis)))
            .ok_or("it is too long")?;
        rest = unit.1;
    }
    Ok(total)
}

/// Returns the milliseconds of a unit.
fn unit_of(unit: &str, number: u64) -> Result<u64, String> {
    match unit {
        "ms" => Ok(1),
        "s" => Ok(1000),
        "m" => Ok(60 * 1000),
        "h" => Ok(60 * 60 * 1000),
        "d" => Ok(24 * 60 * 60 * 1000),
        "" => Err(format!("{number} of what? Write {number}s for seconds")),
        _ => Err(format!("{unit:?} is not a unit; {EXAMPLES}")),
    }
}

fn split_at_first(text: &str, end: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(end).unwrap_or(text.len()))
}

/// Shows a duration to people, in at most two units.
#[derive(Debug, Clone, Copy)]
pub struct Rounded(pub Duration);

impl fmt::Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, millis) = (self.0.as_secs(), self.0.subsec_millis());
        let text = match seconds {
            0 => format!("{millis}ms"),
            1..10 if millis >= 100 => format!("{seconds}.{}s", millis / 100),
            1..60 => format!("{seconds}s"),
            60..3600 => two(seconds / 60, "m", seconds % 60, "s"),
            3600..86400 => two(seconds / 3600, "h", seconds / 60 % 60, "m"),
            _ => two(seconds / 86400, "d", seconds / 3600 % 24, "h"),
        };
        f.pad(&text)
    }
}

fn two(large: u64, large_unit: &str, small: u64, small_unit: &str) -> String {
    match small {
        0 => format!("{large}{large_unit}"),
        _ => format!("{large}{large_unit}{small}{small_unit}"),
    }
}

const EXAMPLES: &str = "write for example 500ms, 30s, 1m30s or 2h";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        let cases = [
            ("500ms", 500),
            ("30s", 30_000),
            ("1m30s", 90_000),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
            ("0s", 0),
        ];
        for (text, millis) in cases {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn refuses_what_could_mean_two_things() {
        for text in [
            "",
            "30",
            "s",
            "-5s",
            "1.5s",
            "5x",
            "1s5",
            "99999999999999999999s",
            "1 s",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_plain_number_gets_a_hint() {
        assert!(parse("30").unwrap_err().contains("30s"));
    }

    #[test]
    fn shows_at_most_two_units() {
        let cases = [
            (0, "0ms"),
            (999, "999ms"),
            (1500, "1.5s"),
            (59_999, "59s"),
            (90_000, "1m30s"),
            (3_600_000, "1h"),
            (90_061_000, "1d1h"),
        ];
        for (millis, text) in cases {
            assert_eq!(Rounded(Duration::from_millis(millis)).to_string(), text);
        }
    }
}

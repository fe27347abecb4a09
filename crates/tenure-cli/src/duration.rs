//! Durations as people write and read them: `30s`, `1m30s`, `500ms`.

use std::fmt;
use std::time::Duration;

/// Reads a duration such as `30s`, `1m30s` or `500ms`.
pub fn parse(text: &str) -> Result<Duration, String> {
    let mut rest = text.trim();
    let wrong = || explain(text.trim());
    if rest.is_empty() {
        return Err(wrong());
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = split_at_first(rest, |c| !c.is_ascii_digit());
        let unit = split_at_first(digits.1, |c| !c.is_ascii_alphabetic());
        let (_, millis) = UNITS
            .iter()
            .find(|row| row.0[0] == unit.0)
            .ok_or_else(wrong)?;
        if digits.0.is_empty() {
            return Err(wrong());
        }
        let number = digits.0.parse::<u64>().ok();
        total = number
            .and_then(|number| number.checked_mul(*millis))
            .and_then(|millis| total.checked_add(Duration::from_millis(millis)))
            .ok_or("it is too long")?;
        rest = unit.1;
    }
    Ok(total)
}

/// Says what to write instead.
fn explain(text: &str) -> String {
    match meant(text.trim_start_matches('-')) {
        Some(meant) if text.starts_with('-') => format!("it is negative; write {meant}"),
        Some(_) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{text} of what? Write {text}s for seconds")
        }
        Some(meant) => format!("write {meant}"),
        None => "write for example 500ms, 30s, 1m30s or 2h".to_owned(),
    }
}

/// Returns the right form of a duration such as `1.5s` or `5 min`.
fn meant(text: &str) -> Option<String> {
    let is_number = |c: char| c.is_ascii_digit() || ".,".contains(c);
    let (number, unit) = split_at_first(text, |c| !is_number(c));
    let number: f64 = number.replace(',', ".").parse().ok()?;
    let unit = unit.trim().trim_end_matches('.').to_lowercase();
    let unit = if unit.is_empty() { "s" } else { &unit };
    let (_, millis) = UNITS.iter().find(|row| row.0.contains(&unit))?;
    let time = Duration::from_millis(*millis).as_secs_f64() * number;
    let mut left = Duration::try_from_secs_f64(time).ok()?.as_millis();
    let mut form = String::new();
    for (names, millis) in UNITS {
        let count = left / u128::from(*millis);
        left %= u128::from(*millis);
        if count > 0 {
            form += &format!("{count}{}", names[0]);
        }
    }
    (!form.is_empty()).then_some(form)
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

/// The units and their milliseconds: how they are written, and what else people write.
const UNITS: &[(&[&str], u64)] = &[
    (&["d", "day", "days"], 24 * 60 * 60 * 1000),
    (&["h", "hr", "hrs", "hour", "hours"], 60 * 60 * 1000),
    (&["m", "min", "mins", "minute", "minutes"], 60 * 1000),
    (&["s", "sec", "secs", "second", "seconds"], 1000),
    (&["ms", "msec", "millis", "millisecond", "milliseconds"], 1),
];

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
    fn an_error_shows_the_right_form() {
        let cases = [
            ("", "write for example 500ms, 30s, 1m30s or 2h"),
            ("soon", "write for example 500ms, 30s, 1m30s or 2h"),
            ("0.0001ms", "write for example 500ms, 30s, 1m30s or 2h"),
            ("90", "90 of what? Write 90s for seconds"),
            ("1.5s", "write 1s500ms"),
            ("1,5h", "write 1h30m"),
            ("0.5", "write 500ms"),
            ("5 min", "write 5m"),
            ("2 Hours", "write 2h"),
            ("10sec.", "write 10s"),
            ("1 s", "write 1s"),
            ("-5s", "it is negative; write 5s"),
            ("99999999999999999999s", "it is too long"),
        ];
        for (text, told) in cases {
            assert_eq!(parse(text), Err(told.to_owned()), "{text}");
        }
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

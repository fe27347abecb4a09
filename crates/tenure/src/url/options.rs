//! The options of a URL, taken one by one.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::error::Result;
use crate::url::{invalid, not_empty};

/// The options of a URL: a store takes those that it knows, and refuses the rest.
///
/// An option with an empty value counts as omitted. Values may be passwords, so `Debug` does not
/// show them.
#[derive(Clone)]
pub(crate) struct Options {
    left: Vec<(String, String)>,
    known: BTreeSet<&'static str>,
}

impl Options {
    pub(super) fn new(options: &[(String, String)]) -> Self {
        Self {
            left: options.to_vec(),
            known: BTreeSet::new(),
        }
    }

    /// Takes the value of an option unchanged, even if it is empty.
    pub(crate) fn raw(&mut self, key: &'static str) -> Option<String> {
        self.known.insert(key);
        let index = self.left.iter().position(|(known, _)| known == key)?;
        Some(self.left.swap_remove(index).1)
    }

    /// Takes the value of an option.
    pub(crate) fn text(&mut self, key: &'static str) -> Option<String> {
        self.raw(key).and_then(not_empty)
    }

    /// Takes a number.
    pub(crate) fn number<T: FromStr>(&mut self, key: &'static str) -> Result<Option<T>> {
        let number = self.text(key).map(|text| text.parse());
        let number = number.transpose();
        number.map_err(|_| invalid(format!("{key} is a number")))
    }

    /// Takes a duration from 1 ms to a year, such as `500ms`, `2s`, `5m` or `1h`.
    pub(crate) fn duration(&mut self, key: &'static str) -> Result<Option<Duration>> {
        let Some(text) = self.text(key) else {
            return Ok(None);
        };
        let wrong = || invalid(format!("{key} is a time such as 500ms, 2s or 1h"));
        let digits = text.trim_end_matches(char::is_alphabetic);
        let number: u64 = digits.parse().map_err(|_| wrong())?;
        let unit = match &text[digits.len()..] {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return Err(wrong()),
        };
        let time = Duration::from_millis(number.checked_mul(unit).ok_or_else(wrong)?);
        if time.is_zero() || time > LONGEST {
            return Err(invalid(format!("{key} is between 1ms and 8760h")));
        }
        Ok(Some(time))
    }

    /// Takes a switch, which is on if omitted.
    pub(crate) fn switch(&mut self, key: &'static str) -> Result<bool> {
        match self.text(key).as_deref() {
            None | Some("on") => Ok(true),
            Some("off") => Ok(false),
            Some(_) => Err(invalid(format!("{key} is on or off"))),
        }
    }

    /// Takes the option if its value is `off`, and returns whether it is.
    pub(crate) fn take_off(&mut self, key: &'static str) -> bool {
        let is_off = |(known, value): &(String, String)| known == key && value == "off";
        self.left.iter().any(is_off) && self.raw(key).is_some()
    }

    /// Returns whether any of these is left.
    pub(crate) fn has_any(&self, keys: &[&str]) -> bool {
        let mut left = self.left.iter();
        left.any(|(key, _)| keys.contains(&key.as_str()))
    }

    /// Adds an option if it is missing.
    pub(crate) fn set_default(&mut self, key: &str, value: &str) {
        if !self.has_any(&[key]) {
            self.left.push((key.to_owned(), value.to_owned()));
        }
    }

    /// Adds the other options that are missing here.
    pub(crate) fn set_defaults(&mut self, others: &Self) {
        for (key, value) in &others.left {
            self.set_default(key, value);
        }
        self.known.extend(&others.known);
    }

    /// Refuses options that nobody has taken.
    pub(crate) fn finish(self) -> Result<()> {
        match self.left.first() {
            None => Ok(()),
            Some((key, _)) if key.contains('@') => Err(invalid(
                "a ? in a password is written %3F: options follow the first one that is not",
            )),
            // Only the key is shown, because the value may be a password.
            Some((key, _)) => {
                let known = Vec::from_iter(self.known).join(", ");
                Err(invalid(format!(
                    "there is no option {key:?}; known: {known}"
                )))
            }
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.left.iter().map(|(key, _)| key);
        f.debug_set().entries(keys).finish()
    }
}

const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

#[cfg(test)]
mod tests {
    use crate::url::StoreUrl;

    #[test]
    fn what_is_left_of_the_options_is_refused_with_those_that_are_known() {
        let url = StoreUrl::parse("redis://a?b=1&c=secret&a=2").unwrap();
        let mut options = url.options();
        assert_eq!(options.number("b").unwrap(), Some(1));
        assert_eq!(options.number::<u8>("a").unwrap(), Some(2));
        assert!(!format!("{options:?}").contains("secret"));
        let error = options.finish().unwrap_err().to_string();
        assert!(
            error.ends_with("there is no option \"c\"; known: a, b"),
            "{error}"
        );
    }
}

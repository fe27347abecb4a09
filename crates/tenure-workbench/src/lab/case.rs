//! A case of the lab: a broken lock, the fault that breaks it, and the promise that is broken.

use std::time::Duration;

use serde::Serialize;
use tenure_checker::{Expect, Promise};

use super::cases;
use super::error::Result;
use super::experiment::{Experiment, PATIENCE};
use crate::recipes::Recipe;
use tenure_cli::Failure;

/// One mistake, and the experiment that shows it; what JSON shows of it, scripts depend on.
#[derive(Debug, Serialize)]
pub(super) struct Case {
    /// Its number; a mistake of two kinds has two cases of one number.
    pub(super) number: u32,
    /// What people write after `tenure lab`.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// The lock with the mistake.
    #[serde(skip)]
    pub(super) recipe: Recipe,
    /// What breaks it, in words.
    pub(super) fault: &'static str,
    /// The faults that have to be seen to have landed.
    #[serde(skip)]
    pub(super) faults: &'static [&'static str],
    /// The promise that must be broken, and no other.
    pub(super) breaks: Promise,
    /// What tenure does instead, in a sentence.
    pub(super) instead: &'static str,
    /// The whole story.
    pub(super) lesson: &'static str,
    /// How long a lock lasts that nobody renews.
    #[serde(skip)]
    pub(super) ttl: Duration,
    /// How many grants tenure has to show.
    #[serde(skip)]
    pub(super) grants: usize,
    /// The experiment, the same for the broken lock and for tenure.
    #[serde(skip)]
    pub(super) run: fn(&mut Experiment) -> Result<()>,
}

impl Case {
    /// What an experiment has to show. Nobody looks at the store's line, so the order of waiters is not judged.
    pub(super) fn expect(&self) -> Expect {
        let expect = Expect::new().without(Promise::Order);
        let expect = expect.grants(self.grants).patience(PATIENCE);
        self.faults
            .iter()
            .fold(expect, |expect, kind| expect.fault(*kind))
    }
}

/// The cases that were asked for by number or name; all of them if none was.
pub(super) fn chosen(asked: &[String]) -> Result<Vec<&'static Case>, Failure> {
    if asked.is_empty() {
        return Ok(cases::ALL.to_vec());
    }
    for word in asked {
        if !cases::ALL.iter().any(|case| is_meant(case, word)) {
            return Err(Failure::usage(format!(
                "there is no case {word} in the lab; see all of them with 'tenure lab --list'"
            )));
        }
    }
    let meant = |case: &&&Case| asked.iter().any(|word| is_meant(case, word));
    Ok(cases::ALL.iter().filter(meant).copied().collect())
}

fn is_meant(case: &Case, word: &str) -> bool {
    word == case.name || word.parse() == Ok(case.number)
}

/// Short enough to wait for, and long enough for a slow machine to do something in it.
pub(super) const SHORT: Duration = Duration::from_secs(3);

/// Longer than any step of an experiment may take.
pub(super) const LONG: Duration = Duration::from_secs(90);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_has_a_name_of_its_own_and_cases_are_in_order() {
        let mut names: Vec<_> = cases::ALL.iter().map(|case| case.name).collect();
        assert!(cases::ALL.is_sorted_by_key(|case| case.number));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), cases::ALL.len());
    }

    #[test]
    fn cases_are_found_by_number_and_by_name() {
        let names = |asked: &[&str]| -> Vec<_> {
            let asked: Vec<_> = asked.iter().map(|word| (*word).to_owned()).collect();
            chosen(&asked)
                .unwrap()
                .iter()
                .map(|case| case.name)
                .collect()
        };
        assert_eq!(names(&["5"]), ["del"]);
        assert_eq!(names(&["blind-retry", "1"]), ["process", "blind-retry"]);
        assert_eq!(names(&["9"]), ["renew-any-owner", "renew-recreate"]);
        assert_eq!(names(&[]).len(), cases::ALL.len());
    }

    #[test]
    fn an_unknown_case_is_refused() {
        for word in ["0", "16", "DEL", "", "5 "] {
            assert!(chosen(&[word.to_owned()]).is_err(), "{word:?}");
        }
    }
}

//! A case of the lab: a broken lock, the fault that breaks it, and the promise that is broken.

use std::time::Duration;

use serde::Serialize;
use tenure_checker::{Expect, Promise};

use super::cases;
use super::error::Result;
use super::experiment::{Experiment, PATIENCE};
use crate::recipes::Recipe;
use tenure_cli::Failure;

/// One mistake, and the experiment that shows it. Scripts depend on its JSON form.
#[derive(Debug, Serialize)]
pub(super) struct Case {
    /// Its number; two variants of one mistake are two cases with the same number.
    pub(super) number: u32,
    /// The name as users write it after `tenure lab`.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// The lock with the mistake.
    #[serde(skip)]
    pub(super) recipe: Recipe,
    /// The fault that breaks it, in words.
    pub(super) fault: &'static str,
    /// The faults that must have happened.
    #[serde(skip)]
    pub(super) faults: &'static [&'static str],
    /// The only promise that must be broken.
    pub(super) breaks: Promise,
    /// What tenure does instead, in one sentence.
    pub(super) instead: &'static str,
    /// The whole story.
    pub(super) lesson: &'static str,
    /// How long a lock lasts without renewal.
    #[serde(skip)]
    pub(super) ttl: Duration,
    /// How many grants tenure must show.
    #[serde(skip)]
    pub(super) grants: usize,
    /// The experiment, the same for the broken lock and for tenure.
    #[serde(skip)]
    pub(super) run: fn(&mut Experiment) -> Result<()>,
}

impl Case {
    /// Returns what an experiment must show. Nobody observes the store's line, so the order of
    /// waiters is not judged.
    pub(super) fn expect(&self) -> Expect {
        let expect = Expect::new().without(Promise::Order);
        let expect = expect.grants(self.grants).patience(PATIENCE);
        self.faults
            .iter()
            .fold(expect, |expect, kind| expect.fault(*kind))
    }
}

/// Returns the cases with these numbers or names, or all of them if there are none.
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

/// Short enough to wait for, and long enough to do something on a slow machine.
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

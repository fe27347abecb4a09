//! A case of the lab: a broken lock, the fault that breaks it, and the promise that is broken.

use std::time::Duration;

use tenure_checker::{Expect, Promise};

use super::cases;
use super::scene::{PATIENCE, Scene};
use super::upset::Result;
use crate::recipes::Kind;
use tenure_cli::error::Failure;
use tenure_cli::exit_code;

/// One mistake, and how it is shown.
#[derive(Debug)]
pub(super) struct Case {
    /// Its number; a mistake of two kinds has two cases of one number.
    pub(super) number: u32,
    pub(super) title: &'static str,
    pub(super) recipe: Kind,
    /// What breaks it, in words.
    pub(super) fault: &'static str,
    /// The faults that have to be seen to have landed.
    pub(super) faults: &'static [&'static str],
    /// The promise that must be broken, and no other.
    pub(super) breaks: Promise,
    /// What tenure does instead, in a sentence.
    pub(super) instead: &'static str,
    /// The whole story.
    pub(super) lesson: &'static str,
    /// How long a lock lasts that nobody renews.
    pub(super) ttl: Duration,
    /// How many grants tenure's play has to show.
    pub(super) grants: usize,
    /// The play itself, the same for the broken lock and for tenure.
    pub(super) play: fn(&mut Scene) -> Result<()>,
}

impl Case {
    pub(super) fn name(&self) -> &'static str {
        self.recipe.name()
    }

    /// What a play has to show. Nobody is looked for in the store's line, so the order of waiters is not judged.
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
            let sentence = format!(
                "there is no case {word} in the lab; see all of them with 'tenure lab --list'"
            );
            return Err(Failure::new(exit_code::USAGE, sentence));
        }
    }
    let meant = |case: &&&Case| asked.iter().any(|word| is_meant(case, word));
    Ok(cases::ALL.iter().filter(meant).copied().collect())
}

fn is_meant(case: &Case, word: &str) -> bool {
    word == case.name() || word.parse() == Ok(case.number)
}

/// Short enough to wait for, and long enough for a slow machine to do something in it.
pub(super) const SHORT: Duration = Duration::from_secs(3);

/// Longer than any step of a play may take.
pub(super) const LONG: Duration = Duration::from_secs(90);

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn every_recipe_has_its_case() {
        let shown: Vec<_> = cases::ALL.iter().map(|case| case.recipe).collect();
        assert_eq!(shown, Kind::value_variants());
    }

    #[test]
    fn cases_are_found_by_number_and_by_name() {
        let names = |asked: &[&str]| -> Vec<_> {
            let asked: Vec<_> = asked.iter().map(|word| (*word).to_owned()).collect();
            chosen(&asked)
                .unwrap()
                .iter()
                .map(|case| case.name())
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

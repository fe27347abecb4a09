//! Checks a store for settings that endanger locks, and advises what to do about them.

use std::error::Error as _;
use std::time::Duration;

use tokio::time::timeout;

use crate::error::{Error, Result};
use crate::guard::Outcome;
use crate::open;
use crate::random::random_u128;
use crate::schemes::Scheme;

/// The result of one check of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// What was checked, in one word such as `"eviction"`.
    pub check: &'static str,
    /// How serious it is.
    pub verdict: Verdict,
    /// What was found, in a sentence; never contains a password.
    pub found: String,
    /// What to do about it, in a sentence, if there is anything to do.
    pub advice: Option<String>,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Verdict {
    /// Locks are as safe as they can be in this respect.
    Fine,
    /// Could not be checked, so nothing is known; this is not a pass.
    Unknown,
    /// Locks work, but not in every situation.
    Warning,
    /// Locks do not work, or are lost in normal operation.
    Problem,
}

/// Checks the store that a URL names for what endangers locks.
///
/// The URL is that of [`open`](crate::open()). Checks that have to write use keys with a random
/// name that expire. Finally, the doctor takes and releases a lock with a random name. It touches
/// no other lock.
///
/// # Errors
///
/// [`InvalidUrl`](crate::Error::InvalidUrl) for a URL that names no store, and what the store
/// reports if it cannot be reached. A setting that the store refuses to show is a finding.
///
/// # Panics
///
/// Outside a Tokio runtime.
///
/// # Cancel safety
///
/// Cancel safe: what a dropped call leaves behind expires.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> tenure::Result<()> {
/// for finding in tenure::doctor("memory:").await? {
///     println!("{:?}: {}", finding.verdict, finding.found);
/// }
/// # Ok(())
/// # }
/// ```
pub async fn doctor(url: &str) -> Result<Vec<Finding>> {
    let store = Scheme::store(url)?;
    let mut findings = (store.doctor)(url).await?;
    let lacks =
        |finding: &Finding| finding.check == RIGHTS.0 && finding.verdict == Verdict::Problem;
    // A script that lacks a permission stops before its end, and would leave its first changes
    // behind.
    if !findings.iter().any(lacks) {
        findings.push(try_out(url).await);
    }
    Ok(findings)
}

/// Takes a lock as programs do, because a store may refuse more than its settings show.
async fn try_out(url: &str) -> Finding {
    let found = match take_and_release(url).await {
        Ok(Some(Outcome::NotHeld(loss))) => {
            format!("a lock was lost as soon as it was taken: {loss}")
        }
        Ok(Some(_)) => return LOCK.fine("a lock was taken and released"),
        Ok(None) => "no lock can be taken: a name that nobody can know is taken".to_owned(),
        Err(error) => format!("no lock can be taken: {}", chain(&error)),
    };
    let advice = "fix this first: programs that lock fail in the same way";
    LOCK.problem(found, advice)
}

async fn take_and_release(url: &str) -> Result<Option<Outcome>> {
    let client = open::open(url).await?;
    let ttl = LOCK_TTL.min(client.capabilities().longest_ttl);
    let name = format!("tenure-doctor-{:032x}", random_u128());
    let lock = client.mutex(&name).ttl(ttl).reason("tenure doctor");
    let outcome = match lock.try_lock().await {
        Ok(Some(guard)) => guard.release().await.map(Some),
        Ok(None) => Ok(None),
        Err(error) => Err(error),
    };
    // If the store does not answer, what is left there ends by its ttl.
    let _ = timeout(ttl, client.settled()).await;
    outcome
}

/// Returns the error with its causes.
fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Merges the findings of servers.
///
/// A finding that all `count` servers share is listed once. Any other names the servers that it is
/// about.
#[allow(dead_code, reason = "not every store has several servers")]
pub(crate) fn merge(each: Vec<(String, Vec<Finding>)>, count: usize) -> Vec<Finding> {
    let mut said: Vec<(Finding, Vec<String>)> = Vec::new();
    for (place, findings) in each {
        for finding in findings {
            match said.iter_mut().find(|(known, _)| *known == finding) {
                Some((_, places)) => places.push(place.clone()),
                None => said.push((finding, vec![place.clone()])),
            }
        }
    }
    // The findings of one check stay together.
    let mut order: Vec<&str> = Vec::new();
    for (finding, _) in &said {
        if !order.contains(&finding.check) {
            order.push(finding.check);
        }
    }
    said.sort_by_key(|(finding, _)| order.iter().position(|check| *check == finding.check));
    let name = |(finding, places): (Finding, Vec<String>)| match places.len() < count {
        true => Finding {
            found: format!("{}: {}", places.join(", "), finding.found),
            ..finding
        },
        false => finding,
    };
    said.into_iter().map(name).collect()
}

/// The name of a check, and the constructor of its findings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Check(pub(crate) &'static str);

#[allow(dead_code, reason = "not every store has findings of all kinds")]
impl Check {
    /// Returns a finding without a problem.
    pub(crate) fn fine(self, found: impl Into<String>) -> Finding {
        Finding {
            check: self.0,
            verdict: Verdict::Fine,
            found: found.into(),
            advice: None,
        }
    }

    /// Returns a finding about something that could not be checked.
    pub(crate) fn unknown(self, found: impl Into<String>, advice: impl Into<String>) -> Finding {
        self.fine(found).but(Verdict::Unknown, advice)
    }

    /// Returns a finding about a risk.
    pub(crate) fn warning(self, found: impl Into<String>, advice: impl Into<String>) -> Finding {
        self.fine(found).but(Verdict::Warning, advice)
    }

    /// Returns a finding about a problem.
    pub(crate) fn problem(self, found: impl Into<String>, advice: impl Into<String>) -> Finding {
        self.fine(found).but(Verdict::Problem, advice)
    }
}

impl Finding {
    /// Returns the same finding with another verdict and advice.
    pub(crate) fn but(self, verdict: Verdict, advice: impl Into<String>) -> Self {
        Self {
            verdict,
            advice: Some(advice.into()),
            ..self
        }
    }
}

impl Verdict {
    /// Returns the verdict as a word: `ok`, `unknown`, `warning` or `problem`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fine => "ok",
            Self::Unknown => "unknown",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// The check of a user's permissions.
pub(crate) const RIGHTS: Check = Check("rights");

const LOCK: Check = Check("lock");

const LOCK_TTL: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_masters_share_is_said_once() {
        let shared = Check("eviction").fine("noeviction");
        let own = Check("persistence").fine("always");
        let other = Check("persistence").warning("none", "turn it on");
        let each = vec![
            ("a".to_owned(), vec![shared.clone(), own]),
            ("b".to_owned(), vec![shared.clone(), other]),
        ];
        let found = merge(each.clone(), 2);
        let told: Vec<_> = found.iter().map(|finding| finding.found.as_str()).collect();
        assert_eq!(told, ["noeviction", "a: always", "b: none"]);
        assert_eq!(found[0], shared);
        // A third server has no such finding.
        assert_eq!(merge(each, 3)[0].found, "a, b: noeviction");
    }
}

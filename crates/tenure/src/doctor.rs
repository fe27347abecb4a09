//! Settings of a store that endanger locks: what was found, and what to do about it.

use crate::error::Result;
use crate::open;

/// What one look at a store found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// What was looked at, in one word such as `"eviction"`.
    pub check: &'static str,
    /// How it is.
    pub verdict: Verdict,
    /// What was found, in a sentence; never has a password in it.
    pub found: String,
    /// What to do about it, in a sentence, where there is something to do.
    pub advice: Option<String>,
}

/// How a finding is to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Verdict {
    /// Locks are as safe as they can be in this respect.
    Fine,
    /// Nobody could look, so nothing is known; it is no pass.
    Unknown,
    /// Locks hold, but not through everything that may happen.
    Warning,
    /// Locks do not work, or are lost in daily use.
    Problem,
}

/// Looks at the store that a URL names for what endangers locks.
///
/// The URL is that of [`open`](crate::open()). Where the store has to be tried out, keys of a
/// random name are used that end by themselves. Nobody's lock is touched.
///
/// # Errors
///
/// [`InvalidUrl`](crate::Error::InvalidUrl) for a URL that names no store, and what the store
/// reports if it cannot be reached. What it refuses to show is a finding.
///
/// # Panics
///
/// Outside a Tokio runtime.
///
/// # Cancel safety
///
/// Cancel safe: what a dropped call leaves behind ends by itself.
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
    open::doctor(url).await
}

impl Finding {
    /// Nothing to do.
    pub(crate) fn fine(check: &'static str, found: impl Into<String>) -> Self {
        Self {
            check,
            verdict: Verdict::Fine,
            found: found.into(),
            advice: None,
        }
    }

    /// Something that may go wrong.
    pub(crate) fn warning(
        check: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self::fine(check, found).but(Verdict::Warning, advice)
    }

    /// Something that goes wrong.
    #[cfg(any(feature = "redis", all(feature = "local", target_os = "linux")))]
    pub(crate) fn problem(
        check: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self::fine(check, found).but(Verdict::Problem, advice)
    }

    /// Something that could not be looked at.
    #[cfg(feature = "redis")]
    pub(crate) fn unknown(
        check: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self::fine(check, found).but(Verdict::Unknown, advice)
    }

    /// The same with another verdict, and what to do.
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

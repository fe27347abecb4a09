//! The words of the domain, checked once where they enter: what is locked, who asks, which grant.

use std::fmt;
use std::io::Write;
use std::num::NonZeroU64;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::random::random_u128;

/// What is locked: any UTF-8 text of 1 to 255 bytes without control characters.
///
/// # Examples
///
/// ```
/// use tenure::Name;
///
/// assert!("inventory:001".parse::<Name>().is_ok());
/// assert!("".parse::<Name>().is_err());
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// The longest name, in bytes.
    pub const MAX_BYTES: usize = 255;

    /// Checks `text` and makes a name of it.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidName`] with the rule that `text` breaks.
    pub fn new(text: &str) -> Result<Self> {
        match broken_rule(text) {
            None => Ok(Self(text.into())),
            Some(reason) => Err(Error::InvalidName { reason }),
        }
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::new(text)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &self.0)
    }
}

/// Who asks: the same owner may lock a name again, nobody else may touch its lease.
///
/// Whoever knows an owner can release its locks, so an owner that the library makes is unguessable
/// and an owner's text never reaches a log.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(Arc<str>);

impl Owner {
    /// The longest owner, in bytes.
    pub const MAX_BYTES: usize = 255;

    /// Makes an owner that nobody else has.
    pub fn unique() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // Ids that count on from run to run would give maps another order in each.
        #[cfg(feature = "simulation")]
        if crate::random::seeded::is_on() {
            return Self(format!("{:032x}", random_u128()).into());
        }
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        // Every lock makes one, so it is written with one allocation instead of three.
        let mut text = [0; 64];
        let mut rest = &mut text[..];
        let written = write!(rest, "{}:{number:x}", process_id());
        let length = 64 - rest.len();
        match std::str::from_utf8(&text[..length]) {
            Ok(text) if written.is_ok() => Self(text.into()),
            _ => Self::of_this_process(number),
        }
    }

    /// Returns the owner of the running task, or of the thread outside a task.
    ///
    /// Nested calls in one task get the same owner without passing anything, so that an inner
    /// call may lock again what an outer one holds. Futures that one task polls side by side
    /// (`join!`, `select!`) share its owner, and so do not exclude each other.
    ///
    /// # Examples
    ///
    /// ```
    /// use tenure::Owner;
    ///
    /// assert_eq!(Owner::current(), Owner::current());
    /// assert_ne!(Owner::current(), Owner::unique());
    /// ```
    pub fn current() -> Self {
        match tokio::task::try_id() {
            Some(task) => Self::of_this_process(format_args!("task-{task}")),
            None => {
                static NEXT: AtomicU64 = AtomicU64::new(1);
                thread_local! {
                    // `ThreadId` has no stable number; this one is never used twice.
                    static THREAD: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
                }
                THREAD.with(|thread| Self::of_this_process(format_args!("thread-{thread}")))
            }
        }
    }

    /// Makes an owner of a text that several processes of one job share.
    ///
    /// Everyone who knows the text is the same owner: choose one that nobody else would.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOwner`] if the text is empty, longer than 255 bytes or has control
    /// characters.
    pub fn named(text: &str) -> Result<Self> {
        match broken_rule(text) {
            None => Ok(Self(text.into())),
            Some(reason) => Err(Error::InvalidOwner { reason }),
        }
    }

    /// Returns the owner as text: whoever reads it can release the owner's locks.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn of_this_process(part: impl fmt::Display) -> Self {
        Self(format!("{}:{part}", process_id()).into())
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Owner(..)")
    }
}

/// A number that grows with every grant of a name.
///
/// Send it along with every write to what the lock protects, and let that resource refuse a
/// fence smaller than the largest it has seen: then a holder that was paused past its lease can
/// do no harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(NonZeroU64);

impl Fence {
    /// Makes a fence of a number that a resource has stored; `None` for zero, which is no fence.
    pub fn new(number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(Self)
    }

    /// Returns the number.
    pub fn get(self) -> u64 {
        self.0.get()
    }

    /// The fence of the `pass`th local hand-over after the grant.
    pub(crate) fn pass(self, pass: u32) -> Self {
        Self(self.0.saturating_add(u64::from(pass)))
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// 128 random bits in hex, made once: the first part of every owner of this process.
fn process_id() -> &'static str {
    static ID: OnceLock<String> = OnceLock::new();
    ID.get_or_init(|| format!("{:032x}", random_u128()))
}

fn broken_rule(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        Some("it is empty")
    } else if text.len() > Name::MAX_BYTES {
        Some("it is longer than 255 bytes")
    } else if text.chars().any(char::is_control) {
        Some("it contains a control character")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_1_to_255_bytes() {
        assert!(Name::new("").is_err());
        assert!(Name::new("a").is_ok());
        assert!(Name::new(&"a".repeat(255)).is_ok());
        assert!(Name::new(&"a".repeat(256)).is_err());
        assert!(
            Name::new(&"ä".repeat(128)).is_err(),
            "bytes count, not characters"
        );
    }

    #[test]
    fn a_name_has_no_control_characters() {
        for text in ["a\nb", "a\0b", "\u{7f}", "a\u{85}"] {
            assert!(Name::new(text).is_err(), "{text:?}");
        }
        assert!(Name::new("größe/{1}*? \u{1f512}").is_ok());
    }

    #[test]
    fn unique_owners_differ() {
        let made: std::collections::HashSet<_> = (0..1000).map(|_| Owner::unique()).collect();
        assert_eq!(made.len(), 1000);
        assert!(
            made.iter()
                .all(|owner| Owner::named(owner.as_str()).is_ok())
        );
    }

    #[test]
    fn an_owner_is_not_shown_by_debug() {
        let owner = Owner::named("secret").unwrap();
        assert!(!format!("{owner:?}").contains("secret"));
    }

    #[test]
    fn another_thread_is_another_owner() {
        let here = Owner::current();
        let there = std::thread::spawn(Owner::current).join().unwrap();
        assert_eq!(here, Owner::current());
        assert_ne!(here, there);
    }

    #[tokio::test]
    async fn a_task_keeps_its_owner_across_awaits() {
        let (first, second) = tokio::spawn(async {
            let first = Owner::current();
            tokio::task::yield_now().await;
            (first, Owner::current())
        })
        .await
        .unwrap();
        let other = tokio::spawn(async { Owner::current() }).await.unwrap();
        assert_eq!(first, second);
        assert_ne!(first, other);
    }
}

//! Names, owners, claim ids and fences, validated once at the boundary.

use std::fmt;
use std::io::Write;
use std::num::{NonZeroU64, TryFromIntError};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::fork::Origin;
use crate::random::random_u128;
use crate::sync::Mutex;

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

    /// Validates `text` as a name.
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

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
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

/// Who may share a lock that it already holds: claims with the same owner hold together.
///
/// Everybody who knows an owner can share its locks, so owners that the library generates are
/// unguessable, and an owner's text is never logged.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(Arc<str>);

impl Owner {
    /// The longest owner, in bytes.
    pub const MAX_BYTES: usize = 255;

    /// Makes an owner that nobody else has.
    pub fn unique() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // Ids that continue from one run to the next would give maps a different order in each run.
        #[cfg(feature = "simulation")]
        if crate::random::seeded::is_on() {
            return Self(format!("{:032x}", random_u128()).into());
        }
        Self::of_this_process(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns the owner of the current task, or of the thread outside a task.
    ///
    /// Nested calls in one task get the same owner without passing it along, so that an inner call may
    /// re-enter what an outer one holds. Futures that one task polls concurrently (`join!`, `select!`)
    /// share its owner, so they do not exclude each other.
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

    /// Makes an owner from a text that several processes of one job share.
    ///
    /// Everyone who knows the text is the same owner: choose one that nobody else would choose.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOwner`] if the text is empty, longer than 255 bytes or has control
    /// characters.
    pub fn named(text: &str) -> Result<Self> {
        let reason = match broken_rule(text) {
            None if ClaimId::is_made_here(text) => {
                "it is the id of a claim without an owner, which nobody can share"
            }
            None => return Ok(Self(text.into())),
            Some(reason) => reason,
        };
        Err(Error::InvalidOwner { reason })
    }

    /// Makes an owner as a store shows it: one that was named, or the id of a claim without an owner.
    pub(crate) fn shown(text: &str) -> Self {
        Self(text.into())
    }

    /// Returns the owner as text; whoever reads it can share the owner's locks.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn of_this_process(part: impl fmt::Display) -> Self {
        Self(format!("{}/{part}", process_id()).into())
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

/// The id of one claim, in every request about it; never reused for another claim.
///
/// Everybody who knows the id of a lease by hand can renew and release it, so ids are unguessable, and
/// their text is never logged.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimId(Arc<str>);

impl ClaimId {
    /// Makes an id that no other claim has or will have.
    ///
    /// For drivers' tests; an engine makes the ids of its claims itself.
    pub fn unique() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self::numbered(&process_id(), NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Restores an id that was stored.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOwner`] with the rule that `text` breaks: the id stands for the owner of a
    /// claim that has none.
    pub fn new(text: &str) -> Result<Self> {
        match broken_rule(text) {
            None => Ok(Self(text.into())),
            Some(reason) => Err(Error::InvalidOwner { reason }),
        }
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Makes an id from what a store has written; it was checked when it was stored.
    pub(crate) fn stored(text: &str) -> Self {
        Self(text.into())
    }

    fn numbered(client: &str, number: u64) -> Self {
        // Every lock needs an id, so it is built with one allocation instead of three.
        let mut text = [0; 64];
        let mut rest = &mut text[..];
        let written = write!(rest, "{client}:{number:x}");
        let length = 64 - rest.len();
        match std::str::from_utf8(&text[..length]) {
            Ok(text) if written.is_ok() => Self(text.into()),
            _ => Self(format!("{client}:{number:x}").into()),
        }
    }

    /// Returns whether the text has the form of the ids that engines make.
    fn is_made_here(text: &str) -> bool {
        let is_hex = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_hexdigit());
        text.split_once(':')
            .is_some_and(|(client, number)| client.len() == 32 && is_hex(client) && is_hex(number))
    }
}

impl fmt::Display for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClaimId(..)")
    }
}

/// Makes the ids of one client's claims.
#[derive(Debug)]
pub(crate) struct ClaimIds {
    client: String,
    next: AtomicU64,
}

impl Default for ClaimIds {
    /// Generates the prefix of this client: 128 random bits.
    fn default() -> Self {
        Self {
            client: format!("{:032x}", random_u128()),
            next: AtomicU64::new(1),
        }
    }
}

impl ClaimIds {
    pub(crate) fn next(&self) -> ClaimId {
        ClaimId::numbered(&self.client, self.next.fetch_add(1, Ordering::Relaxed))
    }
}

/// A number that grows with every grant of a name.
///
/// Send it along with every write to what the lock protects, and let that resource refuse a
/// fence smaller than the largest it has seen. Then a holder that was paused beyond its lease can do no
/// harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(NonZeroU64);

impl Fence {
    /// Makes a fence from a number that a resource has stored; `None` for zero, which is not a fence.
    pub fn new(number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(Self)
    }

    /// Returns the number.
    pub fn get(self) -> u64 {
        self.0.get()
    }

    /// Returns the fence of the `pass`th local hand-over after the grant.
    pub(crate) fn pass(self, pass: u32) -> Self {
        Self(self.0.saturating_add(u64::from(pass)))
    }
}

impl From<Fence> for u64 {
    fn from(fence: Fence) -> Self {
        fence.get()
    }
}

/// For databases whose integers are signed. Fences of all stores fit; a number that a resource made up may not.
impl TryFrom<Fence> for i64 {
    type Error = TryFromIntError;

    fn try_from(fence: Fence) -> std::result::Result<Self, TryFromIntError> {
        fence.get().try_into()
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Returns 128 random bits in hex, the first part of every owner of this process.
///
/// They are made once in each process, also in a forked child.
fn process_id() -> Arc<str> {
    static ID: Mutex<Option<(Origin, Arc<str>)>> = Mutex::new(None);
    let here = Origin::here();
    let mut known = ID.lock();
    match &*known {
        Some((origin, id)) if *origin == here => Arc::clone(id),
        _ => {
            let id: Arc<str> = format!("{:032x}", random_u128()).into();
            *known = Some((here, Arc::clone(&id)));
            id
        }
    }
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
    fn ids_of_claims_differ_also_between_clients() {
        let (one, two) = (ClaimIds::default(), ClaimIds::default());
        let made = (0..1000).flat_map(|_| [one.next(), two.next(), ClaimId::unique()]);
        let made: std::collections::HashSet<_> = made.collect();
        assert_eq!(made.len(), 3000);
    }

    #[test]
    fn the_id_of_a_claim_is_no_owner() {
        for id in [ClaimId::unique(), ClaimIds::default().next()] {
            assert!(Owner::named(id.as_str()).is_err());
            assert!(ClaimId::new(id.as_str()).is_ok());
        }
        assert!(Owner::named("0123456789abcdef0123456789abcdef").is_ok());
    }

    #[test]
    fn owners_and_ids_are_not_shown_by_debug() {
        let owner = Owner::named("secret").unwrap();
        assert!(!format!("{owner:?}").contains("secret"));
        let id = ClaimId::new("secret").unwrap();
        assert!(!format!("{id:?}").contains("secret"));
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

//! Releases that a crash of the server may undo, since it need not write them to disk at once.
//!
//! Whoever released a lock would then hold it again, until its ttl. So the last of them are said again on the first
//! connection after one was lost. Saying one again frees nothing else: it names claim and grant.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::name::{ClaimId, Fence, Name};
use crate::store::sql::database::Give;
use crate::sync::Mutex;

/// The releases that may not be on disk.
#[derive(Debug, Default)]
pub(super) struct LazyReleases(Mutex<Noted>);

#[derive(Debug, Default)]
struct Noted {
    /// How many there were before the first of `latest`.
    before: u64,
    latest: VecDeque<Given>,
}

/// A release that was confirmed.
#[derive(Debug, Clone)]
pub(super) struct Given {
    name: Name,
    claim: ClaimId,
    client: Option<String>,
    fence: Option<Fence>,
    /// When it was said the last time.
    at: Instant,
    /// Whether it is on disk for certain.
    is_done: bool,
}

/// How far the list went at a moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark(u64);

impl LazyReleases {
    /// Notes a release; of many, the last ones are kept.
    pub(super) fn note(&self, give: &Give<'_>) {
        let mut noted = self.0.lock();
        if noted.latest.len() == MOST {
            noted.latest.pop_front();
            noted.before += 1;
        }
        noted.latest.push_back(Given {
            name: give.name.clone(),
            claim: give.claim.clone(),
            client: give.client.map(ToOwned::to_owned),
            fence: give.fence,
            at: Instant::now(),
            is_done: false,
        });
    }

    /// Returns how far the list goes.
    pub(super) fn mark(&self) -> Mark {
        let noted = self.0.lock();
        Mark(noted.before + u64::try_from(noted.latest.len()).unwrap_or(u64::MAX))
    }

    /// Forgets what was noted before: the server has since written something else to disk, and writes in order.
    pub(super) fn forget_before(&self, Mark(mark): Mark) {
        let mut noted = self.0.lock();
        while noted.before < mark && noted.latest.pop_front().is_some() {
            noted.before += 1;
        }
    }

    /// Returns all that may not be on disk.
    pub(super) fn all(&self) -> Vec<Given> {
        self.0.lock().latest.iter().cloned().collect()
    }

    /// Takes in that one was said again, and whether that freed something: then a crash had undone it.
    pub(super) fn said_again(&self, given: &Given, freed: bool) {
        let mut noted = self.0.lock();
        let mut latest = noted.latest.iter_mut();
        let Some(same) = latest.find(|other| other.claim == given.claim) else {
            return;
        };
        if freed {
            same.at = Instant::now();
        } else if same.at.elapsed() > SOON_ON_DISK {
            same.is_done = true;
        }
        while noted.latest.front().is_some_and(|first| first.is_done) {
            noted.latest.pop_front();
            noted.before += 1;
        }
    }
}

impl Given {
    /// The same once more.
    pub(super) fn again(&self) -> Give<'_> {
        Give {
            name: &self.name,
            claim: &self.claim,
            client: self.client.as_deref(),
            fence: self.fence,
        }
    }
}

/// How many are kept: few enough to be said again before the next request.
const MOST: usize = 64;

/// After how long a server has written to disk what it had time for: thrice the 200 ms of PostgreSQL's
/// `wal_writer_delay`, and more.
const SOON_ON_DISK: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    fn note(releases: &LazyReleases, number: usize) {
        releases.note(&Give {
            name: &Name::new(&number.to_string()).unwrap(),
            claim: &ClaimId::unique(),
            client: None,
            fence: None,
        });
    }

    fn names(releases: &LazyReleases) -> Vec<String> {
        let all = releases.all();
        all.iter().map(|given| given.name.to_string()).collect()
    }

    #[test]
    fn what_was_noted_before_something_durable_is_forgotten() {
        let releases = LazyReleases::default();
        note(&releases, 1);
        let mark = releases.mark();
        note(&releases, 2);
        releases.forget_before(mark);
        assert_eq!(names(&releases), ["2"]);
        releases.forget_before(mark);
        assert_eq!(names(&releases), ["2"]);
        releases.forget_before(releases.mark());
        assert!(names(&releases).is_empty());
    }

    #[test]
    fn what_was_said_again_is_kept_as_long_as_a_crash_may_undo_it() {
        let releases = LazyReleases::default();
        note(&releases, 1);
        let given = releases.all().remove(0);
        releases.said_again(&given, false);
        assert_eq!(names(&releases), ["1"], "it was just released");
        releases.0.lock().latest[0].at -= 2 * SOON_ON_DISK;
        releases.said_again(&given, true);
        assert_eq!(names(&releases), ["1"], "it was just released again");
        releases.0.lock().latest[0].at -= 2 * SOON_ON_DISK;
        releases.said_again(&given, false);
        assert!(names(&releases).is_empty());
    }

    #[test]
    fn the_last_of_many_are_kept() {
        let releases = LazyReleases::default();
        for number in 0..MOST + 2 {
            note(&releases, number);
        }
        assert_eq!(names(&releases).len(), MOST);
        assert_eq!(names(&releases)[0], "2");
        note(&releases, 0);
        releases.forget_before(Mark(3));
        assert_eq!(names(&releases).len(), MOST);
    }
}

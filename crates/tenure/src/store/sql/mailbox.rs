//! How a client hears what others decided for it: by a bell, or by looking where there is none.
//!
//! Only while it waits for something, because listeners cost the database: a claim that stands in line, or
//! a lease that others may call back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::driver::{Claim, Grant, News};
use crate::name::{ClaimId, Fence, Name};
use crate::store::ledger::{Nanos, Session, Standing, What, news};
use crate::store::sql::database::{Bell, Connection, Database, Letter};
use crate::store::sql::fault::Outcome;
use crate::store::sql::pool::Pool;
use crate::store::sql::record::{Record, StoredRow};
use crate::sync::{Mutex, until};

/// Where news for this client come in.
#[derive(Debug)]
pub(crate) struct Mailbox<D: Database> {
    shared: Arc<Shared<D>>,
    task: Mutex<Option<AbortHandle>>,
}

#[derive(Debug)]
struct Shared<D: Database> {
    database: Arc<D>,
    pool: Arc<Pool<D>>,
    session: Session,
    /// How long it takes at most to learn whether there is a bell.
    patience: Duration,
    news: mpsc::UnboundedSender<News>,
    interests: Mutex<BTreeMap<(Name, ClaimId), Interest>>,
    /// Rung when there is one more.
    more: Notify,
    reach: Mutex<Reach>,
    /// Rung when that has changed.
    reached: Notify,
}

/// How this client can be reached at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// It cannot, because nothing is to be heard.
    Closed,
    /// That is about to be known.
    Opening,
    /// Others ring.
    Bell,
    /// Nobody can ring, so that it looks by itself.
    Polls,
}

/// What the client wants to hear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interest {
    /// Something soon: a claim that is about to be written down.
    Soon,
    /// A claim in line: when it came, when it was told to ask again, whether its lease can be called back,
    /// and at which turn of its row.
    Waits {
        asked: Nanos,
        asks: Nanos,
        tells: bool,
        turn: i64,
    },
    /// A lease that can be called back.
    Keeps { fence: Fence, turn: i64 },
}

impl Interest {
    /// What is left to hear of a claim once it is granted.
    fn after_grant(self, fence: Fence) -> Option<Self> {
        match self {
            Self::Waits {
                tells: true, turn, ..
            } => Some(Self::Keeps { fence, turn }),
            _ => None,
        }
    }

    fn turn(&mut self) -> Option<&mut i64> {
        match self {
            Self::Soon => None,
            Self::Waits { turn, .. } | Self::Keeps { turn, .. } => Some(turn),
        }
    }
}

impl<D: Database> Mailbox<D> {
    /// Makes a mailbox that is closed; returns also where its news come out.
    pub(crate) fn new(
        database: Arc<D>,
        pool: Arc<Pool<D>>,
        session: Session,
        patience: Duration,
    ) -> (Self, mpsc::UnboundedReceiver<News>) {
        // Unbounded in type only: a client gets one message for each of its claims and leases.
        let (news, out) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            database,
            pool,
            session,
            patience,
            news,
            interests: Mutex::default(),
            more: Notify::new(),
            reach: Mutex::new(Reach::Closed),
            reached: Notify::new(),
        });
        let task = Mutex::new(None);
        (Self { shared, task }, out)
    }

    /// Returns how this client can be reached at the moment.
    pub(crate) fn reach(&self) -> Reach {
        *self.shared.reach.lock()
    }

    /// Opens the mailbox, and returns once it is known how this client can be reached.
    ///
    /// It stays open until nothing is wanted any more, so an interest is [added](Self::add) first.
    pub(crate) async fn open(&self) {
        {
            let mut task = self.task.lock();
            if self.reach() == Reach::Closed {
                self.shared.reach_as(Reach::Opening);
                let opened = tokio::spawn(Arc::clone(&self.shared).stay_open());
                // The one before has ended, or is about to: it closes as its last act.
                *task = Some(opened.abort_handle());
            }
        }
        // Ends in any case: listening takes no longer than its patience.
        let is_known = || (self.reach() != Reach::Opening).then_some(());
        until(&self.shared.reached, is_known).await;
    }

    /// Wants to hear of a claim that is about to be written down, if it does not already.
    pub(crate) fn expect(&self, name: &Name, claim: &ClaimId) {
        let key = (name.clone(), claim.clone());
        let mut interests = self.shared.interests.lock();
        interests.entry(key).or_insert(Interest::Soon);
    }

    /// Returns whether something is to be heard of a claim.
    pub(crate) fn has(&self, name: &Name, claim: &ClaimId) -> bool {
        let interests = self.shared.interests.lock();
        !interests.is_empty() && interests.contains_key(&(name.clone(), claim.clone()))
    }

    /// Wants to hear of a claim, from before it is written down.
    pub(crate) fn add(&self, name: &Name, claim: &ClaimId, interest: Interest) {
        let key = (name.clone(), claim.clone());
        self.shared.interests.lock().insert(key, interest);
        self.shared.more.notify_one();
    }

    /// Does not want to hear of a claim any more.
    pub(crate) fn remove(&self, name: &Name, claim: &ClaimId) {
        let mut interests = self.shared.interests.lock();
        if !interests.is_empty() {
            interests.remove(&(name.clone(), claim.clone()));
        }
    }

    /// Tells this client that others want what a claim of its own holds, unless it has heard that.
    pub(crate) fn call_back_unheard(&self, claim: &Claim, fence: Fence) {
        let key = (claim.name.clone(), claim.id.clone());
        let unheard = self.shared.interests.lock().remove(&key);
        if let Some(Interest::Waits { tells: true, .. } | Interest::Keeps { .. }) = unheard {
            let (name, claim) = key;
            self.shared.send(News::Wanted { name, claim, fence });
        }
    }

    /// Tells this client something that it has decided itself.
    pub(crate) fn tell(&self, letter: &Letter) {
        self.shared.deliver(letter);
    }
}

impl<D: Database> Drop for Mailbox<D> {
    fn drop(&mut self) {
        if let Some(task) = self.task.lock().take() {
            task.abort();
        }
    }
}

impl<D: Database> Shared<D> {
    /// Hears and looks until nothing is to be heard any more.
    async fn stay_open(self: Arc<Self>) {
        let mut pause = SHORTEST_PAUSE;
        loop {
            let listening = timeout(self.patience, self.database.listen(self.session)).await;
            let (bell, retry) = match listening {
                Ok(Ok(bell)) => (bell, None),
                Ok(Err(fault)) => {
                    tracing::debug!(error = %fault.source, "no bell, looking instead");
                    (None, Some(pause))
                }
                Err(_) => (None, Some(pause)),
            };
            let heard = match bell {
                Some(bell) => {
                    self.open_as(Reach::Bell);
                    let begun = Instant::now();
                    match self.hear(bell).await {
                        // Nobody needs another one.
                        Heard::TryAgain if self.close_if_idle() => return,
                        // Another one may break as soon, for example because the table is gone.
                        Heard::TryAgain if begun.elapsed() < YOUNG => {
                            self.open_as(Reach::Polls);
                            self.look_until(Some(pause)).await
                        }
                        heard => {
                            pause = SHORTEST_PAUSE;
                            heard
                        }
                    }
                }
                None => {
                    self.open_as(Reach::Polls);
                    self.look_until(retry).await
                }
            };
            match heard {
                Heard::Enough => return,
                Heard::TryAgain => pause = (pause * 2).min(LONGEST_PAUSE),
            }
        }
    }

    /// Says how the client is reached from now on; what was said meanwhile is lost.
    fn open_as(&self, reach: Reach) {
        let before = self.reach_as(reach);
        // Who looks by itself, before and after, has missed nothing.
        let goes_on = before == Reach::Polls && reach == Reach::Polls;
        if before != Reach::Opening && !goes_on {
            self.send(News::AskAgain(None));
        }
    }

    /// Changes how the client is reached; returns how it was before.
    fn reach_as(&self, reach: Reach) -> Reach {
        let before = std::mem::replace(&mut *self.reach.lock(), reach);
        self.reached.notify_waiters();
        before
    }

    /// Hears the bell until it breaks or nothing is to be heard any more.
    ///
    /// A look that fails, because all connections for statements are busy for example, is repeated and leaves the bell as it is: without
    /// a bell others would take this client for gone.
    async fn hear(&self, mut bell: D::Bell) -> Heard {
        let mut idle_since = None;
        let mut pause = SHORTEST_PAUSE;
        loop {
            idle_since = match self.interests.lock().is_empty() {
                true => idle_since.or_else(|| Some(Instant::now())),
                false => None,
            };
            if idle_since.is_some_and(|since| since.elapsed() >= LINGER) && self.close_if_idle() {
                return Heard::Enough;
            }
            let watched = self.watched();
            match bell.heard(&watched).await {
                Ok(Some(letter)) => self.deliver(&letter),
                Ok(None) => match self.look().await {
                    Ok(_) => pause = SHORTEST_PAUSE,
                    Err(fault) => {
                        tracing::debug!(error = %fault.source, "the rows cannot be read, looking again");
                        sleep(pause).await;
                        pause = (pause * 2).min(LONGEST_LOOK_PAUSE);
                    }
                },
                Err(fault) => {
                    tracing::debug!(error = %fault.source, "the bell is broken");
                    // Others take it for gone until it is there again.
                    return Heard::TryAgain;
                }
            }
        }
    }

    /// Looks at what is waited for, often if a claim is first in line, until the time is over.
    async fn look_until(&self, retry: Option<Duration>) -> Heard {
        let begun = Instant::now();
        let mut since = begun;
        loop {
            if self.interests.lock().is_empty() {
                let added = timeout(LINGER, self.more.notified()).await;
                if added.is_err() && self.close_if_idle() {
                    return Heard::Enough;
                }
                since = Instant::now();
            }
            let is_first = self.look().await.unwrap_or(false);
            let pause = match is_first {
                true => (since.elapsed() / 8).clamp(QUICK_LOOK, SLOW_LOOK),
                false => SLOW_LOOK,
            };
            tokio::select! {
                biased;
                () = sleep(pause) => {}
                () = self.more.notified() => since = Instant::now(),
            }
            if retry.is_some_and(|retry| begun.elapsed() >= retry) {
                return Heard::TryAgain;
            }
        }
    }

    /// Closes the mailbox if nothing is wanted; returns whether it did.
    fn close_if_idle(&self) -> bool {
        // Under the lock of the interests, so that who adds one afterwards finds it closed.
        let interests = self.interests.lock();
        if interests.is_empty() {
            self.reach_as(Reach::Closed);
        }
        interests.is_empty()
    }

    /// The names that something is to be heard of, each with the turn at which it was last seen.
    fn watched(&self) -> Vec<(Name, i64)> {
        let mut interests = self.interests.lock();
        let all = interests.iter_mut();
        all.filter_map(|((name, _), interest)| Some((name.clone(), *interest.turn()?)))
            .collect()
    }

    /// Reads the rows that something is to be heard of; returns whether a claim is first in line.
    async fn look(&self) -> Outcome<bool> {
        let mut names: Vec<_> = self.watched().into_iter().map(|(name, _)| name).collect();
        names.sort_unstable();
        names.dedup();
        if names.is_empty() {
            return Ok(false);
        }
        let mut lent = self.pool.lend().await?;
        let read = timeout(self.pool.timeout(), lent.read_all(&names)).await;
        let (_, rows) = lent.ended(read)?;
        let rows: BTreeMap<_, _> = rows.into_iter().collect();
        let mut is_first = false;
        for name in names {
            is_first |= self.compare(&name, rows.get(&name));
        }
        Ok(is_first)
    }

    /// Tells what has changed of a name; returns whether a claim is first in line.
    fn compare(&self, name: &Name, row: Option<&StoredRow>) -> bool {
        let record = row.map(|row| Record::read(&row.columns)).transpose();
        // Whoever asks for the name next says what is wrong with it.
        let record = record.unwrap_or_default().unwrap_or_default();
        let turn = row.map_or(0, |row| row.columns.turn);
        let mut is_first = false;
        let mut interests = self.interests.lock();
        interests.retain(|(of, claim), interest| {
            let Some(seen) = interest.turn().filter(|_| of == name) else {
                return true;
            };
            *seen = turn;
            match (*interest, record.ledger.standing(claim, self.session)) {
                (
                    Interest::Waits { asked, .. },
                    Standing::Holds {
                        fence,
                        fences,
                        since,
                        ends,
                        tells,
                    },
                ) => {
                    let valid = Duration::from_nanos(ends.saturating_sub(since));
                    self.send(News::Granted {
                        name: name.clone(),
                        claim: claim.clone(),
                        grant: Grant::new(fence, valid).with_fences(fences),
                        after: Duration::from_nanos(since.saturating_sub(asked)),
                    });
                    match interest.after_grant(fence) {
                        Some(keeps) => *interest = keeps,
                        None => return false,
                    }
                    if !tells && matches!(interest, Interest::Keeps { .. }) {
                        // Others stood in line as it was granted.
                        self.send(News::Wanted {
                            name: name.clone(),
                            claim: claim.clone(),
                            fence,
                        });
                        return false;
                    }
                    true
                }
                (Interest::Waits { asks: told, .. }, Standing::Waits { behind, asks }) => {
                    is_first |= behind == 0;
                    if asks < told {
                        self.send(News::AskAgain(Some(name.clone())));
                    }
                    if let Interest::Waits { asks: told, .. } = interest {
                        *told = asks;
                    }
                    true
                }
                (Interest::Waits { .. }, Standing::Absent) => {
                    self.send(News::AskAgain(Some(name.clone())));
                    true
                }
                (Interest::Soon, _)
                | (Interest::Keeps { .. }, Standing::Holds { tells: true, .. }) => true,
                // Others want it, or it is gone: it must not be kept or passed on, and its release asks the store.
                (Interest::Keeps { fence, .. }, _) => {
                    self.send(News::Wanted {
                        name: name.clone(),
                        claim: claim.clone(),
                        fence,
                    });
                    false
                }
            }
        });
        is_first
    }

    /// Tells what a letter says, unless nobody wants to hear of it any more.
    fn deliver(&self, letter: &Letter) {
        let (Ok(name), Ok(claim)) = (Name::new(&letter.name), ClaimId::new(&letter.claim)) else {
            return;
        };
        let key = (name.clone(), claim);
        let mut interests = self.interests.lock();
        if matches!(letter.what, What::Wanted { .. }) && !interests.contains_key(&key) {
            // It was seen already, or is given back.
            return;
        }
        let left = match letter.what {
            What::Granted { fence, .. } => {
                let interest = interests.get(&key).zip(Fence::new(fence));
                interest.and_then(|(interest, fence)| interest.after_grant(fence))
            }
            What::Wanted { .. } | What::Lost { .. } => None,
            What::AskAgain => interests.get(&key).copied(),
        };
        match left {
            Some(interest) => interests.insert(key, interest),
            None => interests.remove(&key),
        };
        drop(interests);
        self.send(news(name, &letter.claim, letter.what));
    }

    fn send(&self, news: News) {
        // A closed channel belongs to a client that is being dropped.
        let _ = self.news.send(news);
    }
}

/// Why hearing ended.
enum Heard {
    /// Nothing is to be heard any more.
    Enough,
    /// The bell broke, or it is time to try for one.
    TryAgain,
}

/// How long a mailbox stays open when nothing is wanted.
const LINGER: Duration = Duration::from_secs(5);

/// How often the first in line looks, soon after it came and later; others look as often as the latter.
const QUICK_LOOK: Duration = Duration::from_millis(1);
const SLOW_LOOK: Duration = Duration::from_millis(100);

/// After how long another bell is tried.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A bell that breaks sooner counts as one that could not be had.
const YOUNG: Duration = Duration::from_secs(1);

/// After how long at most rows are read again that could not be.
const LONGEST_LOOK_PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::store::sql::stub::Stub;

    #[tokio::test(start_paused = true)]
    async fn a_busy_pool_leaves_the_bell_as_it_is() {
        let database = Arc::new(Stub::default());
        let second = Duration::from_secs(1);
        let pool = Arc::new(Pool::new(Arc::clone(&database), 1, second, second));
        let (mailbox, mut news) = Mailbox::new(Arc::clone(&database), Arc::clone(&pool), 7, second);
        let waits = Interest::Waits {
            asked: 0,
            asks: 0,
            tells: false,
            turn: 0,
        };
        mailbox.add(&Name::new("a").unwrap(), &ClaimId::unique(), waits);
        mailbox.open().await;
        let busy = pool.lend().await.unwrap();
        sleep(20 * second).await;
        assert_eq!(mailbox.reach(), Reach::Bell);
        assert_eq!(database.bells.load(Ordering::Relaxed), 1);
        assert!(news.try_recv().is_err());
        // It looks as soon as it can.
        busy.ended(Ok(Ok(()))).unwrap();
        let heard = timeout(5 * second, news.recv()).await;
        assert!(
            matches!(heard, Ok(Some(News::AskAgain(Some(_))))),
            "{heard:?}"
        );
    }
}

//! What the rules share: parties that ask for one name, each in its own client.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use super::Fixture;
use crate::driver::{
    About, Answer, Claim, Driver, Entry, Grant, Holder, Life, Loss, Mode, News, Release, Released,
    Renewal, Renewed, Wait,
};
use crate::error::{Error, Result};
use crate::name::{ClaimId, Fence, Name, Owner};
use crate::sync::Mutex;

/// Longer than any rule runs.
pub(crate) const TTL: Duration = Duration::from_secs(60);

/// How long a rule waits for an event before it fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// How far stores that count in milliseconds may be off, and how long messages may take.
pub(crate) const TOLERANCE: Duration = Duration::from_millis(50);

/// Makes parties that ask for one fresh name, each with its own client and without an owner.
pub(crate) async fn cast<const N: usize>(fixture: &dyn Fixture) -> [Party; N] {
    let name = fresh_name();
    let mut parties = Vec::new();
    for _ in 0..N {
        let client = Client::open(fixture).await;
        parties.push(Party::new(client, name.clone()));
    }
    let Ok(parties) = parties.try_into() else {
        unreachable!("so many were made");
    };
    parties
}

/// Returns a name that nobody else uses: rules share one server and run at once.
pub(crate) fn fresh_name() -> Name {
    name(&format!("conformance/{}", Owner::unique()))
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).expect("a rule uses valid names")
}

/// Asks until `found` returns true; fails with `what` if that takes too long.
pub(crate) async fn until<F, Fut>(what: &str, mut found: F)
where
    F: FnMut() -> Fut,
    Fut: Future<Output = bool>,
{
    let deadline = Instant::now() + PATIENCE;
    while !found().await {
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} for: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// A client, and its news that nobody has read yet.
#[derive(Debug)]
struct Client {
    driver: Arc<dyn Driver>,
    unread: Mutex<Unread>,
}

#[derive(Debug, Default)]
struct Unread {
    news: Vec<News>,
    /// How often the store sent "ask again", which concerns every party of the client.
    calls: u64,
}

impl Client {
    async fn open(fixture: &dyn Fixture) -> Arc<Self> {
        Arc::new(Self {
            driver: fixture.client().await,
            unread: Mutex::default(),
        })
    }

    fn note(&self, news: News) {
        let mut unread = self.unread.lock();
        match news {
            News::AskAgain(_) => unread.calls += 1,
            news => unread.news.push(news),
        }
    }

    fn take<T>(&self, wanted: impl Fn(&News) -> Option<T>) -> Option<T> {
        let mut unread = self.unread.lock();
        let mut news = unread.news.iter().enumerate();
        let (index, found) = news.find_map(|(index, news)| Some((index, wanted(news)?)))?;
        unread.news.remove(index);
        Some(found)
    }
}

/// One claim of one client, and then the next one: no id is used twice.
///
/// Methods named by a verb in the third person send a request to the store. Those with only one
/// valid outcome in every rule fail on any other.
#[derive(Debug)]
pub(crate) struct Party {
    client: Arc<Client>,
    claim: Mutex<Claim>,
    waiting: Mutex<Waiting>,
}

/// What a party in line remembers, as the engine would.
#[derive(Debug, Clone, Copy, Default)]
struct Waiting {
    asks_at: Option<Instant>,
    calls: u64,
    last: Option<Fence>,
    /// Whether the claim was released or withdrawn: the next request then makes a new one.
    ended: bool,
}

/// A claim that waited in line and was granted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) fence: Fence,
    /// How long it waited in line, unless it learnt of its grant by asking again.
    pub(crate) after: Option<Duration>,
}

impl Party {
    fn new(client: Arc<Client>, name: Name) -> Self {
        let about = About::new("here", std::process::id()).with_reason("conformance");
        Self::with(client, Claim::new(name, TTL).with_about(about))
    }

    fn with(client: Arc<Client>, claim: Claim) -> Self {
        Self {
            client,
            claim: Mutex::new(claim),
            waiting: Mutex::default(),
        }
    }

    /// Returns the same claim with a change.
    pub(crate) fn but(&self, change: impl FnOnce(&mut Claim)) -> Self {
        let mut claim = self.claim();
        change(&mut claim);
        Self::with(Arc::clone(&self.client), claim)
    }

    pub(crate) fn mode(&self, mode: Mode) -> Self {
        self.but(|claim| claim.mode = mode)
    }

    pub(crate) fn ttl(&self, ttl: Duration) -> Self {
        self.but(|claim| claim.ttl = ttl)
    }

    pub(crate) fn life(&self, life: Life) -> Self {
        self.but(|claim| claim.life = life)
    }

    /// Returns the same claim, to be told when somebody else wants the name.
    pub(crate) fn told_if_wanted(&self) -> Self {
        self.but(|claim| claim.tell_if_wanted = true)
    }

    /// Returns another claim of the same owner, on another name.
    pub(crate) fn at(&self, name: Name) -> Self {
        self.but(|claim| {
            claim.id = ClaimId::unique();
            claim.name = name;
        })
    }

    /// Returns the same claim with an owner that others may share.
    pub(crate) fn named(&self) -> Self {
        self.but(|claim| claim.owner = Some(Owner::unique()))
    }

    /// Returns another claim in the same client, without an owner.
    pub(crate) fn neighbour(&self) -> Self {
        self.but(|claim| {
            claim.id = ClaimId::unique();
            claim.owner = None;
        })
    }

    /// Returns another claim of the same owner in the same client.
    pub(crate) fn nested(&self) -> Self {
        self.but(|claim| claim.id = ClaimId::unique())
    }

    /// Returns another claim of the same owner, in another party's client.
    pub(crate) fn twin(&self, other: &Self) -> Self {
        self.nested().through(other)
    }

    /// Returns the same claim in another party's client, which knows its id.
    pub(crate) fn through(&self, other: &Self) -> Self {
        Self::with(Arc::clone(&other.client), self.claim())
    }

    pub(crate) fn claim(&self) -> Claim {
        let claim = self.claim.lock();
        claim.clone()
    }

    fn name(&self) -> Name {
        self.claim().name
    }

    pub(crate) fn driver(&self) -> &Arc<dyn Driver> {
        &self.client.driver
    }

    pub(crate) async fn asks(&self, wait: Wait) -> Result<Answer> {
        if std::mem::take(&mut self.waiting.lock().ended) {
            let mut claim = self.claim.lock();
            claim.id = ClaimId::unique();
        }
        let claim = self.claim().with_wait(wait);
        let sent = Instant::now();
        let answer = self.client.driver.acquire(&claim).await?;
        let mut waiting = self.waiting.lock();
        match answer {
            Answer::Granted(grant) => waiting.last = Some(grant.fence),
            Answer::Queued { ask_again } => waiting.asks_at = ask_again.map(|after| sent + after),
            Answer::Busy => {}
        }
        Ok(answer)
    }

    /// Asks without waiting in line.
    pub(crate) async fn tries(&self) -> Answer {
        let answer = self.asks(Wait::No).await.expect("the store answers");
        assert!(
            !matches!(answer, Answer::Queued { .. }),
            "a claim that does not wait was put in line"
        );
        answer
    }

    pub(crate) async fn is_refused(&self) {
        assert_eq!(self.tries().await, Answer::Busy);
    }

    /// Asks, and is granted at once.
    pub(crate) async fn locks(&self) -> Fence {
        self.is_granted().await.fence
    }

    /// Asks, and is granted at once.
    pub(crate) async fn is_granted(&self) -> Grant {
        match self.tries().await {
            Answer::Granted(grant) => grant,
            other => panic!("expected a grant at once, got {other:?}"),
        }
    }

    /// Asks, and is queued; returns when to ask again, if at all.
    pub(crate) async fn stands(&self) -> Option<Duration> {
        let answer = self.asks(Wait::InLine).await.expect("the store answers");
        match answer {
            Answer::Queued { ask_again } => ask_again,
            other => panic!("expected a place in line, got {other:?}"),
        }
    }

    /// Asks for a name behind a short lease; is queued, or granted if that lease is already over
    /// because the machine was stalled.
    pub(crate) async fn stands_or_enters(&self) -> Option<Fence> {
        match self.asks(Wait::InLine).await.expect("the store answers") {
            Answer::Granted(grant) => Some(grant.fence),
            Answer::Queued { .. } => None,
            Answer::Busy => panic!("a claim that may wait was told that the name is busy"),
        }
    }

    pub(crate) async fn conflicts(&self) {
        for wait in [Wait::No, Wait::InLine] {
            let answer = self.asks(wait).await;
            assert!(
                matches!(&answer, Err(Error::ModeConflict { name }) if *name == self.name()),
                "expected a mode conflict, got {answer:?}"
            );
        }
    }

    /// Waits for the grant of a claim in line; asks again when told to, as the engine would.
    pub(crate) async fn turn(&self) -> Turn {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(turn) = self.client.take(|news| self.grant_in(news)) {
                self.waiting.lock().last = Some(turn.fence);
                return turn;
            }
            if let Some(fence) = self.asks_if_called().await {
                return Turn { fence, after: None };
            }
            let asks_at = self.waiting.lock().asks_at.unwrap_or(deadline);
            match timeout_at(deadline.min(asks_at), self.client.driver.news()).await {
                Ok(news) => self.client.note(news),
                Err(_) => assert!(
                    Instant::now() < deadline,
                    "no grant in {PATIENCE:?}, by news or by asking again; the store lists {:?}",
                    self.entry().await,
                ),
            }
        }
    }

    /// Returns the grant of this claim that has not been seen yet.
    fn grant_in(&self, news: &News) -> Option<Turn> {
        let News::Granted {
            name,
            claim,
            grant,
            after,
        } = news
        else {
            return None;
        };
        let known = self
            .waiting
            .lock()
            .last
            .is_some_and(|last| grant.fence <= last);
        (self.is_about_us(name, claim) && !known).then_some(Turn {
            fence: grant.fence,
            after: Some(*after),
        })
    }

    fn is_about_us(&self, name: &Name, id: &ClaimId) -> bool {
        let claim = self.claim();
        (name, id) == (&claim.name, &claim.id)
    }

    /// Asks again if the store said so, or if the time that it gave has come.
    pub(super) async fn asks_if_called(&self) -> Option<Fence> {
        let calls = self.client.unread.lock().calls;
        let called = {
            let mut waiting = self.waiting.lock();
            let called = waiting.calls < calls;
            waiting.calls = calls;
            called || waiting.asks_at.is_some_and(|at| at <= Instant::now())
        };
        if !called {
            return None;
        }
        match self.asks(Wait::InLine).await.expect("the store answers") {
            Answer::Granted(grant) => Some(grant.fence),
            Answer::Queued { .. } => None,
            Answer::Busy => panic!("a claim in line was told that the name is busy"),
        }
    }

    /// Waits until the store reports that this party's lease is over.
    pub(crate) async fn loses(&self) -> (Fence, Loss) {
        let lost = self.hears(PATIENCE, |news| match news {
            News::Lost {
                name,
                claim,
                fence,
                loss,
            } if self.is_about_us(name, claim) => Some((*fence, *loss)),
            _ => None,
        });
        let lost = lost.await;
        lost.unwrap_or_else(|| panic!("the holder was not told in {PATIENCE:?} of its loss"))
    }

    /// Waits until the store reports that somebody else wants this party's name.
    pub(crate) async fn is_called_back(&self) -> Fence {
        let called = self.hears_of_a_call(PATIENCE).await;
        called.unwrap_or_else(|| panic!("the holder was not told in {PATIENCE:?} of the claim"))
    }

    /// Fails if the store reports that somebody else wants this party's name.
    pub(crate) async fn is_not_called_back(&self) {
        assert_eq!(self.hears_of_a_call(2 * TOLERANCE).await, None);
    }

    async fn hears_of_a_call(&self, patience: Duration) -> Option<Fence> {
        let wanted = self.hears(patience, |news| match news {
            News::Wanted { name, claim, fence } if self.is_about_us(name, claim) => Some(*fence),
            _ => None,
        });
        wanted.await
    }

    /// Waits for news that `wanted` accepts.
    async fn hears<T>(&self, patience: Duration, wanted: impl Fn(&News) -> Option<T>) -> Option<T> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(found) = self.client.take(&wanted) {
                return Some(found);
            }
            let news = timeout_at(deadline, self.client.driver.news()).await.ok()?;
            self.client.note(news);
        }
    }

    /// Releases its grant, whatever its fence.
    pub(crate) async fn releases(&self) -> Released {
        self.releases_with(|_| {}).await
    }

    /// Releases its grant, and is told that no claim of its owner holds the name any more.
    pub(crate) async fn frees(&self) {
        assert_eq!(self.releases().await, Released::Freed { left: 0 });
    }

    pub(crate) async fn releases_with(&self, change: impl FnOnce(&mut Release)) -> Released {
        let mut release = Release::of(&self.claim());
        change(&mut release);
        let released = self.client.driver.release(&release).await;
        let released = released.expect("the store answers");
        self.waiting.lock().ended |= matches!(released, Released::Freed { .. });
        released
    }

    pub(crate) fn renewal(&self, fence: Option<Fence>) -> Renewal {
        Renewal::of(&self.claim()).with_fence(fence)
    }

    /// Renews its lease, and is told that it continues.
    pub(crate) async fn extends(&self, fence: Fence) {
        let renewed = self.renews(Some(fence)).await;
        assert!(
            matches!(renewed, Renewed::Extended { fence: found, .. } if found == fence),
            "expected fence {fence} to be extended, got {renewed:?}"
        );
    }

    pub(crate) async fn renews(&self, fence: Option<Fence>) -> Renewed {
        let renewed = self.client.driver.renew(&[self.renewal(fence)]).await;
        let renewed = renewed.expect("the store answers");
        assert_eq!(renewed.len(), 1, "one answer for one renewal");
        renewed[0]
    }

    pub(crate) async fn withdraws(&self) {
        let withdrawn = self.client.driver.withdraw(&self.claim()).await;
        withdrawn.expect("the store answers");
        self.waiting.lock().ended = true;
    }

    /// Evicts the holders of the name.
    pub(crate) async fn evicts(&self) -> Vec<Holder> {
        let evicted = self.client.driver.evict(&self.name()).await;
        evicted.expect("the store answers")
    }

    /// Asks until the name is free and takes it.
    pub(crate) async fn locks_in_time(&self) -> Fence {
        until("the name to come free", || async {
            matches!(self.tries().await, Answer::Granted(_))
        })
        .await;
        self.locks().await
    }

    /// Returns what the store lists for the name; without holders and waiters if it lists nothing.
    pub(crate) async fn entry(&self) -> Entry {
        let name = self.name();
        let listed = self.client.driver.list(Some(&name)).await;
        let mut listed = listed.expect("the store answers");
        assert!(listed.len() <= 1, "one name, listed {listed:?}");
        listed.pop().unwrap_or_else(|| Entry::new(name))
    }

    /// Fails unless exactly these parties wait, in this order.
    pub(crate) async fn is_waited_for_by(&self, parties: &[&Self]) {
        let waiters = self.entry().await.waiters;
        let found = waiters.iter().map(|waiter| waiter.claim.to_string());
        let expected = parties.iter().map(|party| party.claim().id.to_string());
        assert_eq!(
            found.collect::<Vec<_>>(),
            expected.collect::<Vec<_>>(),
            "who waits"
        );
    }

    /// Fails unless exactly these parties hold the name, each with the number of claims that its
    /// owner has among them.
    pub(crate) async fn is_held_by(&self, parties: &[&Self]) {
        let depth = |party: &Self| {
            let owners = parties.iter().map(|other| other.owner());
            owners.filter(|owner| *owner == party.owner()).count()
        };
        let expected = parties
            .iter()
            .map(|party| format!("{} × {}", party.claim().id, depth(party)));
        let holders = self.entry().await.holders;
        let found = holders
            .iter()
            .map(|holder| format!("{} × {}", holder.claim, holder.depth));
        assert_eq!(
            found.collect::<Vec<_>>(),
            expected.collect::<Vec<_>>(),
            "which claims hold it, of owners that hold it how often"
        );
    }

    /// Returns its owner, as people see it.
    pub(crate) fn owner(&self) -> Owner {
        Owner::shown(self.claim().owner_text())
    }
}

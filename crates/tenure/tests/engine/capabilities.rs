//! What a store does not support is refused before anything is sent, and what it grants is what
//! counts.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tenure::driver::{
    Answer, Capabilities, Claim, Clock, Driver, Entry, Grant, Holder, Loss, News, Release,
    Released, Renewal, Renewed,
};
use tenure::store::memory::Memory;
use tenure::{Client, Error, Health, Name, Owner, Result};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::{millis, secs};

/// A store whose leases belong to a session that is shorter than the requested ttl.
#[derive(Debug)]
struct Session {
    inner: Memory,
    longest: Duration,
    over: tokio::sync::Mutex<mpsc::UnboundedReceiver<Loss>>,
}

#[async_trait]
impl Driver for Session {
    fn kind(&self) -> &'static str {
        "session"
    }

    fn clock(&self) -> Clock {
        self.inner.clock()
    }

    fn capabilities(&self) -> Capabilities {
        let mut can = Capabilities::all();
        can.shared = false;
        can.permits = false;
        can.by_hand = false;
        can.shared_owners = false;
        can.calls = false;
        can.stays_taken = false;
        can.shortest_ttl = secs(1);
        can.longest_ttl = secs(60);
        can
    }

    async fn acquire(&self, claim: &Claim) -> Result<Answer> {
        Ok(match self.inner.acquire(claim).await? {
            Answer::Granted(grant) => Answer::Granted(Grant::new(grant.fence, self.longest)),
            Answer::Queued { .. } => Answer::Queued { ask_again: None },
            other => other,
        })
    }

    async fn withdraw(&self, claim: &Claim) -> Result<()> {
        self.inner.withdraw(claim).await
    }

    async fn renew(&self, renewals: &[Renewal]) -> Result<Vec<Renewed>> {
        let renewed = self.inner.renew(renewals).await?.into_iter();
        let shorter = |renewed| match renewed {
            Renewed::Extended { fence, .. } => Renewed::Extended {
                fence,
                valid: self.longest,
            },
            other => other,
        };
        Ok(renewed.map(shorter).collect())
    }

    async fn release(&self, release: &Release) -> Result<Released> {
        self.inner.release(release).await
    }

    async fn news(&self) -> News {
        let mut over = self.over.lock().await;
        tokio::select! {
            biased;
            Some(loss) = over.recv() => News::SessionLost(loss),
            news = self.inner.news() => news,
        }
    }

    async fn list(&self, only: Option<&Name>) -> Result<Vec<Entry>> {
        self.inner.list(only).await
    }

    async fn evict(&self, name: &Name) -> Result<Vec<Holder>> {
        self.inner.evict(name).await
    }

    async fn settled(&self) {
        self.inner.settled().await;
    }
}

fn session(longest: Duration) -> (Client, Client, mpsc::UnboundedSender<Loss>) {
    let (end, over) = mpsc::unbounded_channel();
    let inner = Memory::new();
    let there = Client::with_driver(Arc::new(inner.another()));
    let over = tokio::sync::Mutex::new(over);
    let driver = Session {
        inner,
        longest,
        over,
    };
    (Client::with_driver(Arc::new(driver)), there, end)
}

#[tokio::test(start_paused = true)]
async fn what_a_store_lacks_is_refused() {
    let (locks, _there, _end) = session(secs(5));
    let mutex = || locks.mutex("a");
    let refused = [
        locks.rwlock("a").read().lock().await.err(),
        locks.semaphore("a", 2).take(1).lock().await.err(),
        mutex().lease().await.err(),
        mutex().owner(Owner::unique()).lock().await.err(),
        mutex().keep(secs(1)).lock().await.err(),
        mutex().at_least(secs(1)).lock().await.err(),
    ];
    for (case, error) in refused.iter().enumerate() {
        let Some(error @ Error::Unsupported { .. }) = error else {
            panic!("case {case}: {error:?}");
        };
        assert!(error.nothing_changed());
        assert!(error.to_string().starts_with("session stores have no "));
    }
    for ttl in [millis(999), secs(61)] {
        let refused = mutex().ttl(ttl).lock().await;
        assert!(
            matches!(refused, Err(Error::InvalidOption { option: "ttl", .. })),
            "{refused:?}"
        );
    }
    assert!(locks.list(None).await.unwrap().is_empty());
    drop(mutex().reentrant().lock().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_lease_lasts_for_as_long_as_the_store_granted_it() {
    let (locks, _there, _end) = session(secs(3));
    let guard = locks.mutex("a").ttl(secs(30)).lock().await.unwrap();
    for _ in 0..30 {
        sleep(secs(1)).await;
        assert_eq!(guard.health(), Health::Held, "renewed in time");
        assert!(guard.time_left() < secs(3));
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_session_ends_all_its_leases() {
    let (locks, there, end) = session(secs(30));
    let held = there.mutex("c").lock().await.unwrap();
    let one = locks.mutex("a").lock().await.unwrap();
    let two = locks.mutex("b").lock().await.unwrap();
    let waiting = locks.mutex("c");
    let waiting = tokio::spawn(async move { waiting.lock().await.unwrap() });
    sleep(secs(1)).await;
    end.send(Loss::Expired).unwrap();
    for guard in [&one, &two] {
        let lost = timeout(secs(1), guard.lost()).await;
        assert_eq!(lost, Ok(Loss::Expired));
    }
    held.release().await.unwrap();
    let third = timeout(secs(1), waiting).await.expect("still in line");
    assert_eq!(third.unwrap().health(), Health::Held);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_certain_to_tell_is_not_asked_again() {
    let (locks, there, _end) = session(secs(30));
    let held = there.mutex("a").lock().await.unwrap();
    let lock = locks.mutex("a");
    let waiting = tokio::spawn(async move { lock.lock().await.unwrap() });
    sleep(secs(3600)).await;
    held.release().await.unwrap();
    drop(timeout(secs(1), waiting).await.expect("told").unwrap());
}

//! How a lock is asked for, the same for `run` and `acquire`.

use std::time::Duration;

use clap::Args;
use tenure::driver::Mode;
use tenure::{Client, Error, Guard, Lease, Lock, Name, Owner};
use tokio::time::{Instant, sleep, timeout};

use crate::duration;
use crate::error::{Failure, Result};
use crate::exit_code;
use crate::nested::Around;
use crate::output::{escape, shell_word};
use crate::store::Store;
use crate::waiting::tell_while;

/// The flags of a lock request.
#[derive(Debug, Args)]
pub(crate) struct Ask {
    /// How long the lease lasts unless renewed: how long others wait for a holder that was cut off
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "30s")]
    pub(crate) ttl: Duration,

    /// Give up if NAME is not free in time; within that time also retry a store that is unavailable
    /// [default: wait for NAME for ever, but fail at once if the store is unavailable]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, conflicts_with = "no_wait")]
    wait: Option<Duration>,

    /// Give up if NAME is not free right now
    #[arg(long)]
    no_wait: bool,

    /// Hold NAME together with others that share it
    #[arg(long, conflicts_with = "permits")]
    shared: bool,

    /// Hold some permits of a semaphore, such as 2/5 for two of five
    #[arg(long, value_name = "TAKE/OF", value_parser = parse_permits)]
    permits: Option<Permits>,

    /// The reason, shown to people who look at the lock
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    /// Say nothing while waiting or if NAME is busy, and give no warnings; errors are still reported
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Ask as this owner: processes of one job that name the same owner share the lock
    #[arg(long, value_name = "TEXT")]
    owner: Option<String>,
}

impl Ask {
    /// Makes the lock to ask for.
    pub(crate) fn lock(&self, client: &Client, name: &Name) -> Result<Lock> {
        let name = name.as_str();
        let mut lock = match self.permits {
            Some(Permits { take, of }) => client.semaphore(name, of).take(take),
            None if self.shared => client.rwlock(name).read(),
            None => client.mutex(name),
        };
        lock = lock.ttl(self.ttl);
        if let Some(reason) = &self.reason {
            lock = lock.reason(reason);
        }
        if let Some(owner) = &self.owner {
            lock = lock.owner(Owner::named(owner)?);
        }
        Ok(lock)
    }

    /// Returns whether the flags name an owner.
    pub(crate) fn has_owner(&self) -> bool {
        self.owner.is_some()
    }

    /// Refuses to wait for ever for a lock that the command around this one holds.
    pub(crate) async fn check_nesting(&self, client: &Client, name: &Name) -> Result<()> {
        if self.no_wait || self.wait.is_some() {
            return Ok(());
        }
        let mode = match self.permits {
            Some(Permits { take, of }) => Mode::Permits { take, of },
            None if self.shared => Mode::Shared,
            None => Mode::Exclusive,
        };
        match Around::find(client, name, mode, self.owner.as_deref()).await {
            Some(around) if around.for_good => Err(Failure::usage(around.sentence)),
            Some(around) if !self.quiet => {
                anstream::eprintln!("tenure: {}", escape(&around.sentence));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Starts the wait that the flags ask for.
    pub(crate) fn wait(&self) -> Wait {
        let patience = match self.wait {
            Some(time) if !time.is_zero() => Patience::For(time),
            None if !self.no_wait => Patience::Endless,
            _ => Patience::None,
        };
        Wait {
            patience,
            quiet: self.quiet,
            begun: Instant::now(),
            outage: None,
            pause: SHORTEST_PAUSE,
        }
    }
}

/// The wait for a lock and, if its time is limited, for the store.
///
/// Without a limit, an unavailable store is reported at once, because it may stay unavailable.
#[derive(Debug)]
pub(crate) struct Wait {
    patience: Patience,
    quiet: bool,
    begun: Instant,
    /// Why the store was unavailable at the last attempt.
    outage: Option<Failure>,
    pause: Duration,
}

#[derive(Debug, Clone, Copy)]
enum Patience {
    None,
    For(Duration),
    Endless,
}

impl Wait {
    /// Opens the store.
    pub(crate) async fn open(&mut self, store: &Store) -> Result<Client> {
        loop {
            let opened = match self.patience {
                Patience::For(time) => {
                    let opened = timeout(self.left(time).max(LEAST_TO_OPEN), store.open()).await;
                    opened.unwrap_or_else(|_| Err(self.unanswered(time)))
                }
                Patience::None | Patience::Endless => store.open().await,
            };
            match opened {
                Ok(client) => return Ok(client),
                Err(failure) => self.again_after(failure).await?,
            }
        }
    }

    /// Waits for the lock.
    pub(crate) async fn guard(
        &mut self,
        client: &Client,
        lock: &Lock,
        name: &Name,
    ) -> Result<Guard> {
        let ask = async |patience| match patience {
            Patience::None => lock.try_lock().await,
            Patience::For(time) => lock.lock_timeout(time).await.map(Some),
            Patience::Endless => lock.lock().await.map(Some),
        };
        self.ask(client, name, ask).await
    }

    /// Waits for a lease by hand.
    pub(crate) async fn lease(
        &mut self,
        client: &Client,
        lock: &Lock,
        name: &Name,
    ) -> Result<Lease> {
        let ask = async |patience| match patience {
            Patience::None => lock.try_lease().await,
            Patience::For(time) => lock.lease_timeout(time).await.map(Some),
            Patience::Endless => lock.lease().await.map(Some),
        };
        self.ask(client, name, ask).await
    }

    async fn ask<T>(
        &mut self,
        client: &Client,
        name: &Name,
        ask: impl AsyncFn(Patience) -> tenure::Result<Option<T>>,
    ) -> Result<T> {
        loop {
            let patience = match self.patience {
                // If the store recovers at the last moment, it is still asked once.
                Patience::For(time) => Patience::For(self.left(time).max(LEAST_TO_ASK.min(time))),
                patience => patience,
            };
            let answer = match patience {
                Patience::For(_) | Patience::Endless if !self.quiet => {
                    tell_while(client, name, ask(patience)).await
                }
                _ => ask(patience).await,
            };
            match self.granted(answer, name) {
                Ok(granted) => return Ok(granted),
                Err(failure) => self.again_after(failure).await?,
            }
        }
    }

    fn granted<T>(&self, answer: tenure::Result<Option<T>>, name: &Name) -> Result<T> {
        match (answer, self.patience) {
            (Ok(granted), _) => granted.ok_or_else(|| busy(name)),
            // The last attempt only had the time that the earlier attempts left over.
            (Err(Error::TimedOut { name, .. }), Patience::For(waited)) => {
                Err(Error::TimedOut { name, waited }.into())
            }
            (Err(error), _) => Err(error.into()),
        }
    }

    /// Returns how much of `time` is left.
    fn left(&self, time: Duration) -> Duration {
        time.saturating_sub(self.begun.elapsed())
    }

    /// Returns why the store has been unavailable so far, or that it has not answered at all.
    fn unanswered(&mut self, time: Duration) -> Failure {
        let unknown = || Failure::unanswered(time);
        self.outage.take().unwrap_or_else(unknown)
    }

    /// Pauses before the next attempt if the store may recover in time; otherwise returns the
    /// failure.
    async fn again_after(&mut self, failure: Failure) -> Result<()> {
        let (Some(reason), Patience::For(time)) = (failure.outage(), self.patience) else {
            return Err(match self.quiet && failure.is_busy() {
                true => Failure::silent(failure.code()),
                false => failure,
            });
        };
        let left = self.left(time);
        if left.is_zero() {
            return Err(failure.while_store_is_away());
        }
        // A reason that contains a countdown is still the same reason.
        let same = |reason: &str| reason.replace(|c: char| c.is_ascii_digit(), "");
        let told = self.outage.as_ref().and_then(Failure::outage).map(same);
        if !self.quiet && told != Some(same(reason)) {
            anstream::eprintln!("tenure: {reason}; waiting for the store");
        }
        self.outage = Some(failure);
        sleep(self.pause.min(left)).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Ok(())
    }
}

#[derive(Debug, Clone, Copy)]
struct Permits {
    take: u32,
    of: u32,
}

fn parse_permits(text: &str) -> std::result::Result<Permits, String> {
    let parsed = text.split_once('/').and_then(|(take, of)| {
        let (take, of) = (take.parse().ok()?, of.parse().ok()?);
        Some(Permits { take, of })
    });
    parsed.ok_or_else(|| "write for example 2/5 for two of five permits".to_owned())
}

fn busy(name: &Name) -> Failure {
    let show = shell_word(name.as_str());
    let sentence = format!("'{name}' is busy; see who holds it: tenure show {show}; or use --wait");
    Failure::new(exit_code::BUSY, sentence)
}

/// Gives the client time to undo what an interrupted wait left behind, and what a slow server does
/// late.
pub(crate) async fn settle(client: &Client) {
    // Whatever is not undone by then expires in the store.
    let _ = timeout(LONGEST_GOODBYE, client.settled()).await;
}

/// Does the same as [`settle`], after a request that failed.
pub(crate) async fn settle_after(client: &Client, failure: &Failure) {
    match failure.is_store_away() {
        // This is enough for those servers that answer, if only some of several do.
        true => _ = timeout(SHORT_GOODBYE, client.settled()).await,
        false => settle(client).await,
    }
}

/// How long the command waits for the store before it exits.
pub(crate) const LONGEST_GOODBYE: Duration = Duration::from_secs(2);

/// How long it waits for a store that was still unavailable at the end.
pub(crate) const SHORT_GOODBYE: Duration = Duration::from_millis(500);

/// The least time that a store gets to open, even if `--wait` is shorter: a connection takes a few
/// round trips.
const LEAST_TO_OPEN: Duration = Duration::from_millis(500);

/// The least time to wait for the lock when the store has used up `--wait`. The engine needs this
/// long to tell a busy lock from a store that does not answer.
const LEAST_TO_ASK: Duration = Duration::from_millis(100);

/// The pause between two attempts to reach an unavailable store.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

//! How a lock is asked for, the same for `run` and `acquire`.

use std::time::Duration;

use clap::Args;
use tenure::{Client, Guard, Lease, Lock, Name, Owner};
use tokio::time::timeout;

use crate::duration;
use crate::error::{Failure, Result};
use crate::exit_code;

/// The flags of a request.
#[derive(Debug, Args)]
pub(crate) struct Ask {
    /// How long the lease lasts unless renewed: how long others wait for a holder that was cut off
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "30s")]
    pub(crate) ttl: Duration,

    /// Give up if NAME is not free in time (waits for ever if not given)
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, conflicts_with = "no_wait")]
    wait: Option<Duration>,

    /// Give up if NAME is not free right now
    #[arg(long)]
    no_wait: bool,

    /// Hold NAME together with others that share it
    #[arg(long, conflicts_with = "permits")]
    shared: bool,

    /// Hold so many of so many permits, such as 2/5
    #[arg(long, value_name = "TAKE/OF", value_parser = parse_permits)]
    permits: Option<Permits>,

    /// Say why, for people who look at the lock
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

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

    /// Whether the flags say who asks.
    pub(crate) fn has_owner(&self) -> bool {
        self.owner.is_some()
    }

    /// Waits for the lock as long as the flags say.
    pub(crate) async fn guard(&self, lock: &Lock, name: &Name) -> Result<Guard> {
        match self.patience() {
            Patience::None => lock.try_lock().await?.ok_or_else(|| busy(name)),
            Patience::For(time) => Ok(lock.lock_timeout(time).await?),
            Patience::Endless => Ok(lock.lock().await?),
        }
    }

    /// Waits for a lease by hand as long as the flags say.
    pub(crate) async fn lease(&self, lock: &Lock, name: &Name) -> Result<Lease> {
        match self.patience() {
            Patience::None => lock.try_lease().await?.ok_or_else(|| busy(name)),
            Patience::For(time) => Ok(lock.lease_timeout(time).await?),
            Patience::Endless => Ok(lock.lease().await?),
        }
    }

    fn patience(&self) -> Patience {
        match self.wait {
            Some(time) if !time.is_zero() => Patience::For(time),
            None if !self.no_wait => Patience::Endless,
            _ => Patience::None,
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Patience {
    None,
    For(Duration),
    Endless,
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
    let sentence = format!("{name} is busy; see who holds it with 'tenure show', or use --wait");
    Failure::new(exit_code::BUSY, sentence)
}

/// Gives the client time to undo what a wait that was cut short left behind, and what a server does late.
pub(crate) async fn settle(client: &Client) {
    // What is not undone by then, the store finds out in its own time.
    let _ = timeout(LONGEST_GOODBYE, client.settled()).await;
}

/// How long the end of the command waits for the store.
pub(crate) const LONGEST_GOODBYE: Duration = Duration::from_secs(2);

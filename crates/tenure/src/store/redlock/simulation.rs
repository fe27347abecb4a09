//! Support for simulations: a client of any nodes, and a voting server as plain data.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::driver::{Claim, Driver, Entry, Holder, News, Release, Released, Renewal, Renewed};
use crate::error::{Error, Result};
use crate::name::Name;
use crate::store::ledger::voting::{Turn, VotingLedger};
use crate::store::ledger::{self, Session};
use crate::store::redlock::url::Settings;

pub use crate::store::redlock::node::Node;
pub use crate::store::redlock::tie::TieRule;
pub use crate::store::vote::{Number, Vote};

/// Makes one client of some nodes, on the clock of the first of them.
///
/// `restart_delay` is how long a node that has started is excluded from voting, `None` if nodes
/// never lose data.
///
/// # Panics
///
/// Outside a Tokio runtime.
pub fn client(
    nodes: Vec<Arc<dyn Node>>,
    restart_delay: Option<Duration>,
    ties: TieRule,
) -> Arc<dyn Driver> {
    let settings = Settings {
        nodes: Vec::new(),
        drift_percent: 1,
        restart_delay,
    };
    Arc::new(super::join(nodes, settings, ties))
}

/// One voting server, which decides by `store/ledger` as Redis does by its scripts.
#[derive(Debug)]
pub struct Voter {
    names: BTreeMap<Name, VotingLedger>,
    hand_over: Duration,
    news: Vec<(Session, News)>,
}

impl Voter {
    /// Starts an empty server; a lease that it hands over lasts for `hand_over` until its new holder
    /// confirms it.
    pub fn new(hand_over: Duration) -> Self {
        Self {
            names: BTreeMap::new(),
            hand_over,
            news: Vec::new(),
        }
    }

    /// Votes on a claim of a session at the time `now` of the server's clock.
    ///
    /// # Errors
    ///
    /// [`ModeConflict`](Error::ModeConflict) if the owner holds the name in another mode.
    pub fn vote(&mut self, by: Session, now: Duration, claim: &Claim, on: Number) -> Result<Vote> {
        let vote = self.change(by, now, &claim.name, |name, turn| {
            name.vote(claim, on, turn)
        });
        let (answer, joins) = vote.map_err(|_| Error::ModeConflict {
            name: claim.name.clone(),
        })?;
        let is_granted = matches!(answer, crate::driver::Answer::Granted(_));
        Ok(Vote {
            answer,
            joins,
            clock_us: is_granted.then(|| nanos(now) / 1000),
            started: None,
            delayed: false,
        })
    }

    /// Undoes a claim.
    pub fn withdraw(&mut self, by: Session, now: Duration, claim: &Claim) {
        self.change(by, now, &claim.name, |name, turn| {
            name.change(turn, |ledger, at| ledger.withdraw(claim, at));
        });
    }

    /// Renews leases.
    pub fn renew(&mut self, by: Session, now: Duration, renewals: &[Renewal]) -> Vec<Renewed> {
        let one = |renewal: &Renewal| {
            self.change(by, now, &renewal.name, |name, turn| {
                name.let_in(None, turn);
                name.change(turn, |ledger, at| ledger.renew(renewal, at))
            })
        };
        renewals.iter().map(one).collect()
    }

    /// Frees a lease.
    pub fn release(&mut self, by: Session, now: Duration, release: &Release) -> Released {
        self.change(by, now, &release.name, |name, turn| {
            name.let_in(None, turn);
            name.change(turn, |ledger, at| ledger.release(release, at))
        })
    }

    /// Evicts the holders of a name, and returns them.
    pub fn evict(&mut self, by: Session, now: Duration, name: &Name) -> Vec<Holder> {
        self.change(by, now, name, |name, turn| {
            name.let_in(None, turn);
            name.change(turn, ledger::Ledger::evict)
        })
    }

    /// Lists holders and waiters.
    pub fn list(&self, now: Duration, only: Option<&Name>) -> Vec<Entry> {
        let names = self.names.iter();
        let names = names.filter(|(name, _)| only.is_none_or(|only| only == *name));
        let entries = names.map(|(name, state)| state.ledger.entry(name.clone(), nanos(now)));
        entries.filter(|entry| !entry.is_empty()).collect()
    }

    /// Removes and returns the news that the server has for its clients.
    pub fn take_news(&mut self) -> Vec<(Session, News)> {
        std::mem::take(&mut self.news)
    }

    /// Returns the largest number that the server knows to have assigned.
    pub fn last_fence(&self) -> u64 {
        let last = self.names.values().map(|state| state.last);
        last.max().unwrap_or(0)
    }

    fn change<T>(
        &mut self,
        session: Session,
        now: Duration,
        name: &Name,
        change: impl FnOnce(&mut VotingLedger, &mut Turn) -> T,
    ) -> T {
        let mut turn = Turn {
            session,
            now: nanos(now),
            hand_over: self.hand_over,
            notices: Vec::new(),
        };
        let state = self.names.entry(name.clone()).or_default();
        let output = change(state, &mut turn);
        let news = turn.notices.into_iter().map(|notice| {
            let news = ledger::news(name.clone(), &notice.claim, notice.what);
            (notice.session, news)
        });
        self.news.extend(news);
        output
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

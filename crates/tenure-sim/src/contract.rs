//! The driver's contract as messages: what a client sends over the network, and what comes back.
//!
//! Everything that depends on the shape of [`tenure::driver`] is in this file, in `driver.rs`, in
//! `store.rs` and in `bugs`.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tenure::driver::{
    Answer, Claim, Driver, Entry, Holder, News, Release, Released, Renewal, Renewed,
};
use tenure::store::memory::Memory;
use tenure::store::redlock::simulation::{Number, Vote, Voter};
use tenure::store::sql::simulation as sql;
use tenure::{Name, Result};
use tokio::time::Instant;

use crate::plan::BellKind;

/// A request to the store.
#[derive(Debug, Clone)]
pub(crate) enum Request {
    Acquire(Claim),
    /// Asks one of several servers for its vote.
    Vote {
        claim: Claim,
        number: Number,
        /// Whether requests that were sent later may overtake it.
        delayed: bool,
    },
    /// Opens a connection to one of several servers.
    Hello,
    Withdraw(Claim),
    Renew(Vec<Renewal>),
    Release(Release),
    List(Option<Name>),
    Evict(Name),
    /// A request to a database.
    Sql(Ask),
}

/// A request to a database.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant, reason = "most of them are statements")]
pub(crate) enum Ask {
    /// Opens a connection for statements.
    Connect,
    /// Opens a connection for notifications to a client.
    Listen {
        session: u128,
        bell: u64,
        kind: BellKind,
    },
    /// Sleeps on such a connection, unless the turn of one of these names has changed.
    Sleep {
        bell: u64,
        watched: Vec<(Name, i64)>,
    },
    /// Closes such a connection.
    HangUp { bell: u64 },
    /// Executes a statement.
    Execute(Box<sql::Statement>),
    /// Executes a statement, and rolls it back because of another one.
    Undo,
}

/// The reply of a database.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "most of them are statements")]
pub(crate) enum Told {
    /// The connection is open or closed.
    Done,
    /// Whether the turn of a name has changed; if not, the client is asleep.
    Turned(bool),
    /// The statement was executed.
    Executed(Box<sql::Reply>),
    /// The statement was rolled back.
    Undone,
}

/// A reply on its way back.
#[derive(Debug)]
pub(crate) enum Reply {
    Acquired(Result<Answer>),
    Voted(Result<Vote>),
    Hello { started: Instant, clock_us: u64 },
    Withdrawn(Result<()>),
    Renewed(Result<Vec<Renewed>>),
    Released(Result<Released>),
    Listed(Result<Vec<Entry>>),
    Evicted(Result<Vec<Holder>>),
    Sql(Told),
}

impl Request {
    /// Has a session of the store decide.
    pub(crate) fn decide(&self, session: &Memory) -> Reply {
        match self {
            Self::Acquire(claim) => Reply::Acquired(ready(session.acquire(claim))),
            Self::Withdraw(claim) => Reply::Withdrawn(ready(session.withdraw(claim))),
            Self::Renew(renewals) => Reply::Renewed(ready(session.renew(renewals))),
            Self::Release(release) => Reply::Released(ready(session.release(release))),
            Self::List(only) => Reply::Listed(ready(session.list(only.as_ref()))),
            Self::Evict(name) => Reply::Evicted(ready(session.evict(name))),
            Self::Vote { .. } | Self::Hello | Self::Sql(_) => {
                unreachable!("a store that is alone is asked by the contract")
            }
        }
    }

    /// Has one of several servers decide, which has been up since `started`.
    pub(crate) fn decide_at(
        &self,
        voter: &mut Voter,
        session: u128,
        now: Duration,
        started: Instant,
    ) -> Reply {
        match self {
            Self::Acquire(_) | Self::Sql(_) => {
                unreachable!("a server that votes is asked for its vote")
            }
            Self::Vote {
                claim,
                number,
                delayed,
            } => {
                let voted = voter.vote(session, now, claim, *number);
                Reply::Voted(voted.map(|vote| Vote {
                    delayed: *delayed,
                    ..vote
                }))
            }
            Self::Hello => Reply::Hello {
                started,
                clock_us: u64::try_from(now.as_micros()).unwrap_or(u64::MAX),
            },
            Self::Withdraw(claim) => {
                voter.withdraw(session, now, claim);
                Reply::Withdrawn(Ok(()))
            }
            Self::Renew(renewals) => Reply::Renewed(Ok(voter.renew(session, now, renewals))),
            Self::Release(release) => Reply::Released(Ok(voter.release(session, now, release))),
            Self::List(only) => Reply::Listed(Ok(voter.list(now, only.as_ref()))),
            Self::Evict(name) => Reply::Evicted(Ok(voter.evict(session, now, name))),
        }
    }

    /// Describes it for stories; `label` shortens owners.
    pub(crate) fn told(&self, label: impl Fn(&str) -> String) -> String {
        match self {
            Self::Acquire(claim) => {
                let wait = match claim.wait {
                    tenure::driver::Wait::No => "without waiting",
                    _ => "or a place in line",
                };
                let (name, id) = (&claim.name, label(claim.id.as_str()));
                let owner = claim.owner.as_ref();
                let owner = owner.map_or_else(String::new, |owner| format!(" of owner {owner}"));
                format!("acquire {name} {wait} for {id}{owner}")
            }
            Self::Vote { claim, number, .. } => {
                let (name, id) = (&claim.name, label(claim.id.as_str()));
                let number = match number {
                    Number::AtLeast(least) => format!("at least {least}"),
                    Number::Exactly(fence) => format!("exactly {fence}"),
                };
                format!("vote on {name} for {id}, {number}")
            }
            Self::Hello => "connect".to_owned(),
            Self::Withdraw(claim) => {
                format!("withdraw {} on {}", label(claim.id.as_str()), claim.name)
            }
            Self::Renew(renewals) => {
                let all: Vec<_> = renewals
                    .iter()
                    .map(|it| format!("{} of {}", it.name, label(it.claim.as_str())))
                    .collect();
                format!("renew {}", all.join(", "))
            }
            Self::Release(release) => {
                let (name, claim) = (&release.name, label(release.claim.as_str()));
                let fence = release.fence.map_or(0, tenure::Fence::get);
                format!("release {name} of {claim}, fence {fence}")
            }
            Self::List(_) => "list".to_owned(),
            Self::Evict(name) => format!("evict {name}"),
            Self::Sql(ask) => ask.told(label),
        }
    }
}

impl Ask {
    /// Returns whether its message may be lost. A message that nobody waits for with a timeout is
    /// lost only together with its connection.
    pub(crate) fn may_be_lost(&self) -> bool {
        !matches!(self, Self::Sleep { .. } | Self::HangUp { .. })
    }

    fn told(&self, label: impl Fn(&str) -> String) -> String {
        match self {
            Self::Connect => "connect".to_owned(),
            Self::Listen { bell, .. } => format!("listen on bell {bell}"),
            Self::Sleep { bell, .. } => format!("sleep on bell {bell}"),
            Self::HangUp { bell } => format!("close bell {bell}"),
            Self::Undo => "a statement".to_owned(),
            Self::Execute(statement) => tell_statement(statement, label),
        }
    }
}

fn tell_statement(statement: &sql::Statement, label: impl Fn(&str) -> String) -> String {
    let lease = |lease: &sql::Lease| format!("{} of {}", lease.name, label(&lease.claim));
    match statement {
        sql::Statement::Take { lease: taken, .. } => format!("take {}", lease(taken)),
        sql::Statement::Give(given) => format!("give {}", lease(given)),
        sql::Statement::Extend(leases) => {
            let all: Vec<_> = leases.iter().map(|(extended, _)| lease(extended)).collect();
            format!("extend {}", all.join(", "))
        }
        sql::Statement::Read(name) => format!("read {name}"),
        sql::Statement::ReadAll(names) => format!("read {}", names.join(", ")),
        sql::Statement::Write {
            name,
            read,
            row,
            letters,
        } => {
            let (read, letters) = (read.unwrap_or(0), letters.len());
            let row = tell_row(name, row, label);
            format!("write {name} if its version is {read}: {row}; {letters} letters")
        }
        sql::Statement::Presence(of) => format!("which of {} clients are there", of.len()),
        sql::Statement::Page { .. } => "list".to_owned(),
        sql::Statement::Sweep { .. } => "sweep".to_owned(),
    }
}

fn tell_row(name: &str, row: &sql::Row, label: impl Fn(&str) -> String) -> String {
    let (version, turn, ends) = (row.version, row.turn, row.ends);
    let mut table = sql::Table::default();
    table.rows.insert(name.to_owned(), row.clone());
    let entries = table.entries(0, None);
    let holders = entries.iter().flat_map(|entry| &entry.holders);
    let holders: Vec<_> = holders
        .map(|holder| {
            format!(
                "{} with fence {}",
                label(holder.claim.as_str()),
                holder.fence
            )
        })
        .collect();
    let waiters = entries.iter().flat_map(|entry| &entry.waiters);
    let waiters: Vec<_> = waiters.map(|waiter| label(waiter.claim.as_str())).collect();
    format!(
        "version {version}, turn {turn}, until {ends}: held by [{}], line [{}]",
        holders.join(", "),
        waiters.join(", ")
    )
}

impl Reply {
    /// Describes it for stories.
    pub(crate) fn told(&self, label: impl Fn(&str) -> String) -> String {
        match self {
            Self::Acquired(Ok(answer)) => tell_answer(answer),
            Self::Voted(Ok(vote)) => tell_answer(&vote.answer),
            Self::Acquired(Err(error)) | Self::Voted(Err(error)) => format!("refused: {error}"),
            Self::Hello { .. } => "connected".to_owned(),
            Self::Withdrawn(_) => "withdrawn".to_owned(),
            Self::Renewed(Ok(renewed)) => {
                let kept = |it: &Renewed| match it {
                    Renewed::Extended { .. } => "kept".to_owned(),
                    Renewed::Lost(loss) => format!("lost ({loss})"),
                    _ => "unknown".to_owned(),
                };
                let all: Vec<_> = renewed.iter().map(kept).collect();
                all.join(", ")
            }
            Self::Released(Ok(Released::Freed { left })) => {
                format!("freed, {left} of its owner are left")
            }
            Self::Released(Ok(Released::NotHeld(loss))) => format!("not held ({loss})"),
            Self::Listed(_) => "listed".to_owned(),
            Self::Sql(told) => told.told(label),
            Self::Evicted(Ok(holders)) => format!("took it from {} holders", holders.len()),
            _ => "failed".to_owned(),
        }
    }
}

impl Told {
    fn told(&self, label: impl Fn(&str) -> String) -> String {
        match self {
            Self::Done => "done".to_owned(),
            Self::Turned(turned) => format!("another turn: {turned}"),
            Self::Undone => "undone".to_owned(),
            Self::Executed(reply) => match &**reply {
                sql::Reply::Seen(seen) => {
                    let next = match seen.next {
                        Some(sql::Whereabouts::Gone) => ", the first in line is gone",
                        _ => "",
                    };
                    match &seen.row {
                        Some(row) => format!("{}{next}", tell_row("it", row, label)),
                        None => "there is no row".to_owned(),
                    }
                }
                sql::Reply::Rows { rows, .. } => {
                    let all: Vec<_> = rows
                        .iter()
                        .map(|(name, row)| {
                            let row = tell_row(name, row, &label);
                            format!("{name}: {row}")
                        })
                        .collect();
                    all.join("; ")
                }
                other => format!("{other:?}"),
            },
        }
    }
}

fn tell_answer(answer: &Answer) -> String {
    match answer {
        Answer::Granted(grant) => format!("granted with fence {}", grant.fence),
        Answer::Queued { ask_again } => {
            let ask_again = ask_again.unwrap_or_default();
            format!("queued, ask again in {} ms", ask_again.as_millis())
        }
        _ => "busy".to_owned(),
    }
}

/// Describes it for stories.
pub(crate) fn tell_news(news: &News, label: impl Fn(&str) -> String) -> String {
    match news {
        News::AskAgain(None) => "ask again for everything".to_owned(),
        News::AskAgain(Some(name)) => format!("ask again for {name}"),
        News::Granted {
            name, claim, grant, ..
        } => {
            let (claim, fence) = (label(claim.as_str()), grant.fence);
            format!("{name} is granted to {claim} with fence {fence}")
        }
        News::Lost {
            name, fence, loss, ..
        } => format!("fence {fence} of {name} is lost: {loss}"),
        News::Wanted { name, fence, .. } => format!("{name} with fence {fence} is wanted"),
        _ => "something new".to_owned(),
    }
}

/// Returns the next news of a session, if any.
pub(crate) fn next_news(session: &Memory) -> Option<News> {
    let news = tokio::task::unconstrained(session.news());
    match pin!(news).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(news) => Some(news),
        Poll::Pending => None,
    }
}

/// Returns the output of a future that never waits.
fn ready<T>(future: impl Future<Output = T>) -> T {
    let future = tokio::task::unconstrained(future);
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("the memory store answers at once"),
    }
}

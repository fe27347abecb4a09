//! What a simulation needs: a client over any link, and the lock table of a database as plain data.
//!
//! The table decides as the statements of PostgreSQL do (`store/postgres/statements`).

mod table;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::driver::{Claim, Driver, Proof, RowKey, RowProof};
use crate::name::{ClaimId, Fence, Name};
use crate::random::random_u128;
use crate::store::ledger::{NOBODY, Session};
use crate::store::sql::Sql;
use crate::store::sql::database::{self, Connection, Database, Extension, Give, Take, Took};
use crate::store::sql::fault::{Fault, FaultKind, Outcome};
use crate::store::sql::pool::Pool;
use crate::store::sql::record::{Micros, Presence, Read, StoredRow};
use crate::store::sql::settings::Settings;
use crate::transaction::Dialect;
use crate::url::Host;

pub use table::{Directory, Lease, Post, Reply, Row, Seen, Statement, Table, Whereabouts};

/// Makes one client of a database at the other end of a link.
///
/// It uses so many connections at most, and waits so long for an answer and for a connection.
///
/// # Panics
///
/// Outside a Tokio runtime.
pub fn client(
    link: Arc<dyn Link>,
    connections: u32,
    timeout: Duration,
    connect_timeout: Duration,
) -> Arc<dyn Driver> {
    let settings = Settings {
        host: Host {
            name: "simulated".to_owned(),
            port: 0,
        },
        socket: None,
        user: None,
        password: None,
        database: "locks".to_owned(),
        tls: None,
        schema: None,
        prefix: String::new(),
        connections,
        timeout,
        connect_timeout,
        fence_memory: Duration::from_secs(3600),
    };
    let session = random_u128().max(NOBODY + 1);
    Arc::new(Sql::start(
        Arc::new(Simulated(link)),
        Arc::new(settings),
        session,
    ))
}

/// The way to a database.
#[async_trait]
pub trait Link: Debug + Send + Sync + 'static {
    /// Makes a connection for statements.
    ///
    /// # Errors
    ///
    /// If it cannot be made.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is asked on the connection.
    async fn connect(&self) -> Result<Box<dyn Asks>, LinkFault>;

    /// Makes a connection on which a client is reached; `None` if there is no such thing here.
    ///
    /// # Errors
    ///
    /// If it cannot be made.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the connection is closed.
    async fn listen(&self, client: u128) -> Result<Option<Box<dyn Hears>>, LinkFault>;
}

/// A connection for one statement at a time.
#[async_trait]
pub trait Asks: Debug + Send + 'static {
    /// Returns whether it was closed, as far as is known without asking.
    fn is_closed(&self) -> bool;

    /// Sends a statement, and waits for its answer.
    ///
    /// # Errors
    ///
    /// If no answer comes, or the database undid the statement.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: the statement may still be executed. The connection is not used again.
    async fn ask(&mut self, statement: Statement) -> Result<Reply, LinkFault>;
}

/// A connection on which a client is reached.
#[async_trait]
pub trait Hears: Debug + Send + 'static {
    /// Waits for a letter; `None` if it is not known what it says. `watched` are names, each with the turn at
    /// which it was last seen.
    ///
    /// # Errors
    ///
    /// If the connection is broken.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: what is not heard now is heard by the next call, or by looking at the rows.
    async fn heard(&mut self, watched: &[(Name, i64)]) -> Result<Option<String>, LinkFault>;
}

/// What goes wrong on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkFault {
    /// The database undid the statement because of another one; the connection is well.
    Undone,
    /// Nothing was sent.
    Unsent,
    /// The connection is broken, and the statement may have been executed.
    Unknown,
}

/// A database at the other end of a link.
#[derive(Debug)]
struct Simulated(Arc<dyn Link>);

#[async_trait]
impl Database for Simulated {
    type Connection = SimulatedConnection;
    type Bell = SimulatedBell;

    const KIND: &'static str = "simulated";
    const RELEASES_LAZILY: bool = true;

    async fn connect(&self) -> Outcome<SimulatedConnection> {
        let connected = self.0.connect().await;
        connected.map(SimulatedConnection).map_err(Fault::from)
    }

    async fn listen(&self, session: Session) -> Outcome<Option<SimulatedBell>> {
        let bell = self.0.listen(session).await.map_err(Fault::from)?;
        Ok(bell.map(SimulatedBell))
    }

    fn place(&self) -> String {
        "simulated".to_owned()
    }

    fn proof(&self, claim: &Claim, fence: Fence) -> Proof {
        Proof::Row(RowProof {
            dialect: Dialect::Postgres,
            table: self.place(),
            name: claim.name.clone(),
            claim: claim.id.clone(),
            fence,
            mode: claim.mode,
        })
    }

    async fn row_key(&self, _pool: &Pool<Self>, name: &Name) -> Outcome<RowKey> {
        Ok(RowKey::Advisory {
            text: name.to_string(),
        })
    }
}

#[derive(Debug)]
struct SimulatedConnection(Box<dyn Asks>);

impl SimulatedConnection {
    async fn ask(&mut self, statement: Statement) -> Outcome<Reply> {
        self.0.ask(statement).await.map_err(Fault::from)
    }
}

#[async_trait]
impl Connection for SimulatedConnection {
    type Id = ();

    fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    fn id(&self) -> Option<()> {
        None
    }

    async fn end(&mut self, _abandoned: &[()]) -> Outcome<usize> {
        Ok(0)
    }

    async fn take(&mut self, take: &Take<'_>) -> Outcome<Took> {
        let claim = take.claim;
        let statement = Statement::Take {
            lease: lease(&claim.name, &claim.id, take.client, None),
            owner: claim.owner.as_ref().map(|owner| owner.as_str().to_owned()),
            fences: take.fences,
            tells: claim.tell_if_wanted,
            ttl_us: take.ttl,
            about: take.about.to_owned(),
        };
        match self.ask(statement).await? {
            Reply::Taken(fence) => Ok(Took::Granted(fence_of(fence)?)),
            Reply::Seen(seen) => Ok(Took::Undecided(Box::new(read(seen)))),
            _ => Err(mixed_up()),
        }
    }

    async fn give(&mut self, give: &Give<'_>) -> Outcome<Option<Read>> {
        let lease = lease(give.name, give.claim, give.client, give.fence);
        match self.ask(Statement::Give(lease)).await? {
            Reply::Given => Ok(None),
            Reply::Seen(seen) => Ok(Some(read(seen))),
            _ => Err(mixed_up()),
        }
    }

    async fn extend(&mut self, extensions: &[Extension<'_>]) -> Outcome<Vec<Option<Fence>>> {
        let leases = extensions
            .iter()
            .map(|of| (lease(of.name, of.claim, of.client, of.fence), of.ttl));
        match self.ask(Statement::Extend(leases.collect())).await? {
            Reply::Extended(fences) => {
                let fences = fences.into_iter();
                fences
                    .map(|fence| fence.map(fence_of).transpose())
                    .collect()
            }
            _ => Err(mixed_up()),
        }
    }

    async fn unlocked(&mut self, names: &[&Name]) -> Outcome<Vec<bool>> {
        // Each statement is over before the next one begins.
        Ok(vec![true; names.len()])
    }

    async fn read(&mut self, name: &Name) -> Outcome<Read> {
        match self.ask(Statement::Read(name.as_str().to_owned())).await? {
            Reply::Seen(seen) => Ok(read(seen)),
            _ => Err(mixed_up()),
        }
    }

    async fn read_all(&mut self, names: &[Name]) -> Outcome<(Micros, Vec<(Name, StoredRow)>)> {
        let wanted = names.iter().map(|name| name.as_str().to_owned()).collect();
        match self.ask(Statement::ReadAll(wanted)).await? {
            Reply::Rows { now_us, rows } => {
                let name = |text: &str| names.iter().find(|name| name.as_str() == text).cloned();
                let rows = rows.iter();
                let rows = rows.filter_map(|(text, row)| Some((name(text)?, row.stored())));
                Ok((now_us, rows.collect()))
            }
            _ => Err(mixed_up()),
        }
    }

    async fn write(&mut self, write: &database::Write<'_>) -> Outcome<bool> {
        let letter = |letter: &database::Letter| {
            Ok(Post {
                to: letter.to,
                at: letter.at,
                text: serde_json::to_string(letter).map_err(Fault::damaged)?,
            })
        };
        let letters: Outcome<Vec<_>> = write.letters.iter().map(letter).collect();
        let statement = Statement::Write {
            name: write.name.as_str().to_owned(),
            read: write.read,
            row: Row::of(write.version, write.columns),
            letters: letters?,
        };
        match self.ask(statement).await? {
            Reply::Written(written) => Ok(written),
            _ => Err(mixed_up()),
        }
    }

    async fn presence(&mut self, sessions: &[Session]) -> Outcome<Vec<Presence>> {
        match self.ask(Statement::Presence(sessions.to_vec())).await? {
            Reply::Presence(all) => Ok(all.into_iter().map(Presence::from).collect()),
            _ => Err(mixed_up()),
        }
    }

    async fn page(
        &mut self,
        after: Option<&str>,
        limit: u32,
    ) -> Outcome<(Micros, Vec<(String, StoredRow)>)> {
        let after = after.map(ToOwned::to_owned);
        match self.ask(Statement::Page { after, limit }).await? {
            Reply::Rows { now_us, rows } => {
                let rows = rows.into_iter();
                let rows = rows.map(|(name, row)| (name, row.stored()));
                Ok((now_us, rows.collect()))
            }
            _ => Err(mixed_up()),
        }
    }

    async fn sweep(
        &mut self,
        after: Option<&str>,
        limit: u32,
        idle: Duration,
    ) -> Outcome<Option<String>> {
        let statement = Statement::Sweep {
            after: after.map(ToOwned::to_owned),
            limit,
            idle_us: i64::try_from(idle.as_micros()).unwrap_or(i64::MAX),
        };
        match self.ask(statement).await? {
            Reply::Swept(last) => Ok(last),
            _ => Err(mixed_up()),
        }
    }
}

#[derive(Debug)]
struct SimulatedBell(Box<dyn Hears>);

#[async_trait]
impl database::Bell for SimulatedBell {
    async fn heard(&mut self, watched: &[(Name, i64)]) -> Outcome<Option<database::Letter>> {
        let heard = self.0.heard(watched).await.map_err(Fault::from)?;
        let letter = heard.map(|text| serde_json::from_str(&text));
        letter.transpose().map_err(Fault::damaged)
    }
}

impl From<LinkFault> for Fault {
    fn from(fault: LinkFault) -> Self {
        match fault {
            LinkFault::Undone => Self::new(FaultKind::Conflict, "undone because of another"),
            LinkFault::Unsent => {
                Self::new(FaultKind::Refused, "no connection").on_a_broken_connection()
            }
            LinkFault::Unknown => {
                Self::new(FaultKind::Unknown, "no answer came").on_a_broken_connection()
            }
        }
    }
}

impl From<Whereabouts> for Presence {
    fn from(whereabouts: Whereabouts) -> Self {
        match whereabouts {
            Whereabouts::Gone => Self::Gone,
            Whereabouts::Here(at) => Self::Here(at),
        }
    }
}

fn read(seen: Seen) -> Read {
    Read {
        now: seen.now_us,
        row: seen.row.map(|row| row.stored()),
        next: seen.next.map(Presence::from),
    }
}

fn lease(name: &Name, claim: &ClaimId, client: Option<&str>, fence: Option<Fence>) -> Lease {
    Lease {
        name: name.as_str().to_owned(),
        claim: claim.as_str().to_owned(),
        client: client.map(ToOwned::to_owned),
        fence: fence.map(|fence| i64::try_from(fence.get()).unwrap_or(i64::MAX)),
    }
}

fn fence_of(number: i64) -> Outcome<Fence> {
    let number = u64::try_from(number).map_err(Fault::damaged)?;
    Fence::new(number).ok_or_else(|| Fault::damaged("a fence that is 0"))
}

fn mixed_up() -> Fault {
    Fault::damaged("an answer to another statement")
}

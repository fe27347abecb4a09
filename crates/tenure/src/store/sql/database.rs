//! What differs between databases: statements, connections, and how a client that waits is reached.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;

use crate::driver::{Claim, Proof, RowKey};
use crate::name::{ClaimId, Fence, Name};
use crate::store::ledger::{Session, What};
use crate::store::sql::fault::Outcome;
use crate::store::sql::pool::Pool;
use crate::store::sql::record::{Columns, Micros, Presence, Read, StoredRow};

/// A kind of database.
#[async_trait]
pub(crate) trait Database: Debug + Send + Sync + 'static {
    /// A connection for statements.
    type Connection: Connection;
    /// A connection on which a client is reached while it waits.
    type Bell: Bell;

    /// The name of the store, such as `"postgres"`.
    const KIND: &'static str;

    /// Whether a crash of the server may undo a release that it has confirmed.
    const RELEASES_LAZILY: bool;

    /// Connects, logs in and finds the table, which it makes if it may.
    async fn connect(&self) -> Outcome<Self::Connection>;

    /// Connects so that others can reach this client; `None` if that is impossible here, because
    /// something between client and server shares connections.
    async fn listen(&self, session: Session) -> Outcome<Option<Self::Bell>>;

    /// Returns where the database is, for messages: no password.
    fn place(&self) -> String;

    /// Returns where transactions of callers see that a claim is granted.
    fn proof(&self, claim: &Claim, fence: Fence) -> Proof;

    /// Returns where transactions of callers lock a name, once that is there.
    async fn row_key(&self, pool: &Pool<Self>, name: &Name) -> Outcome<RowKey>
    where
        Self: Sized;
}

/// A connection, for one statement at a time.
///
/// Each method is one decision of the database in a transaction of its own, and leaves none open.
#[async_trait]
pub(crate) trait Connection: Debug + Send + 'static {
    /// What the server calls a connection.
    type Id: Debug + Clone + PartialEq + Send;

    /// Whether it was closed, as far as is known without asking.
    fn is_closed(&self) -> bool;

    /// What the server calls this connection; `None` if it may belong to others, too.
    fn id(&self) -> Option<Self::Id>;

    /// Tells other connections of this client to end; returns how many of them are not over yet.
    async fn end(&mut self, abandoned: &[Self::Id]) -> Outcome<usize>;

    /// Takes a free name: one statement.
    async fn take(&mut self, take: &Take<'_>) -> Outcome<Took>;

    /// Frees a name whose only holder is the claim: one statement, which need not survive a crash of
    /// the server. Returns the row if there is more to decide.
    async fn give(&mut self, give: &Give<'_>) -> Outcome<Option<Read>>;

    /// Extends leases of lone holders; returns the fence of each that was extended.
    async fn extend(&mut self, extensions: &[Extension<'_>]) -> Outcome<Vec<Option<Fence>>>;

    /// Returns which of these rows nobody else has locked at the moment, without waiting for any.
    async fn unlocked(&mut self, names: &[&Name]) -> Outcome<Vec<bool>>;

    /// Reads a row.
    async fn read(&mut self, name: &Name) -> Outcome<Read>;

    /// Reads some rows; those that are missing are left out.
    async fn read_all(&mut self, names: &[Name]) -> Outcome<(Micros, Vec<(Name, StoredRow)>)>;

    /// Writes a row if it is still as it was read, and rings for whom it concerns.
    async fn write(&mut self, write: &Write<'_>) -> Outcome<bool>;

    /// Returns which of these clients can be reached.
    async fn presence(&mut self, sessions: &[Session]) -> Outcome<Vec<Presence>>;

    /// Reads the rows behind a name that may be held or waited for, sorted by name.
    async fn page(
        &mut self,
        after: Option<&str>,
        limit: u32,
    ) -> Outcome<(Micros, Vec<(String, StoredRow)>)>;

    /// Deletes rows that nobody has used for so long, among the next `limit` behind a name; returns the
    /// last of these, or `None` at the end of the table.
    async fn sweep(
        &mut self,
        after: Option<&str>,
        limit: u32,
        idle: Duration,
    ) -> Outcome<Option<String>>;
}

/// How a client learns what others have decided for it.
#[async_trait]
pub(crate) trait Bell: Debug + Send + 'static {
    /// Waits until something has happened to one of these names, which were last seen at these turns.
    ///
    /// Returns `None` if it is not known to which, so that all of them have to be looked at; also after a few
    /// seconds in which nothing was heard, since whoever has decided something may not have lived to tell.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: after a call that was dropped, another bell is needed.
    async fn heard(&mut self, watched: &[(Name, i64)]) -> Outcome<Option<Letter>>;
}

/// What a client has to be told.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Letter {
    #[serde(skip)]
    pub(crate) to: Session,
    /// The connection of the receiver, if it is known.
    #[serde(skip)]
    pub(crate) at: Option<u64>,
    pub(crate) name: String,
    pub(crate) claim: String,
    pub(crate) what: What,
}

/// A claim that can be granted if the name is free.
#[derive(Debug)]
pub(crate) struct Take<'a> {
    pub(crate) claim: &'a Claim,
    /// The client that it belongs to, as text; none for a lease by hand.
    pub(crate) client: Option<&'a str>,
    pub(crate) about: &'a str,
    pub(crate) fences: i32,
    pub(crate) ttl: Micros,
}

/// A lease to free.
#[derive(Debug)]
pub(crate) struct Give<'a> {
    pub(crate) name: &'a Name,
    pub(crate) claim: &'a ClaimId,
    pub(crate) client: Option<&'a str>,
    pub(crate) fence: Option<Fence>,
}

/// A lease to extend.
#[derive(Debug)]
pub(crate) struct Extension<'a> {
    pub(crate) name: &'a Name,
    pub(crate) claim: &'a ClaimId,
    pub(crate) client: Option<&'a str>,
    pub(crate) fence: Option<Fence>,
    pub(crate) ttl: Micros,
}

/// What became of an attempt to take a name in one statement.
#[derive(Debug)]
pub(crate) enum Took {
    /// It is granted with this fence.
    Granted(Fence),
    /// There is more to decide; this is the row.
    Undecided(Box<Read>),
}

/// A row to write.
#[derive(Debug)]
pub(crate) struct Write<'a> {
    pub(crate) name: &'a Name,
    /// The version that was read; none if there was no row.
    pub(crate) read: Option<i64>,
    /// Whether the row that was read may have several holders.
    #[cfg_attr(
        not(feature = "postgres"),
        allow(dead_code, reason = "only PostgreSQL needs to know")
    )]
    pub(crate) is_shared: bool,
    pub(crate) version: i64,
    pub(crate) columns: &'a Columns,
    pub(crate) letters: &'a [Letter],
}

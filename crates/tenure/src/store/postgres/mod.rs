//! Locks in a PostgreSQL table, with waiters woken by `NOTIFY`.
//!
//! | file | content |
//! |---|---|
//! | `connect` | how a connection is made and prepared, and the table with it |
//! | `connection` | the statements, one method each; `statements/` has their texts |
//! | `listen` | the connection on which a client is told that its turn has come |
//! | `fault` | what errors mean |
//! | `transaction` | locks in transactions of callers |
//!
//! The rules, and everything else that databases have in common, stand in `store/sql`. What is promised,
//! and what every column holds, stands in `docs/stores/postgres.md`.

mod connect;
mod connection;
#[cfg(feature = "doctor")]
mod doctor;
mod fault;
mod listen;
mod statements;
#[cfg(feature = "postgres-tls")]
mod tls;
pub(crate) mod transaction;

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::OnceCell;

use crate::driver::{Claim, Driver, Proof, RowKey, RowProof};
use crate::error::Result;
use crate::name::{Fence, Name};
use crate::store::ledger::Session;
use crate::store::postgres::connection::PostgresConnection;
use crate::store::postgres::listen::Listener;
use crate::store::postgres::statements::Statements;
use crate::store::sql::Sql;
use crate::store::sql::database::Database;
use crate::store::sql::fault::Outcome;
use crate::store::sql::pool::Pool;
use crate::store::sql::settings::Settings;
use crate::transaction::Dialect;

#[cfg(feature = "doctor")]
pub use doctor::doctor;

/// Opens a client of the locks in a PostgreSQL database.
///
/// # Errors
///
/// [`InvalidUrl`](crate::Error::InvalidUrl) for an invalid URL;
/// [`Unavailable`](crate::Error::Unavailable) if no connection can be made, or the table cannot be made;
/// [`Version`](crate::Error::Version) if the table has a newer format.
///
/// # Panics
///
/// Outside a Tokio runtime with I/O and time enabled.
///
/// # Cancel safety
///
/// Cancel safe: a dropped call leaves nothing behind but the table.
pub async fn open(url: &str) -> Result<Arc<dyn Driver>> {
    let settings = Settings::parse(url)?;
    let postgres = Postgres::new(settings.clone())?;
    Ok(Arc::new(Sql::open(postgres, settings).await?))
}

/// A PostgreSQL database.
#[derive(Debug)]
pub(crate) struct Postgres {
    settings: Settings,
    /// The table, as statements name it.
    table: String,
    statements: Statements,
    /// Those for sessions that others use too.
    pooled_statements: Statements,
    /// Whether something between client and server gives each transaction any connection.
    is_pooled: OnceCell<bool>,
}

impl Postgres {
    fn new(settings: Settings) -> Result<Self> {
        connect::refuse_what_is_missing(&settings)?;
        let table = match &settings.schema {
            Some(schema) => format!("{schema}.{}lock", settings.prefix),
            None => format!("{}lock", settings.prefix),
        };
        Ok(Self {
            statements: Statements::new(&table, None),
            pooled_statements: Statements::new(&table, Some(connect::lock_wait(&settings))),
            table,
            settings,
            is_pooled: OnceCell::new(),
        })
    }
}

#[async_trait]
impl Database for Postgres {
    type Connection = PostgresConnection;
    type Bell = Listener;

    const KIND: &'static str = "postgres";
    const RELEASES_LAZILY: bool = true;

    async fn connect(&self) -> Outcome<PostgresConnection> {
        let mut session = self.session().await?;
        let is_pooled = self.is_pooled(&mut session).await?;
        let id = match is_pooled {
            true => None,
            false => Some(self.set_up(&session.client).await?),
        };
        self.find_or_make_table(&session.client).await?;
        let statements = match is_pooled {
            true => &self.pooled_statements,
            false => &self.statements,
        };
        Ok(PostgresConnection::new(session, statements.clone(), id))
    }

    async fn listen(&self, session: Session) -> Outcome<Option<Listener>> {
        let mut connected = self.session().await?;
        if self.is_pooled(&mut connected).await? {
            return Ok(None);
        }
        let listener = Listener::start(connected, session, self.settings.timeout).await;
        listener.map(Some)
    }

    fn place(&self) -> String {
        self.settings.place()
    }

    fn proof(&self, claim: &Claim, fence: Fence) -> Proof {
        Proof::Row(RowProof {
            dialect: Dialect::Postgres,
            table: self.table.clone(),
            name: claim.name.clone(),
            claim: claim.id.clone(),
            fence,
            mode: claim.mode,
        })
    }

    async fn row_key(&self, _pool: &Pool<Self>, name: &Name) -> Outcome<RowKey> {
        let schema = self.settings.schema.as_ref();
        let schema = schema.map_or(String::new(), |schema| format!("{schema}."));
        let prefix = &self.settings.prefix;
        Ok(RowKey::Advisory {
            text: format!("{schema}{prefix}row:{name}"),
        })
    }
}

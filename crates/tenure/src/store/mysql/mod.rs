//! Locks in a table of MySQL or MariaDB, with waiters woken by interrupting a query on which they sleep.
//!
//! | file | content |
//! |---|---|
//! | `connect` | how a connection is made and prepared, and the table with it |
//! | `connection` | the statements, one method each; `statements/` has their texts |
//! | `doorbell` | the query on which a client sleeps until its turn has come |
//! | `fault` | what errors mean |
//! | `transaction` | locks in transactions of callers |
//!
//! The rules, and everything else that databases have in common, stand in `store/sql`. What is promised,
//! and what every column holds, stands in `docs/stores/mysql.md`.

mod connect;
mod connection;
#[cfg(feature = "doctor")]
mod doctor;
mod doorbell;
mod fault;
mod statements;
pub(crate) mod transaction;

use std::sync::Arc;

use async_trait::async_trait;

use crate::driver::{Claim, Driver, Proof, RowKey, RowProof};
use crate::error::Result;
use crate::name::{Fence, Name};
use crate::store::ledger::Session;
use crate::store::mysql::connection::MysqlConnection;
use crate::store::mysql::doorbell::Doorbell;
use crate::store::mysql::statements::Statements;
use crate::store::sql::Sql;
use crate::store::sql::database::Database;
use crate::store::sql::fault::Outcome;
use crate::store::sql::pool::Pool;
use crate::store::sql::settings::Settings;
use crate::transaction::Dialect;

#[cfg(feature = "doctor")]
pub use doctor::doctor;

/// Opens a client of the locks in a database of MySQL or MariaDB.
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
    let mysql = Mysql::new(settings.clone())?;
    Ok(Arc::new(Sql::open(mysql, settings).await?))
}

/// A database of MySQL or MariaDB.
#[derive(Debug)]
pub(crate) struct Mysql {
    settings: Settings,
    statements: Statements,
}

impl Mysql {
    fn new(settings: Settings) -> Result<Self> {
        connect::refuse_what_is_missing(&settings)?;
        let statements = Statements::new(&format!("{}lock", settings.prefix));
        Ok(Self {
            settings,
            statements,
        })
    }

    /// A table with its database, because the transaction of a caller may be used to another one.
    fn with_database(&self, table: &str) -> String {
        format!("`{}`.{table}", self.settings.database.replace('`', "``"))
    }
}

#[async_trait]
impl Database for Mysql {
    type Connection = MysqlConnection;
    type Bell = Doorbell;

    const KIND: &'static str = "mysql";
    const RELEASES_LAZILY: bool = false;

    async fn connect(&self) -> Outcome<MysqlConnection> {
        let mut connection = self.session().await?;
        let started = self.prepare(&mut connection).await?;
        connect::limit_statements(&mut connection, self.settings.timeout).await?;
        let id = connect::id(&mut connection).await?;
        let statements = self.statements.clone();
        Ok(MysqlConnection::new(connection, statements, started, id))
    }

    async fn listen(&self, session: Session) -> Outcome<Option<Doorbell>> {
        let connection = self.session().await?;
        let statements = self.statements.clone();
        Doorbell::start(connection, statements, session, self.settings.timeout).await
    }

    fn place(&self) -> String {
        self.settings.place()
    }

    fn proof(&self, claim: &Claim, fence: Fence) -> Proof {
        Proof::Row(RowProof {
            dialect: Dialect::Mysql,
            table: self.with_database(&self.statements.table),
            name: claim.name.clone(),
            claim: claim.id.clone(),
            fence,
            mode: claim.mode,
        })
    }

    async fn row_key(&self, pool: &Pool<Self>, name: &Name) -> Outcome<RowKey> {
        self.row_key_in(pool, name).await
    }
}

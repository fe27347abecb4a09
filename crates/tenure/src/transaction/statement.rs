//! What a driver of a database has to do for locks in its transactions.

use async_trait::async_trait;

use crate::error::BoxError;
#[cfg(any(feature = "mysql", feature = "postgres"))]
use crate::error::{Error, Lasting};

/// An open transaction of some driver.
///
/// Implemented for `tokio_postgres::Transaction` and `mysql_async::Transaction`. Implement it for the transactions of other
/// drivers; the [module](super) has an example. Never implement it for a connection that may be outside a transaction:
/// the lock would end with its statement.
#[async_trait]
pub trait Transaction: Send {
    /// Returns which statements the database understands.
    fn dialect(&self) -> Dialect;

    /// Runs one statement in this transaction, and returns all its rows.
    ///
    /// Placeholders are `$1`, `$2` … in [`Postgres`](Dialect::Postgres), and `?` in [`Mysql`](Dialect::Mysql). All
    /// parameters and all columns are texts; columns may be NULL. Statements without parameters may be `SAVEPOINT` and the like.
    ///
    /// # Errors
    ///
    /// What the driver reports, with the database's code.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: whoever drops the call rolls the transaction back.
    async fn run(
        &mut self,
        statement: &str,
        parameters: &[&str],
    ) -> Result<Vec<Row>, StatementError>;
}

/// A row of texts.
pub type Row = Vec<Option<String>>;

/// A family of databases that understand the same statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dialect {
    /// MySQL and MariaDB.
    Mysql,
    /// PostgreSQL.
    Postgres,
}

/// A statement that failed.
#[derive(Debug, thiserror::Error)]
#[error("{source}")]
#[non_exhaustive]
pub struct StatementError {
    /// What the database calls the error: `"55P03"` in PostgreSQL, `"1205"` in MySQL. Empty if the error is not the
    /// database's, but for example the connection's.
    pub code: String,
    /// The driver's error.
    pub source: BoxError,
}

impl StatementError {
    /// Describes a statement that failed.
    pub fn new(code: impl Into<String>, source: impl Into<BoxError>) -> Self {
        Self {
            code: code.into(),
            source: source.into(),
        }
    }

    /// The database undid the transaction, or cannot let it go on, because of another one.
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    pub(crate) fn conflict(self, driver: &'static str) -> Error {
        Error::Conflict {
            driver,
            source: self.source,
        }
    }

    /// The statement failed for another reason; the same may succeed later.
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    pub(crate) fn unavailable(self, driver: &'static str) -> Error {
        Error::Unavailable {
            driver,
            source: self.source,
        }
    }

    /// The statement fails until somebody changes something; `hint` says what.
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    pub(crate) fn lasting(self, driver: &'static str, hint: &str) -> Error {
        let why = format!("{hint} ({})", described(&*self.source));
        Error::Unavailable {
            driver,
            source: Box::new(Lasting(why.into())),
        }
    }
}

/// An error with its causes, which some drivers leave out of their text.
#[cfg(any(feature = "mysql", feature = "postgres"))]
fn described(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

//! Locks for data in a database, taken in the caller's own transaction.
//!
//! A lease in a store ends by its clock, also while its holder is paused; so the resource has to check the
//! [fence](crate::Fence). Data in the same database needs no fence, because the database itself can tie a lock to the
//! transaction that writes. There are two ways:
//!
//! | | held from | held until | for |
//! |---|---|---|---|
//! | [`Client::row`] | a statement of the transaction | COMMIT or ROLLBACK | work that fits into one short transaction |
//! | [`Guard::hold_in`] | before the transaction | after it | long work, or work outside the database, whose result is written at the end |
//!
//! Both take a transaction of a driver of yours, to the database of the store: `tokio_postgres::Transaction` (version 0.7,
//! feature `postgres`) or `mysql_async::Transaction` (version 0.37, feature `mysql`). For any other driver implement
//! [`Transaction`], which has two short methods.
//!
//! ```no_run
//! # async fn withdraw(connection: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//!
//! let locks = tenure::open("postgres://app:secret@db/shop").await?;
//!
//! // One short transaction: the lock begins and ends with it.
//! let mut tx = connection.transaction().await?;
//! locks.row("account:7").wait(Duration::from_secs(2)).lock_in(&mut tx).await?;
//! tx.execute("UPDATE account SET money = money - 10 WHERE id = 7", &[]).await?;
//! tx.commit().await?;
//!
//! // Long work under a lease: the last statement before COMMIT proves that the lease is still ours.
//! let guard = locks.mutex("report").lock().await?;
//! let report = "hours of work";
//! let mut tx = connection.transaction().await?;
//! tx.execute("INSERT INTO report VALUES ($1)", &[&report]).await?;
//! guard.hold_in(&mut tx).await?;
//! tx.commit().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Same database
//!
//! The transaction has to be in the database that the client was opened with. The lock of a row is otherwise taken elsewhere and
//! excludes nobody; `hold_in` fails, because it does not find the lease. A replica will not do.
//! Where `postgres://…` has no `schema=`, `hold_in` looks for the table by the transaction's `search_path`.
//!
//! # Isolation
//!
//! Use READ COMMITTED, and take the lock before you read. In PostgreSQL at REPEATABLE READ and SERIALIZABLE the statement that waits for
//! a lock already fixes what the transaction sees: it then reads what was there *before* the last holder committed, and a write to it
//! fails with 40001. In MySQL and MariaDB the lock comes first if it is the first statement; if something was read before it, MariaDB from
//! 11.6.2 on fails with 1020, and MySQL and older MariaDB overwrite what they have not seen.
//! All conflicts that the database reports during these calls are [`Error::Conflict`](crate::Error::Conflict): roll back and try again.
//!
//! # sqlx
//!
//! sqlx 0.9 needs Rust 1.94, and this crate promises 1.89; so there is no adapter for it here. Yours is short:
//!
//! ```ignore
//! struct Sqlx<'a>(sqlx::Transaction<'a, sqlx::Postgres>);
//!
//! #[async_trait]
//! impl tenure::transaction::Transaction for Sqlx<'_> {
//!     fn dialect(&self) -> Dialect {
//!         Dialect::Postgres
//!     }
//!
//!     async fn run(&mut self, statement: &str, parameters: &[&str]) -> Result<Vec<Row>, StatementError> {
//!         let mut query = sqlx::query(sqlx::AssertSqlSafe(statement.to_owned()));
//!         for parameter in parameters {
//!             query = query.bind(parameter.to_string());
//!         }
//!         let rows = query.fetch_all(&mut *self.0).await.map_err(|error| {
//!             let code = error.as_database_error().and_then(|error| error.code());
//!             StatementError::new(code.unwrap_or_default(), error)
//!         })?;
//!         let texts = |row: &PgRow| (0..row.len()).map(|column| row.get(column)).collect();
//!         Ok(rows.iter().map(texts).collect())
//!     }
//! }
//! ```
//!
//! For MySQL the code is `MySqlDatabaseError::number()`, not the SQLSTATE.
//!
//! [`Client::row`]: crate::Client::row
//! [`Guard::hold_in`]: crate::Guard::hold_in

#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) mod lease;
pub(crate) mod row;
mod statement;

pub use row::RowLock;
pub use statement::{Dialect, Row, StatementError, Transaction};

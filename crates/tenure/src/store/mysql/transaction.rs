//! Locks in transactions of callers.

use std::time::Duration;

use async_trait::async_trait;
use mysql_async::prelude::Queryable;
use mysql_async::{Params, Value};
use tokio::time::timeout;

use crate::driver::{Loss, Mode, RowKey, RowProof};
use crate::error::{Error, Result};
use crate::name::Name;
use crate::store::mysql::connection::MysqlConnection;
use crate::store::mysql::{Mysql, fault};
use crate::store::sql::database::Database;
use crate::store::sql::fault::{Fault, FaultKind, Outcome};
use crate::store::sql::pool::Pool;
use crate::transaction::lease::{judge, number, only};
use crate::transaction::row::Patience;
use crate::transaction::{Dialect, StatementError, Transaction};

const KIND: &str = Mysql::KIND;

#[async_trait]
impl Transaction for mysql_async::Transaction<'_> {
    fn dialect(&self) -> Dialect {
        Dialect::Mysql
    }

    async fn run(
        &mut self,
        statement: &str,
        parameters: &[&str],
    ) -> Result<Vec<crate::transaction::Row>, StatementError> {
        let rows: Result<Vec<mysql_async::Row>, _> = match parameters.is_empty() {
            true => self.query(statement).await,
            false => {
                let values = parameters.iter().map(|value| Value::from(*value));
                self.exec(statement, Params::Positional(values.collect()))
                    .await
            }
        };
        let rows = rows.map_err(|error| {
            let code = match &error {
                mysql_async::Error::Server(error) => error.code.to_string(),
                _ => String::new(),
            };
            StatementError::new(code, error)
        })?;
        let texts = |row: mysql_async::Row| row.unwrap().into_iter().map(text).collect();
        rows.into_iter().map(texts).collect()
    }
}

fn text(value: Value) -> Result<Option<String>, StatementError> {
    Ok(match value {
        Value::NULL => None,
        Value::Bytes(bytes) => {
            let text = String::from_utf8(bytes);
            Some(text.map_err(|error| StatementError::new("", error))?)
        }
        other => Some(other.as_sql(true).trim_matches('\'').to_owned()),
    })
}

/// A row that transactions lock.
pub(crate) struct Row<'a> {
    pub(crate) table: String,
    /// Whether the server understands `FOR UPDATE WAIT n`.
    pub(crate) waits: bool,
    pub(crate) name: &'a Name,
}

impl Row<'_> {
    /// Locks the row, and returns whether it could be had in time.
    pub(crate) async fn lock(
        &self,
        transaction: &mut dyn Transaction,
        patience: Patience,
    ) -> Result<bool> {
        let wait = match patience {
            Patience::None => return self.select(transaction, " NOWAIT").await,
            Patience::Within(wait) => wait,
            Patience::Endless => A_YEAR,
        };
        let seconds = wait.min(A_YEAR).as_nanos().div_ceil(1_000_000_000);
        if self.waits {
            return self.select(transaction, &format!(" WAIT {seconds}")).await;
        }
        // A free one costs one statement.
        if self.select(transaction, " NOWAIT").await? {
            return Ok(true);
        }
        let before = transaction.run(READ_TIMEOUT, &[]).await.map_err(error)?;
        let before = only(before).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let before = before.ok_or_else(|| damaged("the server has no lock timeout"))?;
        let set = |seconds: &str| format!("SET SESSION innodb_lock_wait_timeout = {seconds}");
        let longer = transaction.run(&set(&seconds.to_string()), &[]).await;
        longer.map_err(error)?;
        let locked = self.select(transaction, "").await;
        // Also if the transaction is over: the session is used again.
        let restored = transaction.run(&set(&before), &[]).await;
        let locked = locked?;
        restored.map_err(error)?;
        Ok(locked)
    }

    async fn select(&self, transaction: &mut dyn Transaction, how: &str) -> Result<bool> {
        let table = &self.table;
        let statement = format!("SELECT 'locked' FROM {table} WHERE name = ? FOR UPDATE{how}");
        match transaction.run(&statement, &[self.name.as_str()]).await {
            Ok(rows) if rows.is_empty() => {
                let why = "the row was deleted at this moment, roll back and try again";
                Err(Error::Conflict {
                    driver: KIND,
                    source: why.into(),
                })
            }
            Ok(_) => Ok(true),
            Err(busy) if BUSY.contains(&busy.code.as_str()) => {
                let undoes = transaction.run(READ_UNDOES, &[]).await.map_err(error)?;
                match busy.code == LOCK_WAIT_TIMEOUT && only(undoes).as_deref() == Some("all") {
                    true => Err(busy.conflict(KIND)),
                    false => Ok(false),
                }
            }
            Err(other) => Err(error(other)),
        }
    }
}

/// Locks the row of a lease and judges it.
pub(crate) async fn hold(
    transaction: &mut dyn Transaction,
    proof: &RowProof,
) -> Result<Result<(), Loss>> {
    let strength = match proof.mode {
        Mode::Exclusive => "FOR UPDATE",
        _ => "LOCK IN SHARE MODE",
    };
    let statement = HOLD
        .replace("{table}", &proof.table)
        .replace("{strength}", strength);
    let found = transaction.run(&statement, &[proof.name.as_str()]).await;
    let found = found.map_err(error)?;
    let Some(columns) = found.first() else {
        return Ok(Err(Loss::Gone));
    };
    // A statement of its own, because the time of a statement is that of its start.
    let now = transaction.run(NOW, &[]).await.map_err(error)?;
    let now = number(&only(now)).map_err(damaged)?;
    judge(proof, now, columns, KIND)
}

impl Mysql {
    /// Returns where a name is locked, once its row is there.
    ///
    /// Made on a connection of our own and committed: a transaction that locks a row that is missing would lock the gap
    /// between its neighbours, and so keep others from making theirs.
    pub(super) async fn row_key_in(&self, pool: &Pool<Self>, name: &Name) -> Outcome<RowKey> {
        let table = format!("{}row", self.settings.prefix);
        let mut lent = pool.lend().await?;
        let made = timeout(pool.timeout(), self.make_row(&mut lent, &table, name)).await;
        let is_mariadb = lent.ended(made)?;
        Ok(RowKey::Row {
            table: self.with_database(&table),
            waits: is_mariadb,
        })
    }

    /// Makes the row of a name, and returns whether the server is MariaDB.
    async fn make_row(
        &self,
        lent: &mut MysqlConnection,
        table: &str,
        name: &Name,
    ) -> Outcome<bool> {
        let connection = &mut lent.connection;
        let name = (name.as_str(),);
        // Not an INSERT at once: it would wait for whoever has locked the row.
        let look =
            format!("SELECT VERSION(), EXISTS (SELECT 1 FROM {table} AS r WHERE r.name = ?)");
        for _ in 0..TRIES {
            let found: Result<Option<(String, bool)>, _> = connection.exec_first(&look, name).await;
            let (version, is_there) = match found {
                Ok(found) => found.ok_or_else(|| Fault::damaged("the server returned no row"))?,
                Err(error) if is_missing_table(&error) => {
                    self.make_row_table(connection, table).await?;
                    continue;
                }
                Err(error) => return Err(fault::of(error)),
            };
            if !is_there {
                let insert = format!("INSERT INTO {table} (name) VALUES (?)");
                match connection.exec_drop(insert, name).await {
                    Ok(()) => {}
                    // Somebody else makes it at this moment.
                    Err(error) if fault::is_duplicate(&error) => {}
                    Err(error) => return Err(fault::of(error)),
                }
            }
            return Ok(is_mariadb(&version));
        }
        let why = format!("the table {table} is made and deleted again and again");
        Err(Fault::new(FaultKind::Refused, why))
    }

    async fn make_row_table(&self, connection: &mut mysql_async::Conn, table: &str) -> Outcome<()> {
        let version = connection.query_first("SELECT VERSION()").await;
        let version: Option<String> = version.map_err(fault::of)?;
        let collation = match version.is_some_and(|version| is_mariadb(&version)) {
            true => "utf8mb4_nopad_bin",
            false => "utf8mb4_0900_bin",
        };
        let create = CREATE
            .replace("{table}", table)
            .replace("{collation}", collation);
        match connection.query_drop(&create).await.map_err(fault::of) {
            Ok(()) => Ok(()),
            // Somebody else makes it at this moment.
            Err(fault) if fault.kind == FaultKind::Conflict => Ok(()),
            Err(fault) if fault.kind == FaultKind::Lasting => {
                let user = self.settings.user.as_deref().unwrap_or("the user");
                let why = format!(
                    "the table {table} is missing, and {user} may not make it ({}); run as one who may:\n\n{create};\n\
                     GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO '{user}'@'%';",
                    fault.source,
                );
                Err(Fault::new(FaultKind::Lasting, why))
            }
            Err(fault) => Err(fault),
        }
    }
}

fn is_missing_table(error: &mysql_async::Error) -> bool {
    matches!(error, mysql_async::Error::Server(error) if error.code == 1146)
}

fn is_mariadb(version: &str) -> bool {
    version.contains("MariaDB")
}

fn error(failed: StatementError) -> Error {
    match failed.code.as_str() {
        // A deadlock, a wait that was too long, a row that changed since it was read.
        "1213" | LOCK_WAIT_TIMEOUT | "1020" | "3572" => failed.conflict(KIND),
        "1146" => failed.lasting(
            KIND,
            "the transaction does not find the table of the locks: it is on another server",
        ),
        "1142" | "1143" => failed.lasting(
            KIND,
            "the user of the transaction lacks SELECT or UPDATE on the table of the locks",
        ),
        _ => failed.unavailable(KIND),
    }
}

fn damaged(source: impl Into<crate::BoxError>) -> Error {
    Error::Damaged {
        driver: KIND,
        source: source.into(),
    }
}

/// Rows that transactions of callers lock. Nothing else is in them, and nobody changes them.
const CREATE: &str = "CREATE TABLE IF NOT EXISTS {table} (
  name VARCHAR(255) COLLATE {collation} NOT NULL PRIMARY KEY
) ENGINE = InnoDB DEFAULT CHARACTER SET = utf8mb4 COMMENT = 'tenure 1: rows that transactions lock'";

/// The name. Reads what is committed, whatever the transaction has seen before.
const HOLD: &str = "SELECT l.claim, l.client, CAST(l.fence AS CHAR), CAST(l.fences AS CHAR), \
    CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', l.since) AS CHAR), \
    CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', l.ends) AS CHAR), CAST(l.evicted AS CHAR), l.more \
    FROM {table} AS l WHERE l.name = ? {strength}";

const NOW: &str = "SELECT CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS CHAR)";

const READ_TIMEOUT: &str = "SELECT CAST(@@SESSION.innodb_lock_wait_timeout AS CHAR)";

/// Whether a wait that was too long undoes the whole transaction, or one statement.
const READ_UNDOES: &str = "SELECT IF(@@GLOBAL.innodb_rollback_on_timeout, 'all', 'one')";

const LOCK_WAIT_TIMEOUT: &str = "1205";

/// Somebody else has locked the row: MariaDB's code, and MySQL's for NOWAIT.
const BUSY: [&str; 2] = [LOCK_WAIT_TIMEOUT, "3572"];

/// The longest wait that the server knows.
const A_YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// How often the table is looked for.
const TRIES: usize = 5;

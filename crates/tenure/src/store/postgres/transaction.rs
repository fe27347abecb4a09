//! Locks in transactions of callers.

use std::time::Duration;

use async_trait::async_trait;
use tokio_postgres::types::{ToSql, Type};

use crate::driver::{Loss, Mode, RowProof};
use crate::error::{Error, Result};
use crate::store::postgres::Postgres;
use crate::store::postgres::statements::turn_key;
use crate::store::sql::database::Database;
use crate::transaction::lease::{judge, number, only};
use crate::transaction::row::Patience;
use crate::transaction::{Dialect, Row, StatementError, Transaction};

const KIND: &str = Postgres::KIND;

#[async_trait]
impl Transaction for tokio_postgres::Transaction<'_> {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    async fn run(
        &mut self,
        statement: &str,
        parameters: &[&str],
    ) -> Result<Vec<Row>, StatementError> {
        let typed = parameters
            .iter()
            .map(|value| (value as &(dyn ToSql + Sync), Type::TEXT));
        let typed: Vec<_> = typed.collect();
        // Not prepared by name, so that it also works behind a pooler.
        let rows = self.query_typed(statement, &typed).await;
        let texts = |row: &tokio_postgres::Row| (0..row.len()).map(|at| row.try_get(at)).collect();
        let rows = rows.and_then(|rows| rows.iter().map(texts).collect());
        rows.map_err(|error| {
            let code = error.code().map_or("", |code| code.code()).to_owned();
            StatementError::new(code, error)
        })
    }
}

/// Locks a text, and returns whether it could be had in time.
pub(crate) async fn lock(
    transaction: &mut dyn Transaction,
    text: &str,
    patience: Patience,
) -> Result<bool> {
    match patience {
        Patience::None => try_lock(transaction, text).await,
        Patience::Endless => {
            let locked = transaction.run(LOCK, &[text, "0"]).await;
            locked.map(|_| true).map_err(error)
        }
        Patience::Within(wait) => {
            // A free one costs one statement.
            if try_lock(transaction, text).await? {
                return Ok(true);
            }
            lock_within(transaction, text, wait).await
        }
    }
}

async fn try_lock(transaction: &mut dyn Transaction, text: &str) -> Result<bool> {
    let tried = transaction.run(TRY_LOCK, &[text]).await.map_err(error)?;
    Ok(only(tried).as_deref() == Some("true"))
}

/// Waits under a savepoint, so that the transaction can go on if it is in vain.
///
/// The database may report a timeout although it has just granted the lock. The way back to the savepoint frees it.
async fn lock_within(
    transaction: &mut dyn Transaction,
    text: &str,
    wait: Duration,
) -> Result<bool> {
    let wait_ms = wait.as_nanos().div_ceil(1_000_000).min(LONGEST_MS);
    transaction.run(SAVEPOINT, &[]).await.map_err(error)?;
    let locked = transaction.run(LOCK, &[text, &wait_ms.to_string()]).await;
    let is_locked = match locked {
        Ok(_) => true,
        Err(late) if late.code == LOCK_NOT_AVAILABLE => {
            transaction.run(ROLLBACK, &[]).await.map_err(error)?;
            false
        }
        Err(other) => return Err(error(other)),
    };
    transaction.run(RELEASE, &[]).await.map_err(error)?;
    Ok(is_locked)
}

/// Locks the row of a lease and judges it.
pub(crate) async fn hold(
    transaction: &mut dyn Transaction,
    proof: &RowProof,
) -> Result<Result<(), Loss>> {
    let (strength, turn) = match proof.mode {
        Mode::Exclusive => ("UPDATE", String::new()),
        // First of all the lock for which those who write the row queue up too: see `statements/update.sql`.
        _ => (
            "SHARE",
            format!(
                " AND (SELECT pg_advisory_xact_lock_shared({})::text) IS NOT NULL",
                turn_key(&proof.table)
            ),
        ),
    };
    let statement = HOLD
        .replace("{table}", &proof.table)
        .replace("{and turn}", &turn)
        .replace("{strength}", strength);
    let found = transaction.run(&statement, &[proof.name.as_str()]).await;
    let found = found.map_err(error)?;
    let Some((now, columns)) = found.first().and_then(|row| row.split_first()) else {
        let level = transaction.run(ISOLATION, &[]).await.map_err(error)?;
        return match only(level).as_deref() {
            Some("read committed" | "read uncommitted") => Ok(Err(Loss::Gone)),
            // It sees the table as it was before.
            _ => Err(Error::Conflict {
                driver: KIND,
                source: "the transaction began before the lock had a row, roll back and try again"
                    .into(),
            }),
        };
    };
    let now = number(now).map_err(|source| Error::Damaged {
        driver: KIND,
        source,
    })?;
    judge(proof, now, columns, KIND)
}

fn error(failed: StatementError) -> Error {
    match failed.code.as_str() {
        "40001" | "40P01" | LOCK_NOT_AVAILABLE => failed.conflict(KIND),
        "42P01" | "3F000" => failed.lasting(
            KIND,
            "the transaction does not find the table of the locks: it is in another database, or the URL of the store \
             needs schema=",
        ),
        "42501" => failed.lasting(
            KIND,
            "the user of the transaction lacks SELECT or UPDATE on the table of the locks",
        ),
        _ => failed.unavailable(KIND),
    }
}

/// The first 64 bits of a hash that every version and every language computes alike.
macro_rules! key {
    () => {
        "('x' || left(encode(sha256(convert_to($1, 'UTF8')), 'hex'), 16))::bit(64)::bigint"
    };
}

/// $1 the text.
const TRY_LOCK: &str = concat!("SELECT pg_try_advisory_xact_lock(", key!(), ")::text");

/// $1 the text, $2 how many milliseconds to wait for it, 0 for ever.
///
/// In one statement: sets the timeout, waits, and sets it back. Each part needs a row of the one before.
const LOCK: &str = concat!(
    "WITH before AS MATERIALIZED (\
       SELECT current_setting('lock_timeout') AS timeout, set_config('lock_timeout', $2, true) AS now), \
     locked AS MATERIALIZED (\
       SELECT before.timeout, pg_advisory_xact_lock(",
    key!(),
    ")::text AS done FROM before WHERE before.now IS NOT NULL) \
     SELECT set_config('lock_timeout', locked.timeout, true) FROM locked WHERE locked.done IS NOT NULL"
);

/// $1 the name.
///
/// The time is read when the row is locked: a list of columns beside `FOR UPDATE` would be computed before that.
const HOLD: &str = "WITH held AS MATERIALIZED (\
    SELECT l.claim, l.client, l.fence::text, l.fences::text, \
           (date_part('epoch', l.since) * 1000000)::bigint::text AS since, \
           (date_part('epoch', l.ends) * 1000000)::bigint::text AS ends, l.evicted::text, l.more \
    FROM {table} AS l WHERE l.name = $1{and turn} FOR {strength}) \
    SELECT (date_part('epoch', clock_timestamp()) * 1000000)::bigint::text, held.* FROM held";

const ISOLATION: &str = "SELECT current_setting('transaction_isolation')";

const SAVEPOINT: &str = "SAVEPOINT tenure_row";
const ROLLBACK: &str = "ROLLBACK TO SAVEPOINT tenure_row";
const RELEASE: &str = "RELEASE SAVEPOINT tenure_row";

const LOCK_NOT_AVAILABLE: &str = "55P03";

/// The longest `lock_timeout`.
const LONGEST_MS: u128 = i32::MAX as u128;

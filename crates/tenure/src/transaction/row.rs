//! The lock of a row, and the proof of a lease: what programs call.

use std::sync::Arc;
use std::time::Duration;

use crate::client::Client;
#[cfg(any(feature = "mysql", feature = "postgres"))]
use crate::driver::RowKey;
use crate::driver::{Loss, Proof};
use crate::engine::to_end::to_end;
use crate::error::{Error, Result};
use crate::guard::{Health, Hold};
use crate::name::Name;
#[cfg(any(feature = "mysql", feature = "postgres"))]
use crate::transaction::Dialect;
use crate::transaction::Transaction;

/// A lock that is taken in a transaction of the caller's, and ends with it; made by [`Client::row`].
///
/// Transactions that lock the same name exclude each other. The lock knows neither leases nor fences, and is not the lock of
/// [`mutex`](Client::mutex): it ends with COMMIT and ROLLBACK, and with the connection, so nobody can hold it and write late.
/// In MySQL a statement that commits by itself, such as `CREATE TABLE`, ends it too. A transaction that has it already gets it again.
/// `ROLLBACK TO` a savepoint from before it frees it in PostgreSQL; in MySQL it stays, unless the savepoint was the transaction's first statement.
///
/// PostgreSQL takes an advisory lock (`pg_advisory_xact_lock`) on the first 64 bits of a SHA-256 hash, so that programs in other
/// languages can take it too:
///
/// ```sql
/// -- for "account:7" with prefix=tenure_ (the default); with schema=s it is 's.tenure_row:account:7'
/// SELECT pg_advisory_xact_lock(
///   ('x' || left(encode(sha256(convert_to('tenure_row:account:7', 'UTF8')), 'hex'), 16))::bit(64)::bigint)
/// ```
///
/// MySQL and MariaDB lock the row of that name in the table `tenure_row` by `SELECT … FOR UPDATE`. The row is made beforehand on the
/// client's own connection, and stays. Of two transactions that wait, either may come first.
#[derive(Debug, Clone)]
#[must_use = "nothing is locked before `lock_in`"]
pub struct RowLock {
    client: Client,
    name: String,
    wait: Option<Duration>,
}

/// How long a lock of a row may be waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Not at all.
    None,
    /// For so long.
    Within(Duration),
    /// Until it is free.
    Endless,
}

impl RowLock {
    pub(crate) fn new(client: &Client, name: &str) -> Self {
        Self {
            client: client.clone(),
            name: name.to_owned(),
            wait: None,
        }
    }

    /// Waits for at most so long; otherwise [`lock_in`](Self::lock_in) waits until the lock is free.
    ///
    /// MySQL and MariaDB count whole seconds: what is left of one is rounded up.
    pub fn wait(mut self, at_most: Duration) -> Self {
        self.wait = Some(at_most);
        self
    }

    /// Takes the lock in a transaction, and waits for it if need be.
    ///
    /// `lock_timeout` and `innodb_lock_wait_timeout` of the transaction's session do not cut the wait short, and are afterwards as they
    /// were. `statement_timeout` of PostgreSQL and `max_statement_time` of MariaDB do cut it short. The wait does not hold a connection of
    /// the [`Client`], only the caller's.
    ///
    /// # Errors
    ///
    /// [`TimedOut`](Error::TimedOut) if the lock was not free in time; the transaction can go on. After any other error roll it back:
    /// [`Conflict`](Error::Conflict) if the database ended it in favour of another one, as in a deadlock;
    /// [`Unsupported`](Error::Unsupported) if the store is not a database;
    /// [`InvalidName`](Error::InvalidName); [`InvalidOption`](Error::InvalidOption) for a transaction of another kind of database;
    /// [`Unavailable`](Error::Unavailable) for all other faults.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: after a dropped call the transaction may have the lock, and a shorter lock timeout. Roll it back.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn pay(locks: &tenure::Client, connection: &mut mysql_async::Conn) -> Result<(), Box<dyn std::error::Error>> {
    /// # use mysql_async::prelude::Queryable;
    /// let mut tx = connection.start_transaction(Default::default()).await?;
    /// locks.row("account:7").lock_in(&mut tx).await?;
    /// let money: Option<i64> = tx.query_first("SELECT money FROM account WHERE id = 7").await?;
    /// if money >= Some(10) {
    ///     tx.query_drop("UPDATE account SET money = money - 10 WHERE id = 7").await?;
    /// }
    /// tx.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn lock_in(&self, transaction: &mut impl Transaction) -> Result<()> {
        let name = Name::new(&self.name)?;
        let patience = match self.wait {
            Some(wait) if wait.is_zero() => Patience::None,
            Some(wait) => Patience::Within(wait),
            None => Patience::Endless,
        };
        match self.take(&name, patience, transaction).await? {
            true => Ok(()),
            false => Err(Error::TimedOut {
                name,
                waited: patience.longest(),
            }),
        }
    }

    /// Takes the lock in a transaction if it is free, and returns whether it was.
    ///
    /// Does not wait, whatever [`wait`](Self::wait) says. The transaction can go on in both cases.
    ///
    /// # Errors
    ///
    /// As [`lock_in`](Self::lock_in), but never [`TimedOut`](Error::TimedOut).
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: after a dropped call the transaction may have the lock. Roll it back.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn pay(locks: &tenure::Client, connection: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut tx = connection.transaction().await?;
    /// if locks.row("nightly-report").try_lock_in(&mut tx).await? {
    ///     tx.batch_execute("INSERT INTO report SELECT now(), count(*) FROM account").await?;
    /// }
    /// tx.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_lock_in(&self, transaction: &mut impl Transaction) -> Result<bool> {
        let name = Name::new(&self.name)?;
        self.take(&name, Patience::None, transaction).await
    }

    async fn take(
        &self,
        name: &Name,
        patience: Patience,
        transaction: &mut dyn Transaction,
    ) -> Result<bool> {
        let engine = &self.client.engine;
        engine.check_origin()?;
        let (driver, kind) = (Arc::clone(&engine.driver), engine.driver.kind());
        let named = name.clone();
        let key = to_end(
            &engine.background,
            async move { driver.row_lock(&named).await },
        );
        match key.await? {
            #[cfg(feature = "postgres")]
            Some(RowKey::Advisory { text }) => {
                check_dialect(transaction, Dialect::Postgres)?;
                crate::store::postgres::transaction::lock(transaction, &text, patience).await
            }
            #[cfg(feature = "mysql")]
            Some(RowKey::Row { table, waits }) => {
                check_dialect(transaction, Dialect::Mysql)?;
                let row = crate::store::mysql::transaction::Row { table, waits, name };
                row.lock(transaction, patience).await
            }
            _ => {
                let _ = (transaction, patience);
                Err(unsupported(kind))
            }
        }
    }
}

impl Patience {
    fn longest(self) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            Self::Within(wait) => wait,
            Self::Endless => Duration::MAX,
        }
    }
}

/// Proves in a transaction that a lease is held, and keeps others from taking over until its end.
pub(crate) async fn hold_in_transaction(
    hold: &Hold,
    transaction: &mut dyn Transaction,
) -> Result<()> {
    let (engine, lease) = (&hold.engine, &hold.lease);
    engine.check_origin()?;
    let lost = |loss| Error::Lost {
        name: lease.claim.name.clone(),
        source: loss,
    };
    let kind = engine.driver.kind();
    let proof = engine.driver.proof(&lease.claim, lease.fence);
    let proof = proof.ok_or_else(|| unsupported(kind))?;
    if let Health::Lost(loss) = lease.health(engine.clock.now()) {
        return Err(lost(loss));
    }
    let checked = check(&proof, transaction, kind).await?;
    checked.map_err(lost)
}

#[cfg_attr(
    not(any(feature = "mysql", feature = "postgres")),
    expect(
        clippy::unused_async,
        clippy::needless_pass_by_ref_mut,
        reason = "no store of this build has proofs"
    )
)]
async fn check(
    proof: &Proof,
    transaction: &mut dyn Transaction,
    kind: &'static str,
) -> Result<Result<(), Loss>> {
    match proof {
        #[cfg(feature = "postgres")]
        Proof::Row(proof) if proof.dialect == Dialect::Postgres => {
            check_dialect(transaction, Dialect::Postgres)?;
            crate::store::postgres::transaction::hold(transaction, proof).await
        }
        #[cfg(feature = "mysql")]
        Proof::Row(proof) if proof.dialect == Dialect::Mysql => {
            check_dialect(transaction, Dialect::Mysql)?;
            crate::store::mysql::transaction::hold(transaction, proof).await
        }
        _ => {
            let _ = transaction;
            Err(unsupported(kind))
        }
    }
}

#[cfg(any(feature = "mysql", feature = "postgres"))]
fn check_dialect(transaction: &dyn Transaction, wanted: Dialect) -> Result<()> {
    let found = transaction.dialect();
    match found == wanted {
        true => Ok(()),
        false => Err(Error::InvalidOption {
            option: "transaction",
            reason: format!("it is one of {found:?}, and the locks are in {wanted:?}"),
        }),
    }
}

fn unsupported(driver: &'static str) -> Error {
    Error::Unsupported {
        driver,
        what: "locks in a transaction of a database, check the fence instead",
    }
}

//! Locks in transactions of callers: what holds in every database.

mod hold;
mod row;
pub(crate) mod wrapper;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tenure::Client;
use tenure::driver::Driver;
use tenure::transaction::Transaction;

pub(crate) use hold::*;
pub(crate) use row::*;
pub(crate) use wrapper::pausable;

/// A kind of database, and a driver of it that has nothing to do with locks.
pub(crate) trait Database: Clone + Send + Sync + 'static {
    type Connection: Send;
    type Transaction<'a>: Transaction;

    /// Opens the store with these options.
    async fn driver(&self, options: &str) -> Arc<dyn Driver>;

    async fn connect(&self) -> Self::Connection;

    /// Returns the number by which a connection can be killed.
    async fn number(connection: &mut Self::Connection) -> u64;

    /// Begins a transaction at an isolation level, or at the default one.
    async fn begin<'a>(
        connection: &'a mut Self::Connection,
        isolation: Option<&str>,
    ) -> Self::Transaction<'a>;

    async fn commit(transaction: Self::Transaction<'_>) -> Result<(), String>;

    async fn rollback(transaction: Self::Transaction<'_>);

    /// Whether the driver's error says that the transaction is to be run again.
    fn is_conflict(error: &tenure::BoxError) -> bool;

    const KILL: &'static str;
    const SLEEP: &'static str;
    const SET_TIMEOUT: &'static str;
    const READ_TIMEOUT: &'static str;
    const EXPIRE: &'static str;
    /// What another than this dialect is.
    const OTHER: tenure::transaction::Dialect;
}

/// Levels at which everything must hold.
pub(crate) const LEVELS: [Option<&str>; 4] = [
    None,
    Some("READ COMMITTED"),
    Some("REPEATABLE READ"),
    Some("SERIALIZABLE"),
];

pub(crate) async fn client<D: Database>(database: &D) -> Client {
    client_with(database, "?connect_timeout=20s").await
}

pub(crate) async fn client_with<D: Database>(database: &D, options: &str) -> Client {
    Client::with_driver(database.driver(options).await)
}

/// A name that no other test has.
pub(crate) fn name(of: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let (process, next) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    format!("{of}:{process}:{next} ☃ '\\?$1")
}

/// A table with one row and a number in it, of this test alone.
pub(crate) struct Counter {
    pub(crate) table: String,
}

impl Counter {
    pub(crate) async fn make<D: Database>(database: &D) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (process, next) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let counter = Self {
            table: format!("counter_{process}_{next}"),
        };
        let table = &counter.table;
        let mut connection = database.connect().await;
        let mut tx = D::begin(&mut connection, None).await;
        run(
            &mut tx,
            &format!("CREATE TABLE {table} (number INTEGER NOT NULL)"),
        )
        .await;
        run(&mut tx, &format!("INSERT INTO {table} VALUES (0)")).await;
        D::commit(tx).await.unwrap();
        counter
    }

    pub(crate) fn add(&self) -> String {
        format!("UPDATE {} SET number = number + 1", self.table)
    }

    pub(crate) fn read(&self) -> String {
        format!("SELECT CAST(number AS CHAR(20)) FROM {}", self.table)
    }

    pub(crate) async fn number<D: Database>(&self, database: &D) -> String {
        let mut connection = database.connect().await;
        let mut tx = D::begin(&mut connection, None).await;
        run(&mut tx, &self.read()).await
    }
}

/// Runs a statement without parameters; returns the first value of its first row, if there is one.
pub(crate) async fn run(transaction: &mut impl Transaction, statement: &str) -> String {
    let rows = transaction.run(statement, &[]).await.unwrap();
    let first = rows.into_iter().next().unwrap_or_default();
    let value = first.into_iter().next().flatten().unwrap_or_default();
    value.trim_end().to_owned()
}

pub(crate) const SHORT: Duration = Duration::from_millis(50);

/// One test for each rule.
macro_rules! transaction_rules {
    ($database:expr) => {
        transaction_rules! { @ $database;
            a_deadlock_is_a_conflict,
            a_held_lock_is_not_given_to_another_transaction,
            a_killed_connection_frees_the_lock,
            a_lock_that_is_not_free_in_time_leaves_the_transaction_and_its_settings_as_they_were,
            a_transaction_may_lock_twice,
            a_long_wait_outlasts_the_timeout_of_the_session_and_leaves_it_as_it_was,
            counting_under_a_row_lock_is_exact_at_every_level,
            names_and_prefixes_are_apart,
            another_kind_of_database_is_refused,
            a_bad_name_is_refused,

            a_lease_is_proved_at_every_level,
            a_lease_that_another_took_over_cannot_commit,
            a_lease_that_ended_cannot_commit,
            an_evicted_lease_cannot_commit,
            nobody_takes_over_between_the_proof_and_the_commit,
            a_connection_killed_after_the_proof_commits_nothing,
            a_lease_with_waiters_is_proved,
            a_lease_that_was_passed_on_is_proved,
            readers_prove_their_leases_side_by_side,
            permits_are_proved_side_by_side,
            a_short_transaction_does_not_lose_the_guard,
            readers_without_a_gap_do_not_starve_renewals,
            counting_under_a_lease_is_exact_though_holders_pause,
        }
    };
    (@ $database:expr; $($rule:ident),* $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $rule() {
                $crate::transaction_rules::$rule(&$database).await;
            }
        )*
    };
}
pub(crate) use transaction_rules;

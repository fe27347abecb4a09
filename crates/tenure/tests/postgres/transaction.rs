//! Locks in transactions of `tokio_postgres`.

use std::sync::Arc;

use tenure::Error;
use tenure::driver::Driver;
use tenure::transaction::{Dialect, Transaction as _};
use tenure_testkit::shared;
use tokio_postgres::{Client, IsolationLevel, NoTls, Transaction};

use crate::transaction_rules::{Database, client, name, run, transaction_rules};

mod rules {
    use super::*;

    transaction_rules!(Postgres);
}

#[derive(Clone)]
struct Postgres;

impl Database for Postgres {
    type Connection = Client;
    type Transaction<'a> = Transaction<'a>;

    async fn driver(&self, options: &str) -> Arc<dyn Driver> {
        let url = shared::postgres().unwrap() + options;
        tenure::store::postgres::open(&url).await.unwrap()
    }

    async fn connect(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&shared::postgres().unwrap(), NoTls)
            .await
            .unwrap();
        tokio::spawn(connection);
        client
    }

    async fn number(connection: &mut Client) -> u64 {
        let row = connection.query_one("SELECT pg_backend_pid()", &[]).await;
        row.unwrap().get::<_, i32>(0).try_into().unwrap()
    }

    async fn begin<'a>(connection: &'a mut Client, isolation: Option<&str>) -> Transaction<'a> {
        let builder = connection.build_transaction();
        let builder = match isolation {
            None => builder,
            Some("READ COMMITTED") => builder.isolation_level(IsolationLevel::ReadCommitted),
            Some("REPEATABLE READ") => builder.isolation_level(IsolationLevel::RepeatableRead),
            Some("SERIALIZABLE") => builder.isolation_level(IsolationLevel::Serializable),
            Some(other) => panic!("{other}"),
        };
        builder.start().await.unwrap()
    }

    async fn commit(transaction: Self::Transaction<'_>) -> Result<(), String> {
        transaction
            .commit()
            .await
            .map_err(|error| error.to_string())
    }

    async fn rollback(transaction: Self::Transaction<'_>) {
        transaction.rollback().await.unwrap();
    }

    fn is_conflict(error: &tenure::BoxError) -> bool {
        let error = error.downcast_ref::<tokio_postgres::Error>().unwrap();
        let code = error.code().unwrap().code();
        ["40001", "40P01"].contains(&code)
    }

    const KILL: &'static str = "SELECT pg_terminate_backend({number})::text";
    const SLEEP: &'static str = "SELECT pg_sleep({seconds})::text";
    const SET_TIMEOUT: &'static str = "SET lock_timeout = '1017ms'";
    const READ_TIMEOUT: &'static str = "SELECT current_setting('lock_timeout')";
    const EXPIRE: &'static str = "UPDATE tenure_lock SET ends = clock_timestamp() - interval '1 microsecond', version = version + 1 WHERE name = $1";
    const OTHER: Dialect = Dialect::Mysql;
}

#[tokio::test]
async fn a_way_back_to_a_savepoint_frees_what_was_locked_behind_it() {
    let locks = client(&Postgres).await;
    let (before, behind) = (locks.row(&name("before")), locks.row(&name("behind")));
    let (mut a, mut b) = (Postgres.connect().await, Postgres.connect().await);
    let mut first = a.transaction().await.unwrap();
    before.lock_in(&mut first).await.unwrap();
    let mut nested = first.transaction().await.unwrap();
    before.lock_in(&mut nested).await.unwrap();
    behind.lock_in(&mut nested).await.unwrap();
    nested.rollback().await.unwrap();
    let mut second = b.transaction().await.unwrap();
    assert!(behind.try_lock_in(&mut second).await.unwrap());
    assert!(!before.try_lock_in(&mut second).await.unwrap());
    // The savepoints of the caller are not those of a wait.
    run(&mut second, "SAVEPOINT tenure_row").await;
    run(&mut second, "CREATE TEMPORARY TABLE undone ()").await;
    let soon = before.wait(std::time::Duration::from_millis(10));
    assert!(soon.lock_in(&mut second).await.is_err());
    run(&mut second, "ROLLBACK TO SAVEPOINT tenure_row").await;
    assert_eq!(
        run(&mut second, "SELECT to_regclass('undone')::text").await,
        ""
    );
}

#[tokio::test]
async fn other_languages_can_take_the_same_lock() {
    let locks = client(&Postgres).await;
    let (mut a, mut b) = (Postgres.connect().await, Postgres.connect().await);
    let name = format!("by hand {}", std::process::id());
    let first = a.transaction().await.unwrap();
    let by_hand = format!(
        "SELECT pg_advisory_xact_lock(('x' || left(encode(sha256(convert_to(\
         'tenure_row:{name}', 'UTF8')), 'hex'), 16))::bit(64)::bigint)"
    );
    first.batch_execute(&by_hand).await.unwrap();
    let mut second = b.transaction().await.unwrap();
    assert!(!locks.row(&name).try_lock_in(&mut second).await.unwrap());
    first.commit().await.unwrap();
    assert!(locks.row(&name).try_lock_in(&mut second).await.unwrap());
}

#[tokio::test]
async fn a_renewal_since_the_snapshot_is_a_conflict() {
    let locks = client(&Postgres).await;
    let name = name("renewed");
    let guard = locks.mutex(&name).lock().await.unwrap();
    let mut connection = Postgres.connect().await;
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        let mut tx = Postgres::begin(&mut connection, Some(level)).await;
        run(&mut tx, "SELECT '1'").await;
        let mut other = Postgres.connect().await;
        let mut renewal = other.transaction().await.unwrap();
        let renews = "UPDATE tenure_lock SET ends = ends + interval '1 s', version = version + 1 WHERE name = $1";
        renewal.run(renews, &[&name]).await.unwrap();
        renewal.commit().await.unwrap();
        let refused = guard.hold_in(&mut tx).await;
        let Err(Error::Conflict { source, .. }) = refused else {
            panic!("{refused:?}");
        };
        assert!(Postgres::is_conflict(&source));
    }
}

/// Its row is not to be seen in the transaction, which is no reason to call the lease lost.
#[tokio::test]
async fn a_name_that_is_new_since_the_snapshot_is_a_conflict() {
    let locks = client(&Postgres).await;
    let mut connection = Postgres.connect().await;
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        let mut tx = Postgres::begin(&mut connection, Some(level)).await;
        run(&mut tx, "SELECT '1'").await;
        let guard = locks.mutex(&name("new")).lock().await.unwrap();
        let refused = guard.hold_in(&mut tx).await;
        assert!(
            matches!(refused, Err(Error::Conflict { .. })),
            "{refused:?}"
        );
    }
    let mut tx = connection.transaction().await.unwrap();
    run(&mut tx, "SELECT '1'").await;
    let guard = locks.mutex(&name("new")).lock().await.unwrap();
    guard.hold_in(&mut tx).await.unwrap();
}

#[tokio::test]
async fn a_transaction_that_does_not_see_the_table_is_told_why() {
    let locks = client(&Postgres).await;
    let guard = locks.mutex(&name("elsewhere")).lock().await.unwrap();
    let mut connection = Postgres.connect().await;
    let mut tx = connection.transaction().await.unwrap();
    run(&mut tx, "SET LOCAL search_path = pg_catalog").await;
    let refused = guard.hold_in(&mut tx).await;
    let Err(error @ Error::Unavailable { .. }) = refused else {
        panic!("{refused:?}");
    };
    assert!(!error.may_pass());
    let why = std::error::Error::source(&error).unwrap().to_string();
    assert!(why.contains("schema="), "{why}");
}

#[expect(dead_code, reason = "its main is not called here")]
#[path = "../../examples/stock_postgres.rs"]
mod stock;

#[tokio::test]
async fn the_example_sells_each_item_once() {
    let sold = stock::run(&shared::postgres().unwrap()).await.unwrap();
    assert_eq!(sold, [20; 4]);
}

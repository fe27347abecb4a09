//! Locks in transactions of `mysql_async`.

use std::sync::Arc;

use mysql_async::{Conn, IsolationLevel, Opts, Transaction, TxOpts};
use tenure::Error;
use tenure::driver::Driver;
use tenure::transaction::Dialect;
use tenure_testkit::{MariaDbServer, shared};

use crate::transaction_rules::wrapper::Wrapper;
use crate::transaction_rules::{
    Counter, Database, client, client_with, name, run, transaction_rules,
};

mod rules {
    use super::*;

    transaction_rules!(Mysql::Mariadb);
}

/// MySQL has no `FOR UPDATE WAIT n`.
mod rules_without_wait {
    use super::*;

    transaction_rules! { @ Mysql::WithoutWait;
        a_deadlock_is_a_conflict,
        a_held_lock_is_not_given_to_another_transaction,
        a_lock_that_is_not_free_in_time_leaves_the_transaction_and_its_settings_as_they_were,
        a_long_wait_outlasts_the_timeout_of_the_session_and_leaves_it_as_it_was,
    }
}

#[derive(Clone)]
enum Mysql {
    Mariadb,
    /// As if it did not know `FOR UPDATE WAIT n`.
    WithoutWait,
    /// A server of one's own.
    At(String),
}

impl Mysql {
    fn url(&self) -> String {
        match self {
            Self::Mariadb | Self::WithoutWait => shared::mariadb().unwrap(),
            Self::At(url) => url.clone(),
        }
    }
}

impl Database for Mysql {
    type Connection = Conn;
    type Transaction<'a> = Transaction<'a>;

    async fn driver(&self, options: &str) -> Arc<dyn Driver> {
        let url = self.url() + options;
        let driver = tenure::store::mysql::open(&url).await.unwrap();
        match self {
            Self::Mariadb | Self::At(_) => driver,
            Self::WithoutWait => {
                let mut driver = Wrapper::around(driver);
                driver.without_wait = true;
                Arc::new(driver)
            }
        }
    }

    async fn connect(&self) -> Conn {
        connect(&self.url()).await
    }

    async fn number(connection: &mut Conn) -> u64 {
        connection.id().into()
    }

    async fn begin<'a>(connection: &'a mut Conn, isolation: Option<&str>) -> Transaction<'a> {
        let level = isolation.map(|level| match level {
            "READ COMMITTED" => IsolationLevel::ReadCommitted,
            "REPEATABLE READ" => IsolationLevel::RepeatableRead,
            "SERIALIZABLE" => IsolationLevel::Serializable,
            other => panic!("{other}"),
        });
        let mut options = TxOpts::default();
        options.with_isolation_level(level);
        connection.start_transaction(options).await.unwrap()
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
        match error.downcast_ref::<mysql_async::Error>() {
            Some(mysql_async::Error::Server(error)) => [1213, 1020, 1205].contains(&error.code),
            other => panic!("{other:?}"),
        }
    }

    const KILL: &'static str = "KILL {number}";
    const SLEEP: &'static str = "SELECT CAST(SLEEP({seconds}) AS CHAR)";
    const SET_TIMEOUT: &'static str = "SET SESSION innodb_lock_wait_timeout = 1";
    const READ_TIMEOUT: &'static str = "SELECT CAST(@@SESSION.innodb_lock_wait_timeout AS CHAR)";
    const EXPIRE: &'static str =
        "UPDATE tenure_lock SET ends = UTC_TIMESTAMP(6), version = version + 1 WHERE name = ?";
    const OTHER: Dialect = Dialect::Postgres;
}

async fn connect(url: &str) -> Conn {
    let url = url.replacen("mariadb://", "mysql://", 1);
    let opts = Opts::from_url(&url).unwrap();
    let opts = mysql_async::OptsBuilder::from_opts(opts).prefer_socket(false);
    Conn::new(opts).await.unwrap()
}

#[tokio::test]
async fn a_way_back_to_a_savepoint_keeps_what_was_locked_behind_it() {
    let locks = client(&Mysql::Mariadb).await;
    let row = locks.row(&name("behind"));
    let mut a = Mysql::Mariadb.connect().await;
    let mut b = Mysql::Mariadb.connect().await;
    let mut first = Mysql::begin(&mut a, None).await;
    // A savepoint at the very start is the start: the way back to it ends everything.
    locks
        .row(&name("before"))
        .lock_in(&mut first)
        .await
        .unwrap();
    run(&mut first, "SAVEPOINT before_it").await;
    row.lock_in(&mut first).await.unwrap();
    run(&mut first, "ROLLBACK TO SAVEPOINT before_it").await;
    let mut second = Mysql::begin(&mut b, None).await;
    assert!(!row.try_lock_in(&mut second).await.unwrap());
    Mysql::commit(first).await.unwrap();
    assert!(row.try_lock_in(&mut second).await.unwrap());
}

#[tokio::test]
async fn names_side_by_side_are_locked_without_gaps() {
    let locks = client(&Mysql::Mariadb).await;
    let mut a = Mysql::Mariadb.connect().await;
    let mut b = Mysql::Mariadb.connect().await;
    let name = name("gap");
    let mut first = Mysql::begin(&mut a, Some("SERIALIZABLE")).await;
    locks.row(&name).lock_in(&mut first).await.unwrap();
    // New rows on both sides of a row that is locked.
    let mut second = Mysql::begin(&mut b, Some("SERIALIZABLE")).await;
    for near in ["", "0", "z"] {
        let near = locks.row(&format!("gap{near}{name}"));
        assert!(near.try_lock_in(&mut second).await.unwrap());
    }
}

/// A server that undoes transactions that wait for too long, with a user who may not make tables.
fn strict_server() -> MariaDbServer {
    MariaDbServer::builder()
        .setting("innodb_rollback_on_timeout", "ON")
        .user(
            "least",
            "secret",
            &["SELECT, INSERT, UPDATE, DELETE ON test.*"],
        )
        .start()
        .unwrap()
}

#[tokio::test]
async fn missing_rights_and_strict_timeouts_are_told() {
    let server = strict_server();
    let own = Mysql::At(server.url());
    let locks = client(&own).await;

    // A user who may not make the table is told what to run.
    let least = Mysql::At(server.url_as("least", "secret"));
    let few = client_with(&least, "").await;
    let mut connection = own.connect().await;
    let mut tx = Mysql::begin(&mut connection, None).await;
    let refused = few.row("a").lock_in(&mut tx).await;
    let Err(error @ Error::Unavailable { .. }) = refused else {
        panic!("{refused:?}");
    };
    assert!(!error.may_pass());
    let why = std::error::Error::source(&error).unwrap().to_string();
    for part in [
        "CREATE TABLE IF NOT EXISTS tenure_row",
        "GRANT SELECT, INSERT",
    ] {
        assert!(why.contains(part), "{why}");
    }
    locks.row("a").lock_in(&mut tx).await.unwrap();

    // With innodb_rollback_on_timeout a lock that is not free ends the whole transaction, and it must not go on.
    let counter = Counter::make(&own).await;
    let mut other = own.connect().await;
    let mut second = Mysql::begin(&mut other, None).await;
    run(&mut second, &counter.add()).await;
    let refused = few.row("a").try_lock_in(&mut second).await;
    assert!(
        matches!(&refused, Err(Error::Conflict { .. })),
        "{refused:?}"
    );
    Mysql::rollback(second).await;
    assert_eq!(counter.number(&own).await, "0");
}

#[expect(dead_code, reason = "its main is not called here")]
#[path = "../../examples/stock_mysql.rs"]
mod stock;

#[tokio::test]
async fn the_example_sells_each_item_once() {
    let sold = stock::run(&shared::mariadb().unwrap()).await.unwrap();
    assert_eq!(sold, [20; 4]);
}
